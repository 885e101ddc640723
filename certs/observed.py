"""What is stored, read once: the Secrets and the caBundles, as certificates instead of JSON. Pure."""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cryptography import x509
from cryptography.hazmat.primitives import serialization

from certs.authority import CertificateError, Pair, load
from common.times import time_of

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from kube.api import Object

TRUSTED_SINCE = "ultraserver-webhook.io/trusted-since"
"""Annotation of the authority's Secret: since when every caBundle has held the whole bundle."""

STORED_AT = "ultraserver-webhook.io/stored-at"
"""Annotation of the serving Secret: when its leaf was written; a provided leaf is older than that."""

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
        noted: The instant that is noted on it, see `TRUSTED_SINCE` and `STORED_AT`; None when none is.
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


def read_secret(name: str, raw: Object | None, note: str, *, signs: bool = False) -> PairSecret:
    """Read a Secret, whatever is in it.

    Args:
        name: Its name.
        raw: As read.
        note: The annotation with its instant.
        signs: See `certs.authority.load`.
    """
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
    if b"-----BEGIN CERTIFICATE-----" not in pem:
        return frozenset()
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


def _decode(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return b""
