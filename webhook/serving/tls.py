"""Provides the TLS context of the listeners, and replaces it when the files have a new valid certificate."""

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
from webhook import messages

TLS12_CIPHERS = "ECDHE+AESGCM:ECDHE+CHACHA20"
"""The ciphers for TLS 1.2: with forward secrecy and authenticated encryption, as all ciphers of TLS 1.3."""

log = logging.getLogger("webhook.tls")


@dataclass(frozen=True, slots=True)
class DatedContext:
    """The TLS context of a certificate and its key, and the validity of the certificate in UTC."""

    context: ssl.SSLContext
    begins: datetime
    expires: datetime

    def is_valid(self, now: datetime) -> bool:
        """Returns whether the certificate is valid at the time ``now``."""
        return self.begins <= now < self.expires


def new_context(certificate: Path, key: Path) -> ssl.SSLContext:
    """Returns the TLS context of a server, for TLS 1.2 or later with ALPN ``http/1.1``.

    Args:
        certificate: The PEM file with the certificate and its chain.
        key: The PEM file with the private key, not encrypted.

    Raises:
        UnusableError: The files are not a certificate and its unencrypted key, or cannot be read.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_COMPRESSION | ssl.OP_NO_RENEGOTIATION
    context.set_ciphers(TLS12_CIPHERS)
    context.set_alpn_protocols(["http/1.1"])
    try:
        context.load_cert_chain(certificate, key, password=_no_password)
    except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
        raise UnusableError(messages.unusable_pair(certificate, key, error)) from error
    return context


def _no_password() -> NoReturn:
    # Without this function, OpenSSL would ask for a password on the terminal, and the server would wait.
    raise ValueError(messages.ENCRYPTED_KEY)


class TlsFiles:
    """Provides the TLS context of a certificate file and a key file, which may change.

    The old context stays in use if the new files cannot be used, or if only the old certificate is valid. A
    connection uses either the old context or the new context.

    Attributes:
        certificate: The PEM file with the certificate and its chain.
        key: The PEM file with the private key.
    """

    def __init__(self, certificate: Path, key: Path) -> None:
        """Loads the files for the first time.

        Raises:
            UnusableError: The files are not usable.
            OSError: The certificate file cannot be read.
        """
        self.certificate, self.key = certificate, key
        self._in_use: DatedContext | None = None
        name = f"TLS certificate {certificate}"
        self.watched = Watched(name, lambda: (certificate, key), self._load, log)

    def context(self) -> ssl.SSLContext:
        """Returns the context for a new connection, from the newest files that are usable."""
        return self.watched.refresh().context

    @property
    def expires(self) -> datetime:
        """Returns the time at which the certificate in use ends, in UTC."""
        return self.watched.value.expires

    def _load(self) -> DatedContext:
        pem = self.certificate.read_bytes()
        context = new_context(self.certificate, self.key)
        if self.certificate.read_bytes() != pem:  # the context may have another certificate than `pem`
            raise UnusableError(messages.changed_while_read(self.certificate), time.time())
        try:
            leaf = x509.load_pem_x509_certificate(pem)
        except ValueError as error:
            raise UnusableError(messages.unusable(self.certificate, error)) from error
        new = DatedContext(context, leaf.not_valid_before_utc, leaf.not_valid_after_utc)
        now, old = datetime.now(UTC), self._in_use
        if old and old.is_valid(now) and not new.is_valid(now):
            message = messages.not_valid_yet(self.certificate, stamp(new.begins))
            if new.expires <= now:
                message = messages.expired(self.certificate, stamp(new.expires))
            retry_time = new.begins if new.begins > now else old.expires
            raise UnusableError(message, min(retry_time, old.expires).timestamp())
        self._in_use = new
        return new
