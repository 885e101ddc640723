"""Pairs of a certificate and a key in files, as in a mounted Secret, and pairs that cannot be used."""

import ssl
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography.hazmat.primitives import serialization

from certs import authority
from tests.helpers import random_bytes

DAY = timedelta(days=1)
Texts = tuple[bytes | None, bytes | None]
"""The contents of the certificate file and the key file; None for a missing file."""


@dataclass
class Files:
    """Certificate files of one authority."""

    directory: Path
    signer: authority.Pair

    @property
    def certificate(self) -> Path:
        """The file from which the server reads its certificate."""
        return self.directory / "tls.crt"

    @property
    def key(self) -> Path:
        """The file from which the server reads its key."""
        return self.directory / "tls.key"

    def issue(self, begins: timedelta = timedelta(), lifetime: timedelta = DAY) -> authority.Pair:
        """Returns a new pair for loopback, which is not in the files. It becomes valid after ``begins``."""
        now = datetime.now(UTC) + begins
        return authority.issue(self.signer, now, lifetime, ["localhost", "127.0.0.1"])

    def write(self, pair: authority.Pair) -> None:
        """Puts a pair into the files."""
        self.key.write_bytes(pair.key_pem())
        self.certificate.write_bytes(pair.certificate_pem())

    def client_context(self) -> ssl.SSLContext:
        """Returns a TLS context that trusts only this authority, as in an API server."""
        return ssl.create_default_context(cadata=self.signer.certificate_pem().decode())


def new_files(directory: Path) -> Files:
    """Creates a new authority, and writes a serving certificate into files; returns these."""
    files = Files(directory, authority.new_authority(datetime.now(UTC) - DAY * 9, DAY * 20))
    files.write(files.issue())
    return files


def unusable_pairs(files: Files) -> dict[str, Texts]:
    """Returns pairs that cannot be used, by the reason. Their parts come from a new, valid pair."""
    certificate, key = texts_of(files.issue())
    return {
        "expired": texts_of(files.issue(DAY * -5)),
        "not yet valid": texts_of(files.issue(DAY * 2)),
        "an encrypted key": (certificate, encrypted_key(files.issue())),
        "half a certificate": (certificate[: len(certificate) // 2], key),
        "half a key": (certificate, key[: len(key) // 2]),
        "the certificate only": (certificate, files.key.read_bytes()),
        "the key only": (files.certificate.read_bytes(), key),
        "the other way round": (key, certificate),
        "garbage": (random_bytes(2000, 1), random_bytes(2000, 2)),
        "empty": (b"", b""),
        "no certificate": (None, key),
        "no key": (certificate, None),
        "no files": (None, None),
    }


def texts_of(pair: authority.Pair) -> tuple[bytes, bytes]:
    """Returns the texts of the certificate and the key."""
    return pair.certificate_pem(), pair.key_pem()


def encrypted_key(pair: authority.Pair) -> bytes:
    """Returns the key of a pair, encrypted."""
    password = serialization.BestAvailableEncryption(b"secret")
    form = serialization.PrivateFormat.PKCS8
    return pair.key.private_bytes(serialization.Encoding.PEM, form, password)
