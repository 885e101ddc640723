"""Certificates for a developer's own machine: made when missing, kept while they are good."""

from __future__ import annotations

import os
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from cryptography import x509

from certs import authority

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

LIFETIME = timedelta(days=30)
KEEP_FOR = timedelta(days=1)
"""Files that are good for less than this are made again, so that they do not end in mid-session."""

DEFAULT_HOSTS = ("localhost", "127.0.0.1", "::1")


def ensure(directory: Path, hosts: Sequence[str], now: datetime) -> tuple[str, datetime]:
    """Have ``ca.crt``, ``tls.crt`` and ``tls.key`` for hosts in a directory, which is made when missing.

    The authority's key is thrown away once it has signed: whoever trusts ``ca.crt`` trusts one
    certificate, and a stolen directory signs no other.

    Returns:
        Why they were made, as the end of a sentence, empty where they were kept; and when the serving
        certificate ends.

    Raises:
        CertificateError: A host is malformed.
        OSError: The directory cannot be written.
    """
    lacking, expires = _lacking(directory, hosts, now)
    if not lacking and expires is not None:
        return "", expires
    signer = authority.new_authority(now, LIFETIME)
    leaf = authority.issue(signer, now, LIFETIME, hosts)
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    _write(directory / "ca.crt", signer.certificate_pem(), 0o644)
    # The key first: a server that watches takes up a pair when it matches.
    _write(directory / "tls.key", leaf.key_pem(), 0o600)
    _write(directory / "tls.crt", leaf.certificate_pem(), 0o644)
    return lacking, leaf.certificate.not_valid_after_utc


def _write(path: Path, content: bytes, mode: int) -> None:
    """Recreate a file, with its permissions from its first moment."""
    path.unlink(missing_ok=True)
    path.touch(mode)
    path.write_bytes(content)


def _lacking(directory: Path, hosts: Sequence[str], now: datetime) -> tuple[str, datetime | None]:
    """Why the files cannot stay, or an empty reason and their end."""
    try:
        ca = x509.load_pem_x509_certificate((directory / "ca.crt").read_bytes())
        pair = authority.load((directory / "tls.crt").read_bytes(), (directory / "tls.key").read_bytes())
    except FileNotFoundError as error:
        return f"there was no {os.path.basename(error.filename)}", None  # noqa: PTH119
    except ValueError as error:
        return str(error), None
    if not authority.signed_by(pair.certificate, ca):
        return "tls.crt was not signed by ca.crt", None
    expires = min(pair.certificate.not_valid_after_utc, ca.not_valid_after_utc)
    if expires - now < KEEP_FOR:
        return f"it was valid until {expires:%Y-%m-%d %H:%M} UTC only", None
    missing = authority.lacking(pair.certificate, hosts)
    return (f"it lacked {', '.join(missing)}" if missing else ""), expires
