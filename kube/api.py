"""What calls of an API server are about: JSON objects, and the ways they fail. `kube.client` makes them."""

from typing import Any

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


def leases(namespace: str) -> str:
    """The collection of a namespace's Leases."""
    return f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"


def guarded(version: str, operations: list[Object]) -> list[Object]:
    """A JSON patch that applies to an object of this ``resourceVersion`` only.

    Naming the resourceVersion makes the API server answer Conflict if the object was changed since it was
    read; without it, the API server would retry the patch on the newer object.
    """
    return [{"op": "replace", "path": "/metadata/resourceVersion", "value": version}, *operations]
