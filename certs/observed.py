"""What is stored, read once: the Secrets and the caBundles, as certificates instead of JSON. Pure."""

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

    from kube.api import Object

TRUSTED_SINCE = "ultraserver-webhook.io/trusted-since"
"""Annotation of the authority's Secret: since when every caBundle has held the whole bundle."""

STORED_AT = "ultraserver-webhook.io/stored-at"
"""Annotation of the serving Secret: when its leaf was written; a provided leaf is older than that."""

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
    """A Secret with a serving certificate: the one that the serving pods mount, or the provided one.

    Attributes:
        raw: The Secret as read; None when it does not exist.
        chain: The serving certificate and the intermediate authorities behind it; empty when there is no
            certificate with its own key.
        problem: Why there is none.
        bundle: What ``ca.crt`` holds.
        stored_at: See `STORED_AT`; None when nothing was noted.
    """

    raw: Object | None
    chain: tuple[x509.Certificate, ...]
    problem: str
    bundle: Bundle
    stored_at: datetime | None = None

    @property
    def leaf(self) -> x509.Certificate | None:
        """The serving certificate."""
        return self.chain[0] if self.chain else None


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
        provided: The Secret with a certificate from elsewhere, which is only read.
    """

    authority: AuthoritySecret
    serving: ServingSecret
    hooks: tuple[Hook, ...]
    provided: ServingSecret


def read_authority(raw: Object | None) -> AuthoritySecret:
    """Read the authority's Secret, whatever is in it."""
    if raw is None:
        return AuthoritySecret(None, None, "it does not exist", frozenset(), None)
    pair, problem = None, ""
    try:
        pair = load(_data(raw, "tls.crt"), _data(raw, "tls.key"))
    except CertificateError as error:
        problem = str(error)
    since = _instant(raw, TRUSTED_SINCE)
    return AuthoritySecret(raw, pair, problem, read_bundle(_data(raw, "ca.crt")), since)


def read_serving(raw: Object | None) -> ServingSecret:
    """Read a serving Secret, whatever is in it. Any kind of key will do, others' certificates included."""
    if raw is None:
        return ServingSecret(None, (), "it does not exist", frozenset())
    bundle = read_bundle(_data(raw, "ca.crt"))
    try:
        chain = tuple(x509.load_pem_x509_certificates(_data(raw, "tls.crt")))
        key = serialization.load_pem_private_key(_data(raw, "tls.key"), password=None)
        same = chain[0].public_key() == key.public_key()
    except Exception as error:  # noqa: BLE001 - ValueError, TypeError, UnsupportedAlgorithm: unreadable, whichever
        return ServingSecret(raw, (), f"its certificate or key cannot be read: {error}", bundle)
    if not same:
        return ServingSecret(raw, (), "its private key is not the certificate's", bundle)
    return ServingSecret(raw, chain, "", bundle, _instant(raw, STORED_AT))


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


def _instant(raw: Object, annotation: str) -> datetime | None:
    annotations = raw.get("metadata", {}).get("annotations") or {}
    try:
        found = datetime.fromisoformat(annotations.get(annotation, ""))
    except ValueError:
        return None
    return found if found.tzinfo else None
