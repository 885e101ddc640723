"""The Secrets and webhook configurations: their paths, their certificates, and their JSON. Pure."""

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
from kube.api import Object, guarded

LABELS = {
    "app.kubernetes.io/part-of": "ultraserver-webhook",
    "app.kubernetes.io/managed-by": "ultraserver-webhook-certs",
}
"""Labels of the objects that this program creates, so that an uninstallation finds them."""

Bundle = frozenset[x509.Certificate]
"""Authorities that are trusted together, in no order."""


@dataclass(frozen=True, slots=True)
class PairSecret:
    """A Secret with a pair: the authority's, the one that serving pods mount, or the provided one.

    Attributes:
        name: The Secret's name.
        raw: The Secret as read; None if it does not exist.
        pair: A certificate with its key; None if there is none.
        problem: Why there is no pair.
        bundle: The authorities in its ``ca.crt``.
        noted: The time in an annotation, `TRUSTED_SINCE` or `STORED_AT` of `contract.keys`.
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
        name: The configuration's name.
        raw: The configuration as read; None if it does not exist.
        bundles: The authorities in the caBundle of each webhook; empty if it is missing or not readable.
    """

    kind: str
    name: str
    raw: Object | None
    bundles: tuple[Bundle, ...]


def secrets(namespace: str) -> str:
    """Returns the path of the collection of a namespace's Secrets."""
    return f"/api/v1/namespaces/{namespace}/secrets"


def endpoint_slices(namespace: str, service: str) -> str:
    """Returns the path of the list of a Service's EndpointSlices."""
    selector = f"labelSelector=kubernetes.io%2Fservice-name%3D{service}"
    return f"/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices?{selector}"


def webhook_configuration(kind: str, name: str) -> str:
    """Returns the path of a webhook configuration; ``kind`` is ``mutating`` or ``validating``."""
    return f"/apis/admissionregistration.k8s.io/v1/{kind}webhookconfigurations/{name}"


def read_secret(name: str, raw: Object | None, note: str, *, signs: bool = False) -> PairSecret:
    """Returns a Secret of any content; ``note`` is the annotation with a time, for ``signs`` see `load`."""
    if raw is None:
        return PairSecret(name, None, None, messages.MISSING, frozenset())
    bundle = read_bundle(file(raw, "ca.crt"))
    try:
        pair = load(file(raw, "tls.crt"), file(raw, "tls.key"), signs=signs)
    except CertificateError as error:
        return PairSecret(name, raw, None, str(error), bundle)
    annotations = raw.get("metadata", {}).get("annotations") or {}
    return PairSecret(name, raw, pair, "", bundle, time_of(annotations.get(note)))


def read_hook(kind: str, name: str, raw: Object | None) -> Hook:
    """Returns a webhook configuration with the authorities in its caBundles."""
    entries = (raw or {}).get("webhooks") or []
    texts = (entry.get("clientConfig", {}).get("caBundle") or "" for entry in entries)
    return Hook(kind, name, raw, tuple(read_bundle(_decode(text)) for text in texts))


def read_bundle(pem: bytes) -> Bundle:
    """Returns the certificates of a PEM text; none if one of them cannot be read."""
    try:
        return frozenset(x509.load_pem_x509_certificates(pem))
    except ValueError:
        return frozenset()


def bundle_pem(bundle: Iterable[x509.Certificate]) -> bytes:
    """Returns certificates as PEM, the newest first; equal bundles give equal bytes."""
    ordered = sorted(bundle, key=lambda ca: (ca.not_valid_before_utc, ca.serial_number), reverse=True)
    return b"".join(ca.public_bytes(serialization.Encoding.PEM) for ca in ordered)


def file(raw: Object, key: str) -> bytes:
    """Returns a file of a Secret; empty if it has none."""
    return _decode((raw.get("data") or {}).get(key) or "")


def secret(held: PairSecret, files: Mapping[str, bytes], notes: Mapping[str, datetime | None]) -> Object:
    """Returns the changed Secret to write; all other fields stay as they were read.

    Args:
        held: The Secret as read.
        files: The files to set; others stay.
        notes: The annotations to set to a time, or to remove.
    """
    document: Object = copy.deepcopy(held.raw or {}) or {
        "apiVersion": "v1",
        "kind": "Secret",
        "type": "kubernetes.io/tls",
        "metadata": {"name": held.name, "labels": dict(LABELS)},
    }
    new = {key: base64.b64encode(value).decode() for key, value in files.items()}
    document["data"] = (document.get("data") or {}) | new
    annotations = document["metadata"].get("annotations") or {}
    others = {key: value for key, value in annotations.items() if key not in notes}
    noted = {key: instant.isoformat() for key, instant in notes.items() if instant}
    document["metadata"]["annotations"] = others | noted
    return document


def trust_patch(hook: Hook, bundle: Bundle) -> list[Object]:
    """Returns the JSON patch that makes every webhook of a configuration trust ``bundle``."""
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
