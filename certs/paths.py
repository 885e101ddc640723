"""Where the objects of the certificates are in the API server's REST interface."""

from __future__ import annotations


def secrets(namespace: str) -> str:
    """The collection of a namespace's Secrets."""
    return f"/api/v1/namespaces/{namespace}/secrets"


def endpoint_slices(namespace: str, service: str) -> str:
    """The EndpointSlices of a Service, as a list."""
    selector = f"labelSelector=kubernetes.io%2Fservice-name%3D{service}"
    return f"/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices?{selector}"


def webhook_configuration(kind: str, name: str) -> str:
    """A webhook configuration; ``kind`` is ``mutating`` or ``validating``."""
    return f"/apis/admissionregistration.k8s.io/v1/{kind}webhookconfigurations/{name}"
