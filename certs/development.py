"""Creates certificates for a developer's machine."""

import os
from collections.abc import Sequence
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path

from certs import authority

LIFETIME = timedelta(days=30)

DEFAULT_HOSTS = ("localhost", "127.0.0.1", "::1")


def make(directory: Path, hosts: Sequence[str], now: datetime) -> datetime:
    """Creates ``ca.crt``, ``tls.crt`` and ``tls.key`` in a directory, which is created if it is missing.

    The authority's key is not stored. So a client that trusts ``ca.crt`` trusts only one certificate, and a
    thief of the directory cannot sign another certificate.

    Returns:
        The time at which both certificates end.

    Raises:
        CertificateError: A host is empty or malformed.
        OSError: The directory cannot be written.
    """
    signer = authority.new_authority(now, LIFETIME)
    leaf = authority.issue(signer, now, LIFETIME, hosts)
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    _write(directory / "ca.crt", signer.certificate_pem(), 0o644)
    # Between the two writes, a server that watches the files keeps its old pair, because these do not match.
    _write(directory / "tls.key", leaf.key_pem(), 0o600)
    _write(directory / "tls.crt", leaf.certificate_pem(), 0o644)
    return leaf.certificate.not_valid_after_utc


def _write(path: Path, content: bytes, mode: int) -> None:
    """Replaces a file. The new file has its permissions from the start, and a link is not followed."""
    path.unlink(missing_ok=True)
    with open(path, "xb", opener=partial(os.open, mode=mode)) as file:
        file.write(content)
