"""Serving certificates in files, as a mounted Secret has them, and pairs that cannot be used."""

import ssl
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography.hazmat.primitives import serialization

from certs import authority
from tests.helpers import noise

DAY = timedelta(days=1)
Texts = tuple[bytes | None, bytes | None]
"""Certificate and key; None for a file that is not there."""


@dataclass
class Files:
    """Certificate files of one authority."""

    directory: Path
    signer: authority.Pair

    @property
    def certificate(self) -> Path:
        """Where the server reads its certificate."""
        return self.directory / "tls.crt"

    @property
    def key(self) -> Path:
        """Where the server reads its key."""
        return self.directory / "tls.key"

    def issue(self, begins: timedelta = timedelta(), lifetime: timedelta = DAY) -> authority.Pair:
        """Returns a new pair for loopback, not yet in the files, that is valid from now or another time."""
        now = datetime.now(UTC) + begins
        return authority.issue(self.signer, now, lifetime, ["localhost", "127.0.0.1"])

    def write(self, pair: authority.Pair) -> None:
        """Puts a pair into the files."""
        self.key.write_bytes(pair.key_pem())
        self.certificate.write_bytes(pair.certificate_pem())

    def client_context(self) -> ssl.SSLContext:
        """Returns what an API server has: trust in this authority only."""
        return ssl.create_default_context(cadata=self.signer.certificate_pem().decode())


def new_files(directory: Path) -> Files:
    """Returns a serving certificate of a new authority, in files."""
    made = Files(directory, authority.new_authority(datetime.now(UTC) - DAY * 9, DAY * 20))
    made.write(made.issue())
    return made


def why_unusable(files: Files) -> dict[str, Texts]:
    """Pairs none of which can be used, made of a good one that is not in use."""
    certificate, key = both(files.issue())
    return {
        "expired": both(files.issue(DAY * -5)),
        "not yet valid": both(files.issue(DAY * 2)),
        "an encrypted key": (certificate, locked(files.issue())),
        "half a certificate": (certificate[: len(certificate) // 2], key),
        "half a key": (certificate, key[: len(key) // 2]),
        "the certificate only": (certificate, files.key.read_bytes()),
        "the key only": (files.certificate.read_bytes(), key),
        "the other way round": (key, certificate),
        "garbage": (noise(2000, 1), noise(2000, 2)),
        "empty": (b"", b""),
        "no certificate": (None, key),
        "no key": (certificate, None),
        "no files": (None, None),
    }


def both(pair: authority.Pair) -> tuple[bytes, bytes]:
    """Returns certificate and key."""
    return pair.certificate_pem(), pair.key_pem()


def locked(pair: authority.Pair) -> bytes:
    """Returns an encrypted key."""
    password = serialization.BestAvailableEncryption(b"secret")
    form = serialization.PrivateFormat.PKCS8
    return pair.key.private_bytes(serialization.Encoding.PEM, form, password)
