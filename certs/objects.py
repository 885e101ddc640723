"""The JSON that is written, Secrets and patches, and where it is in the API server. Pure."""

from __future__ import annotations

import base64
import copy
from typing import TYPE_CHECKING

from certs.observed import STORED_AT, TRUSTED_SINCE, bundle_pem
from kube.api import guarded

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from certs.authority import Pair
    from certs.observed import Bundle, Hook, ServingSecret
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


def authority_secret(
    raw: Object | None, name: str, pair: Pair, bundle: Bundle, trusted_since: datetime | None
) -> Object:
    """The authority's Secret.

    Args:
        raw: The Secret as read, which is changed and not begun anew; None to create it.
        name: Its name.
        pair: The authority that signs from now on.
        bundle: All authorities that are to be trusted.
        trusted_since: See `certs.observed.TRUSTED_SINCE`.
    """
    since = trusted_since.isoformat() if trusted_since else None
    return _secret(raw, name, _files(pair, bundle), {TRUSTED_SINCE: since})


def serving_secret(raw: Object | None, name: str, leaf: Pair, bundle: Bundle, now: datetime) -> Object:
    """The serving Secret with another leaf; arguments as for `authority_secret`."""
    return _secret(raw, name, _files(leaf, bundle), {STORED_AT: now.isoformat()})


def provided_secret(
    raw: Object | None, name: str, provided: ServingSecret, bundle: Bundle, now: datetime
) -> Object:
    """The serving Secret with the provided chain and key, byte for byte."""
    data = (provided.raw or {})["data"]
    files = {key: base64.b64decode(data[key]) for key in ("tls.crt", "tls.key")}
    return _secret(raw, name, {**files, "ca.crt": bundle_pem(bundle)}, {STORED_AT: now.isoformat()})


def with_bundle(raw: Object, name: str, bundle: Bundle) -> Object:
    """A Secret with another ``ca.crt``, and all else as it is."""
    return _secret(raw, name, {"ca.crt": bundle_pem(bundle)}, {})


def trust_patch(hook: Hook, bundle: Bundle) -> list[Object]:
    """The JSON patch after which every webhook of a configuration trusts ``bundle``; only what differs."""
    value = base64.b64encode(bundle_pem(bundle)).decode()
    operations: list[Object] = [
        {"op": "add", "path": f"/webhooks/{index}/clientConfig/caBundle", "value": value}
        for index, held in enumerate(hook.bundles)
        if held != bundle
    ]
    return guarded(hook.raw or {}, operations)


def _files(pair: Pair, bundle: Bundle) -> dict[str, bytes]:
    return {"tls.crt": pair.certificate_pem(), "tls.key": pair.key_pem(), "ca.crt": bundle_pem(bundle)}


def _secret(
    raw: Object | None, name: str, files: Mapping[str, bytes], annotations: Mapping[str, str | None]
) -> Object:
    new = {
        "apiVersion": "v1",
        "kind": "Secret",
        "type": "kubernetes.io/tls",
        "metadata": {"name": name, "labels": dict(LABELS)},
    }
    secret: Object = copy.deepcopy(raw) if raw else new
    secret["data"] = {
        **(secret.get("data") or {}),
        **{key: base64.b64encode(value).decode() for key, value in files.items()},
    }
    held = {**(secret["metadata"].get("annotations") or {}), **annotations}
    secret["metadata"]["annotations"] = {key: value for key, value in held.items() if value is not None}
    return secret
