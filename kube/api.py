"""JSON objects of an API server, and the errors of its calls. `kube.client` makes the calls."""

from typing import Any

Object = dict[str, Any]
"""A Kubernetes object as JSON. It is kept whole, so that a replacement keeps the fields of others."""


class ApiError(Exception):
    """The API server refused or is unreachable; the message has the verb, the path and the reason."""


class ConflictError(ApiError):
    """Another client wrote first. That is normal: read again and decide again."""


class ForbiddenError(ApiError):
    """The account lacks a right (403); the message says which."""


class GoneError(ApiError):
    """A resourceVersion or a page token is too old (410): list again."""


def leases(namespace: str) -> str:
    """Returns the path of the collection of a namespace's Leases."""
    return f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"


def guarded(version: str, operations: list[Object]) -> list[Object]:
    """Returns a JSON patch that applies only to an object of this ``resourceVersion``.

    With the resourceVersion in the patch, the API server answers Conflict if the object was changed since it
    was read; without it, the API server would retry the patch on the newer object.
    """
    return [{"op": "replace", "path": "/metadata/resourceVersion", "value": version}, *operations]
