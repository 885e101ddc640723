"""Secrets and webhook configurations: their paths, their certificates, and their JSON. Pure."""

import base64
import copy
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from cryptography import x509
from cryptography.hazmat.primitives import serialization

from certs import messages
from certs.authority import CertificateError, Pair, load
from common.times import time_of
from kube.api import Object

LABELS = {
    "app.kubernetes.io/part-of": "ultraserver-webhook",
    "app.kubernetes.io/managed-by": "ultraserver-webhook-certs",
}
"""Labels of the objects that this program creates, so that an uninstallation finds them."""

Bundle = frozenset[x509.Certificate]
"""Authorities that are trusted together, in no order."""


@dataclass(frozen=True, slots=True)
class PairSecret:
    """A Secret with a pair: of the authority, of the leaf that serving pods mount, or of a provided leaf."""

    name: str  # the Secret's name
    raw: Object | None  # the Secret as read; None if it does not exist
    pair: Pair | None  # the certificate with its key; None if they are missing or cannot be read
    problem: str  # why the pair is None; empty if there is a pair
    bundle: Bundle  # the authorities in its ``ca.crt``
    # The time in annotation `TRUSTED_SINCE` or `STORED_AT`; None if the annotation or pair is missing.
    noted_time: datetime | None = None

    @property
    def certificate(self) -> x509.Certificate | None:
        """The pair's certificate; None without a pair."""
        return self.pair.certificate if self.pair else None


@dataclass(frozen=True, slots=True)
class Hook:
    """A webhook configuration."""

    kind: str  # ``mutating`` or ``validating``
    name: str  # the configuration's name
    raw: Object | None  # the configuration as read; None if it does not exist
    # For each webhook, the authorities in its caBundle, or an empty set if it cannot be read.
    bundles: tuple[Bundle, ...]


def secrets_path(namespace: str) -> str:
    """Returns the path of the collection of a namespace's Secrets."""
    return f"/api/v1/namespaces/{namespace}/secrets"


def endpoint_slices_path(namespace: str, service: str) -> str:
    """Returns the path of the list of a Service's EndpointSlices."""
    selector = f"labelSelector=kubernetes.io%2Fservice-name%3D{service}"
    return f"/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices?{selector}"


def webhook_configuration_path(kind: str, name: str) -> str:
    """Returns the path of a webhook configuration; ``kind`` is ``mutating`` or ``validating``."""
    return f"/apis/admissionregistration.k8s.io/v1/{kind}webhookconfigurations/{name}"


def read_secret(name: str, raw: Object | None, annotation: str, *, is_ca: bool = False) -> PairSecret:
    """Returns a Secret, which may be invalid. ``annotation`` has its `noted_time`, if there is a pair."""
    if raw is None:
        return PairSecret(name, None, None, messages.MISSING, frozenset())
    bundle = read_bundle(file_of(raw, "ca.crt"))
    try:
        pair = load(file_of(raw, "tls.crt"), file_of(raw, "tls.key"), is_ca=is_ca)
    except CertificateError as error:
        return PairSecret(name, raw, None, str(error), bundle)
    annotations = raw.get("metadata", {}).get("annotations") or {}
    return PairSecret(name, raw, pair, "", bundle, time_of(annotations.get(annotation)))


def read_hook(kind: str, name: str, raw: Object | None) -> Hook:
    """Reads a webhook configuration, with the authorities in its caBundles."""
    entries = (raw or {}).get("webhooks") or []
    texts = (entry.get("clientConfig", {}).get("caBundle") or "" for entry in entries)
    return Hook(kind, name, raw, tuple(read_bundle(_decode(text)) for text in texts))


def read_bundle(pem: bytes) -> Bundle:
    """Returns the certificates of a PEM text; an empty set if any of them cannot be read."""
    try:
        return frozenset(x509.load_pem_x509_certificates(pem))
    except ValueError:
        return frozenset()


def bundle_pem(bundle: Iterable[x509.Certificate]) -> bytes:
    """Returns certificates as PEM, the newest first; equal bundles give equal bytes."""
    ordered = sorted(bundle, key=lambda ca: (ca.not_valid_before_utc, ca.serial_number), reverse=True)
    return b"".join(ca.public_bytes(serialization.Encoding.PEM) for ca in ordered)


def file_of(raw: Object, key: str) -> bytes:
    """Returns a file of a Secret; empty if the file is missing, or is not Base64."""
    return _decode((raw.get("data") or {}).get(key) or "")


def changed_secret(
    stored: PairSecret, files: Mapping[str, bytes], times: Mapping[str, datetime | None]
) -> Object:
    """Returns the Secret to write, with changed files and annotations. Other fields stay as they were read.

    Args:
        stored: The Secret as it was read.
        files: The files to change.
        times: The time for each annotation to change; None removes the annotation.
    """
    document: Object = copy.deepcopy(stored.raw or {}) or {
        "apiVersion": "v1",
        "kind": "Secret",
        "type": "kubernetes.io/tls",
        "metadata": {"name": stored.name, "labels": dict(LABELS)},
    }
    data = {key: base64.b64encode(value).decode() for key, value in files.items()}
    document["data"] = (document.get("data") or {}) | data
    annotations = document["metadata"].get("annotations") or {}
    kept_annotations = {key: value for key, value in annotations.items() if key not in times}
    new_annotations = {key: instant.isoformat() for key, instant in times.items() if instant}
    document["metadata"]["annotations"] = kept_annotations | new_annotations
    return document


def trust_patch(hook: Hook, bundle: Bundle) -> list[Object]:
    """Returns the JSON patch that replaces those caBundles of a configuration that differ from ``bundle``."""
    ca_bundle = base64.b64encode(bundle_pem(bundle)).decode()
    version = (hook.raw or {}).get("metadata", {}).get("resourceVersion", "")
    # With the resourceVersion, the API server answers Conflict if the object has changed since it was read.
    return [{"op": "replace", "path": "/metadata/resourceVersion", "value": version}] + [
        {"op": "add", "path": f"/webhooks/{index}/clientConfig/caBundle", "value": ca_bundle}
        for index, trusted in enumerate(hook.bundles)
        if trusted != bundle
    ]


def _decode(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except ValueError:
        return b""
