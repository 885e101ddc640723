"""JSON objects of an API server, and the errors of its calls. `kube.client` makes the calls."""

from typing import Any

Object = dict[str, Any]
"""A Kubernetes object as JSON, with all fields, so that a replacement keeps the fields of other writers."""


class ApiError(Exception):
    """The API server refuses a call or is unreachable. The message has the verb, the path and the reason."""


class ConflictError(ApiError):
    """Another client wrote first. This is normal: the caller reads the object again and decides again."""


class ForbiddenError(ApiError):
    """The API server answers 403: the account lacks a right, or an admission check refuses the object."""


class GoneError(ApiError):
    """A resourceVersion or a page token is too old (410): the caller lists again."""


def leases_path(namespace: str) -> str:
    """Returns the path of the collection of a namespace's Leases."""
    return f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"
