"""What the certificate program needs of an API server: four verbs on JSON objects, and two ways to fail."""

from __future__ import annotations

from typing import Any, Protocol

Object = dict[str, Any]
"""A Kubernetes object as JSON. Whole, so that what others put on it survives a replacement."""

ADMISSION = "/apis/admissionregistration.k8s.io/v1"


class StoreError(Exception):
    """The API server refused or could not be reached; the message has the verb, the object and the reason."""


class ConflictError(StoreError):
    """Somebody else wrote first. Normal: read again and decide again."""


class Api(Protocol):
    """An API server. Paths are those of its REST interface; versions guard every write."""

    def get(self, path: str) -> Object | None:
        """Read an object or a list.

        Returns:
            It, or None when it does not exist.

        Raises:
            StoreError: It cannot be read.
        """

    def create(self, path: str, document: Object) -> Object:
        """Create an object in the collection ``path``.

        Raises:
            ConflictError: It exists already.
            StoreError: It cannot be created.
        """

    def replace(self, path: str, document: Object) -> Object:
        """Replace an object, if it still has the ``resourceVersion`` of ``document``.

        Raises:
            ConflictError: It has another one, or was deleted.
            StoreError: It cannot be replaced.
        """

    def patch(self, path: str, operations: list[Object]) -> Object:
        """Apply a JSON patch, which names the ``resourceVersion`` that it is for.

        Raises:
            ConflictError: The object has another one, or was deleted.
            StoreError: It cannot be patched.
        """


def secrets(namespace: str) -> str:
    """The collection of a namespace's Secrets."""
    return f"/api/v1/namespaces/{namespace}/secrets"


def leases(namespace: str) -> str:
    """The collection of a namespace's Leases."""
    return f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"


def endpoint_slices(namespace: str, service: str) -> str:
    """The EndpointSlices of a Service, as a list."""
    selector = f"labelSelector=kubernetes.io%2Fservice-name%3D{service}"
    return f"/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices?{selector}"


def webhook_configuration(kind: str, name: str) -> str:
    """A webhook configuration; ``kind`` is ``mutating`` or ``validating``."""
    return f"{ADMISSION}/{kind}webhookconfigurations/{name}"
