"""The listener's TLS context, kept until the certificate files hold another matching pair."""

from __future__ import annotations

import os
import ssl
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cryptography import x509

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime
    from pathlib import Path

TLS12_CIPHERS = "ECDHE+AESGCM:ECDHE+CHACHA20"
"""Forward secret, authenticated ciphers for TLS 1.2; TLS 1.3's own are all fit."""


@dataclass(frozen=True, slots=True)
class TlsStatus:
    """What readiness and metrics need to know of the certificate.

    Attributes:
        expires: When the certificate in use ends, UTC.
        reloads: How often another pair was taken up since the start.
        failures: How many changed pairs could not be used.
        error: Why the files, as they are now, cannot be used; empty when they are in use.
    """

    expires: datetime
    reloads: int
    failures: int
    error: str


def new_context(certificate: Path, key: Path) -> ssl.SSLContext:
    """Make a server's TLS context.

    Args:
        certificate: PEM file with the certificate and its chain.
        key: PEM file with the private key.

    Returns:
        TLS 1.2 or later, ALPN ``http/1.1``, session tickets.

    Raises:
        ValueError: A file cannot be read, or they are no matching pair.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_COMPRESSION | ssl.OP_NO_RENEGOTIATION
    context.set_ciphers(TLS12_CIPHERS)
    context.set_alpn_protocols(["http/1.1"])
    try:
        context.load_cert_chain(certificate, key)
    except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
        raise ValueError(f"{certificate} and {key} cannot be used: {error}") from error
    return context


class TlsFiles:
    """The TLS context of a certificate and a key file, rebuilt when they change and match.

    A pair of which only one half has been written does not match; the old context stays in use until the
    other half is there. One context for all connections is what makes session tickets work, and saves
    reading and checking the key for every connection. Its methods may be called from any thread.
    """

    def __init__(self, certificate: Path, key: Path, say: Callable[[str], object]) -> None:
        """Load the pair for the first time.

        Args:
            certificate: PEM file with the certificate and its chain.
            key: PEM file with the private key.
            say: Takes a sentence for the log.

        Raises:
            ValueError: The files cannot be used.
        """
        self._certificate = certificate
        self._key = key
        self.say = say
        self._lock = threading.Lock()
        self._reloads = self._failures = 0
        self._error = ""
        self._seen = self._signature()
        self._context, self._expires = self._load()

    def context(self) -> ssl.SSLContext:
        """The context for a new connection, of the newest usable pair."""
        if self._signature() != self._seen and self._lock.acquire(blocking=False):
            # One thread reloads; the others need not wait, the old context serves them.
            try:
                self._reload()
            finally:
                self._lock.release()
        return self._context

    def status(self) -> TlsStatus:
        """What is in use, after a look at the files."""
        self.context()
        return TlsStatus(self._expires, self._reloads, self._failures, self._error)

    def _signature(self) -> tuple[tuple[int, ...], ...]:
        """What tells one version of the files from another; missing files have one, too."""
        return tuple(_identity(path) for path in (self._certificate, self._key))

    def _reload(self) -> None:
        # Taken before reading: files that change meanwhile differ from it, and are read again.
        self._seen = self._signature()
        try:
            self._context, self._expires = self._load()
        except ValueError as error:
            self._failures += 1
            self._error = str(error)
            self.say(f"keeping the TLS certificate in use until {self._expires:%Y-%m-%dT%H:%M:%SZ}: {error}")
        else:
            self._reloads += 1
            self._error = ""
            self.say(f"took up the TLS certificate that ends {self._expires:%Y-%m-%dT%H:%M:%SZ}")

    def _load(self) -> tuple[ssl.SSLContext, datetime]:
        context = new_context(self._certificate, self._key)
        try:
            leaf = x509.load_pem_x509_certificate(self._certificate.read_bytes())
        except OSError as error:
            raise ValueError(f"{self._certificate} went away while it was read: {error}") from error
        return context, leaf.not_valid_after_utc


def _identity(path: Path) -> tuple[int, ...]:
    """Inode, size and time of change; follows links, which is how a mounted Secret is swapped."""
    try:
        found = os.stat(path)  # noqa: PTH116 - half the cost of Path.stat, and this is asked per handshake
    except OSError as error:
        return (error.errno or -1,)
    return (found.st_ino, found.st_size, found.st_mtime_ns)
