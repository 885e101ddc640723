"""The listener's TLS context, replaced when the certificate files hold another valid pair."""

import logging
import ssl
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import NoReturn

from cryptography import x509

from common.times import stamp
from common.watched import UnusableError, Watched

TLS12_CIPHERS = "ECDHE+AESGCM:ECDHE+CHACHA20"
"""Forward secret, authenticated ciphers for TLS 1.2; all of TLS 1.3's are suitable."""

log = logging.getLogger("webhook.tls")


@dataclass(frozen=True, slots=True)
class Served:
    """A context and the validity of its certificate, in UTC."""

    context: ssl.SSLContext
    begins: datetime
    expires: datetime

    def is_valid(self, now: datetime) -> bool:
        """Returns whether the certificate is valid at that time."""
        return self.begins <= now < self.expires


def new_context(certificate: Path, key: Path) -> ssl.SSLContext:
    """Returns a server's TLS context.

    Args:
        certificate: PEM file with the certificate and its chain.
        key: PEM file with the private key, not encrypted.

    Returns:
        TLS 1.2 or later, ALPN ``http/1.1``, session tickets.

    Raises:
        UnusableError: A file cannot be read, or the files do not match.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_COMPRESSION | ssl.OP_NO_RENEGOTIATION
    context.set_ciphers(TLS12_CIPHERS)
    context.set_alpn_protocols(["http/1.1"])
    try:
        context.load_cert_chain(certificate, key, password=_no_password)
    except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
        raise UnusableError(f"{certificate} and {key} cannot be used: {error}") from error
    return context


def _no_password() -> NoReturn:
    # Without this OpenSSL would ask for a password on the terminal, and the server would wait.
    raise ValueError("the key is encrypted; write it without a password")


class TlsFiles:
    """The TLS context of a certificate and a key file, recreated when they change and are valid.

    A pair of which only one half has been written does not match, and a pair that is not valid now does not
    replace a valid one: the old context stays in use. The new context replaces the old one as a whole, so
    that no connection uses half of a change.

    Attributes:
        certificate: PEM file with the certificate and its chain.
        key: PEM file with the private key.
    """

    def __init__(self, certificate: Path, key: Path) -> None:
        """Loads the pair for the first time.

        Raises:
            UnusableError: The files are not usable.
        """
        self.certificate, self.key = certificate, key
        self._served: Served | None = None
        what = f"TLS certificate {certificate}"
        self.watched = Watched(what, lambda: (certificate, key), self._load, log)

    def context(self) -> ssl.SSLContext:
        """Returns the context for a new connection, of the newest usable pair."""
        return self.watched.refresh().context

    @property
    def expires(self) -> datetime:
        """When the certificate in use ends, UTC."""
        return self.watched.value.expires

    def _load(self) -> Served:
        pem = self.certificate.read_bytes()
        context = new_context(self.certificate, self.key)
        if self.certificate.read_bytes() != pem:  # otherwise the dates would be those of another certificate
            raise UnusableError(f"{self.certificate} changed while it was read", time.time())
        try:
            leaf = x509.load_pem_x509_certificate(pem)
        except ValueError as error:
            raise UnusableError(f"{self.certificate} cannot be used: {error}") from error
        new = Served(context, leaf.not_valid_before_utc, leaf.not_valid_after_utc)
        now, served = datetime.now(UTC), self._served
        if served and served.is_valid(now) and not new.is_valid(now):
            why = f"is not valid before {stamp(new.begins)}"
            if new.expires <= now:
                why = f"has expired on {stamp(new.expires)}"
            again = new.begins if new.begins > now else served.expires
            message = f"{self.certificate} {why}, and the one in use is valid"
            raise UnusableError(message, min(again, served.expires).timestamp())
        self._served = new
        return new
