"""What is stored, read once: two Secrets and the caBundles, as certificates instead of JSON. Pure."""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from cryptography import x509
from cryptography.hazmat.primitives import serialization

from certs.authority import CertificateError, Pair, load

if TYPE_CHECKING:
    from collections.abc import Iterable

    from certs.api import Object

TRUSTED_SINCE = "ultraserver-webhook.io/trusted-since"
"""Annotation of the authority's Secret: since when every caBundle has held the signing authority."""

Bundle = frozenset[x509.Certificate]
"""Authorities that are trusted together; their order means nothing."""


@dataclass(frozen=True, slots=True)
class AuthoritySecret:
    """The Secret with the authority's key, which serving pods do not mount.

    Attributes:
        raw: The Secret as read; None when it does not exist.
        pair: The signing authority; None when there is none that can be read.
        problem: Why there is none.
        bundle: All authorities that are to be trusted, as ``ca.crt`` has them.
        trusted_since: See `TRUSTED_SINCE`; None when not noted yet.
    """

    raw: Object | None
    pair: Pair | None
    problem: str
    bundle: Bundle
    trusted_since: datetime | None


@dataclass(frozen=True, slots=True)
class ServingSecret:
    """The Secret that the serving pods mount.

    Attributes:
        raw: The Secret as read; None when it does not exist.
        leaf: The serving certificate; None when there is no certificate with its own key.
        problem: Why there is none.
        bundle: What ``ca.crt`` holds.
    """

    raw: Object | None
    leaf: x509.Certificate | None
    problem: str
    bundle: Bundle


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


@dataclass(frozen=True, slots=True)
class Stored:
    """Everything that decisions are made from.

    Attributes:
        authority: The authority's Secret.
        serving: The serving Secret.
        hooks: The webhook configurations.
    """

    authority: AuthoritySecret
    serving: ServingSecret
    hooks: tuple[Hook, ...]


def read_authority(raw: Object | None) -> AuthoritySecret:
    """Read the authority's Secret, whatever is in it."""
    if raw is None:
        return AuthoritySecret(None, None, "it does not exist", frozenset(), None)
    pair, problem = None, ""
    try:
        pair = load(_data(raw, "tls.crt"), _data(raw, "tls.key"))
    except CertificateError as error:
        problem = str(error)
    annotations = raw.get("metadata", {}).get("annotations") or {}
    since = _instant(annotations.get(TRUSTED_SINCE, ""))
    return AuthoritySecret(raw, pair, problem, read_bundle(_data(raw, "ca.crt")), since)


def read_serving(raw: Object | None) -> ServingSecret:
    """Read the serving Secret, whatever is in it. Any kind of key will do, others' certificates included."""
    if raw is None:
        return ServingSecret(None, None, "it does not exist", frozenset())
    bundle = read_bundle(_data(raw, "ca.crt"))
    try:
        leaf = x509.load_pem_x509_certificate(_data(raw, "tls.crt"))
        key = serialization.load_pem_private_key(_data(raw, "tls.key"), password=None)
        same = leaf.public_key() == key.public_key()
    except Exception as error:  # noqa: BLE001 - ValueError, TypeError, UnsupportedAlgorithm: unreadable, whichever
        return ServingSecret(raw, None, f"its certificate or key cannot be read: {error}", bundle)
    if not same:
        return ServingSecret(raw, None, "its private key is not the certificate's", bundle)
    return ServingSecret(raw, leaf, "", bundle)


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


def _data(raw: Object, key: str) -> bytes:
    return _decode((raw.get("data") or {}).get(key) or "")


def _decode(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return b""


def _instant(text: str) -> datetime | None:
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return None
    return found if found.tzinfo else None
