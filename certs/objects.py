"""The Secrets and webhook configurations: where they are, read as certificates, and written as JSON. Pure."""

import base64
import copy
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from cryptography import x509
from cryptography.hazmat.primitives import serialization

from certs.authority import CertificateError, Pair, load
from common.times import time_of
from kube.api import Object, guarded

LABELS = {
    "app.kubernetes.io/part-of": "ultraserver-webhook",
    "app.kubernetes.io/managed-by": "ultraserver-webhook-certs",
}
"""On what this program creates, so that an uninstallation finds it."""

Bundle = frozenset[x509.Certificate]
"""Authorities that are trusted together; their order means nothing."""


@dataclass(frozen=True, slots=True)
class PairSecret:
    """A Secret with a pair: the authority's, the one that serving pods mount, or the provided one.

    Attributes:
        name: Its name.
        raw: The Secret as read; None when it does not exist.
        pair: A certificate with its own key; None when there is none.
        problem: Why there is none.
        bundle: The authorities that its ``ca.crt`` holds.
        noted: The instant that an annotation notes, `TRUSTED_SINCE` or `STORED_AT` of `contract.keys`.
    """

    name: str
    raw: Object | None
    pair: Pair | None
    problem: str
    bundle: Bundle
    noted: datetime | None = None

    @property
    def certificate(self) -> x509.Certificate | None:
        """The pair's certificate."""
        return self.pair.certificate if self.pair else None


@dataclass(frozen=True, slots=True)
class Hook:
    """A webhook configuration.

    Attributes:
        kind: ``mutating`` or ``validating``.
        name: Its name.
        raw: It as read; None when it does not exist.
        bundles: What the caBundle of each of its webhooks holds; empty when there is none or it cannot
            be read.
    """

    kind: str
    name: str
    raw: Object | None
    bundles: tuple[Bundle, ...]


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


def read_secret(name: str, raw: Object | None, note: str, *, signs: bool = False) -> PairSecret:
    """Read a Secret, whatever is in it; ``note``: the annotation with its instant, ``signs``: see `load`."""
    if raw is None:
        return PairSecret(name, None, None, "it does not exist", frozenset())
    bundle = read_bundle(file(raw, "ca.crt"))
    try:
        pair = load(file(raw, "tls.crt"), file(raw, "tls.key"), signs=signs)
    except CertificateError as error:
        return PairSecret(name, raw, None, str(error), bundle)
    annotations = raw.get("metadata", {}).get("annotations") or {}
    return PairSecret(name, raw, pair, "", bundle, time_of(annotations.get(note)))


def read_hook(kind: str, name: str, raw: Object | None) -> Hook:
    """Read a webhook configuration."""
    entries = (raw or {}).get("webhooks") or []
    texts = (entry.get("clientConfig", {}).get("caBundle") or "" for entry in entries)
    return Hook(kind, name, raw, tuple(read_bundle(_decode(text)) for text in texts))


def read_bundle(pem: bytes) -> Bundle:
    """The certificates of a PEM text; none when one of them cannot be read."""
    try:
        return frozenset(x509.load_pem_x509_certificates(pem))
    except ValueError:
        return frozenset()


def bundle_pem(bundle: Iterable[x509.Certificate]) -> bytes:
    """Certificates as PEM, the newest first; equal bundles give equal bytes."""
    ordered = sorted(bundle, key=lambda ca: (ca.not_valid_before_utc, ca.serial_number), reverse=True)
    return b"".join(ca.public_bytes(serialization.Encoding.PEM) for ca in ordered)


def file(raw: Object, key: str) -> bytes:
    """A file in a Secret; empty when there is none."""
    return _decode((raw.get("data") or {}).get(key) or "")


def secret(held: PairSecret, files: Mapping[str, bytes], notes: Mapping[str, datetime | None]) -> Object:
    """A Secret as it is to be written: what was read is changed and not begun again.

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
    return guarded((hook.raw or {}).get("metadata", {}).get("resourceVersion", ""), operations)


def _decode(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except ValueError:
        return b""
