"""Writes that are bound to the version that was read: whoever decided from an older one loses."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kube.api import Api, Object


def put(api: Api, collection: str, known: Object | None, document: Object) -> Object:
    """Write a whole object where it was last seen as ``known``.

    Args:
        api: The API server.
        collection: The path of the objects of its kind.
        known: It as read; None when it did not exist.
        document: What is wanted, with the ``resourceVersion`` of ``known``.

    Raises:
        ConflictError: It was changed, made or deleted since.
        ApiError: It cannot be written.
    """
    if known is None:
        return api.create(collection, document)
    return api.replace(f"{collection}/{document['metadata']['name']}", document)


def guarded(known: Object, operations: list[Object]) -> list[Object]:
    """A JSON patch that applies to the version of ``known`` only.

    Naming the resourceVersion makes the API server answer Conflict if the object was changed since it was
    read; without it, the API server would retry the patch on the newer object.
    """
    version = known.get("metadata", {}).get("resourceVersion", "")
    return [{"op": "replace", "path": "/metadata/resourceVersion", "value": version}, *operations]
