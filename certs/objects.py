"""The JSON that is written, Secrets and patches, and where it is in the API server. Pure."""

from __future__ import annotations

import base64
import copy
from typing import TYPE_CHECKING

from certs.observed import bundle_pem
from kube.api import guarded

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from certs.observed import Bundle, Hook, PairSecret
    from kube.api import Object

LABELS = {
    "app.kubernetes.io/part-of": "ultraserver-webhook",
    "app.kubernetes.io/managed-by": "ultraserver-webhook-certs",
}
"""On what this program creates, so that an uninstallation finds it."""


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


def secret(held: PairSecret, files: Mapping[str, bytes], notes: Mapping[str, datetime | None]) -> Object:
    """A Secret as it is to be written: what was read is changed and not begun anew.

    Args:
        held: As read.
        files: What it is to hold; others stay.
        notes: Annotations with an instant, or without.
    """
    wanted: Object = copy.deepcopy(held.raw or {}) or {
        "apiVersion": "v1",
        "kind": "Secret",
        "type": "kubernetes.io/tls",
        "metadata": {"name": held.name, "labels": dict(LABELS)},
    }
    new = {key: base64.b64encode(value).decode() for key, value in files.items()}
    wanted["data"] = (wanted.get("data") or {}) | new
    annotations = wanted["metadata"].get("annotations") or {}
    kept = {key: value for key, value in annotations.items() if key not in notes}
    noted = {key: instant.isoformat() for key, instant in notes.items() if instant}
    wanted["metadata"]["annotations"] = kept | noted
    return wanted


def trust_patch(hook: Hook, bundle: Bundle) -> list[Object]:
    """The JSON patch after which every webhook of a configuration trusts ``bundle``; only what differs."""
    value = base64.b64encode(bundle_pem(bundle)).decode()
    operations: list[Object] = [
        {"op": "add", "path": f"/webhooks/{index}/clientConfig/caBundle", "value": value}
        for index, held in enumerate(hook.bundles)
        if held != bundle
    ]
    return guarded(hook.raw or {}, operations)
