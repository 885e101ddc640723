"""What a program needs of an API server: calls with JSON objects, and the ways they fail."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from contextlib import AbstractContextManager

Object = dict[str, Any]
"""A Kubernetes object as JSON. Whole, so that what others put on it survives a replacement."""


class ApiError(Exception):
    """The API server refused or could not be reached; the message has the verb, the path and the reason."""


class ConflictError(ApiError):
    """Somebody else wrote first. Normal: read again and decide again."""


class ForbiddenError(ApiError):
    """The account lacks a right (403); the message says which."""


class GoneError(ApiError):
    """A resourceVersion or a page token is too old (410): list again."""


class ReadApi(Protocol):
    """An API server that is only read. Paths are those of its REST interface, a query included."""

    def get(self, path: str) -> Object | None:
        """Read an object or a list.

        Returns:
            It, or None when it does not exist.

        Raises:
            ApiError: It cannot be read.
        """

    def pages(self, path: str) -> Iterator[Object]:
        """Read a collection as lists of some hundred items, all of one resourceVersion.

        Raises:
            GoneError: It took so long that the next page is no longer known.
            ApiError: It cannot be read.
        """


class Api(ReadApi, Protocol):
    """An API server that is written to as well."""

    def create(self, path: str, document: Object) -> Object:
        """Create an object in the collection ``path``.

        Raises:
            ConflictError: It exists already.
            ApiError: It cannot be created.
        """

    def replace(self, path: str, document: Object) -> Object:
        """Replace an object, if it still has the ``resourceVersion`` of ``document``.

        Raises:
            ConflictError: It has another one, or was deleted.
            ApiError: It cannot be replaced.
        """

    def patch(self, path: str, operations: list[Object]) -> Object:
        """Apply a JSON patch; `guarded` binds it to a ``resourceVersion``.

        Raises:
            ConflictError: The object has another one, or was deleted.
            ApiError: It cannot be patched.
        """

    def delete(self, path: str, preconditions: Mapping[str, str] | None = None) -> None:
        """Delete an object; one that does not exist is no error.

        Args:
            path: Its path.
            preconditions: Its ``uid`` or ``resourceVersion``, if it is to be deleted only as that.

        Raises:
            ConflictError: It has another one.
            ApiError: It cannot be deleted.
        """


class WatchApi(ReadApi, Protocol):
    """An API server that is followed."""

    def stream(self, path: str) -> AbstractContextManager[Stream]:
        """Begin a watch.

        Raises:
            GoneError: The path's resourceVersion is too old.
            ApiError: It cannot be begun.
        """


class Stream(Protocol):
    """The events of a watch as they come, until the API server ends it or says nothing for long.

    Iterating raises `ApiError` when the connection breaks.
    """

    def __iter__(self) -> Iterator[Object]: ...

    def close(self) -> None:
        """End it, from any thread."""


def leases(namespace: str) -> str:
    """The collection of a namespace's Leases."""
    return f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"


def guarded(known: Object, operations: list[Object]) -> list[Object]:
    """A JSON patch that applies to the version of ``known`` only.

    Naming the resourceVersion makes the API server answer Conflict if the object was changed since it was
    read; without it, the API server would retry the patch on the newer object.
    """
    version = known.get("metadata", {}).get("resourceVersion", "")
    return [{"op": "replace", "path": "/metadata/resourceVersion", "value": version}, *operations]
