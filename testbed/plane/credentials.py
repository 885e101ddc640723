"""Creates a control plane's certificate authority, serving certificate, tokens and kubeconfigs."""

import datetime as dt
import ipaddress
import json
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

# The user name and the groups of each client of the API server.
USERS = {
    "admin": ("cluster-admin", "system:masters"),
    "controller-manager": ("system:kube-controller-manager", ""),
    "scheduler": ("system:kube-scheduler", ""),
    # The service account to which ``mpi-operator.yaml`` binds the operator's role.
    "mpi-operator": ("system:serviceaccount:mpi-operator:mpi-operator", "system:serviceaccounts"),
}


LOOPBACK = ("127.0.0.1", "localhost")
SERVER, CLIENT = ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH


@dataclass(frozen=True)
class Credentials:
    """The credentials of a control plane. All files are in ``folder``."""

    folder: Path
    tokens: dict[str, str] = field(repr=False)
    _authority: ec.EllipticCurvePrivateKey = field(repr=False)

    @property
    def ca(self) -> Path:
        """The certificate of the authority that signed the serving certificate."""
        return self.folder / "ca.crt"

    @property
    def certificate(self) -> Path:
        """The API server's serving certificate."""
        return self.folder / "server.crt"

    @property
    def key(self) -> Path:
        """The serving certificate's key."""
        return self.folder / "server.key"

    @property
    def accounts_key(self) -> Path:
        """The key that signs the tokens of service accounts."""
        return self.folder / "service-accounts.key"

    @property
    def token_file(self) -> Path:
        """The file with the API server's static tokens."""
        return self.folder / "tokens.csv"

    def kubeconfig(self, user: str, server: str) -> Path:
        """Writes the kubeconfig of a user in ``USERS``, and returns its path."""
        return self.token_kubeconfig(user, self.tokens[user], server)

    def token_kubeconfig(self, user: str, token: str, server: str) -> Path:
        """Writes a kubeconfig with a token, and returns its path."""
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [
                {"name": "loopback", "cluster": {"server": server, "certificate-authority": str(self.ca)}}
            ],
            "users": [{"name": user, "user": {"token": token}}],
            "contexts": [{"name": "loopback", "context": {"cluster": "loopback", "user": user}}],
            "current-context": "loopback",
        }
        path = self.folder / f"{user}.kubeconfig"
        _write_private(path, json.dumps(config, indent=2).encode())
        return path

    def sign(
        self, file: str, subject: x509.Name, usage: x509.ObjectIdentifier, names: Iterable[str] = ()
    ) -> None:
        """Creates a certificate and its key: ``<file>.crt`` and ``<file>.key``.

        Args:
            file: The names of both files without the extension.
            subject: The subject of the certificate.
            usage: ``SERVER`` or ``CLIENT``.
            names: The addresses and DNS names of a server.
        """
        key = ec.generate_private_key(ec.SECP256R1())
        issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._authority.public_key())
        template = (
            _template(subject, key.public_key())
            .add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
            .add_extension(issuer, critical=False)
        )
        if alternatives := [_general_name(name) for name in names]:
            template = template.add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
        certificate = template.sign(self._authority, hashes.SHA256())
        (self.folder / f"{file}.crt").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        _write_private(self.folder / f"{file}.key", _pem(key))


def issue(
    folder: Path, users: Mapping[str, tuple[str, str]] = USERS, names: Iterable[str] = LOOPBACK
) -> Credentials:
    """Creates new credentials in ``folder``. The certificates are valid for a day.

    Args:
        folder: The folder, which is created if it is missing.
        users: The users, as in ``USERS``. Each user gets a token.
        names: The addresses and DNS names of the API server.
    """
    folder.mkdir(parents=True, exist_ok=True)
    ca_key = ec.generate_private_key(ec.SECP256R1())
    credentials = Credentials(folder, {user: secrets.token_urlsafe(24) for user in users}, ca_key)
    ca = (
        _template(_CA_NAME, ca_key.public_key())
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_CA_KEY_USAGE, critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(ca_key.public_key()), critical=False)
        .sign(ca_key, hashes.SHA256())
    )
    credentials.ca.write_bytes(ca.public_bytes(serialization.Encoding.PEM))
    credentials.sign(
        "server", x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "127.0.0.1")]), SERVER, names
    )
    _write_private(credentials.accounts_key, _pem(ec.generate_private_key(ec.SECP256R1())))
    rows = [f'{credentials.tokens[user]},{name},{user},"{groups}"' for user, (name, groups) in users.items()]
    _write_private(credentials.token_file, "\n".join(rows).encode() + b"\n")
    return credentials


_CA_NAME = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "loopback control plane")])
# Python 3.13 rejects a certificate authority without the key usage for signing certificates.
_CA_KEY_USAGE = x509.KeyUsage(
    digital_signature=False,
    content_commitment=False,
    key_encipherment=False,
    data_encipherment=False,
    key_agreement=False,
    key_cert_sign=True,
    crl_sign=True,
    encipher_only=False,
    decipher_only=False,
)


def _general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _template(subject: x509.Name, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
    now = dt.datetime.now(dt.UTC)
    return (
        x509.CertificateBuilder(subject_name=subject, issuer_name=_CA_NAME)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(minutes=5))
        .not_valid_after(now + dt.timedelta(days=1))
    )


def _pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    # The API server reads an elliptic curve key for service accounts only in the traditional format.
    form = serialization.PrivateFormat.TraditionalOpenSSL
    return key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption())


def _write_private(path: Path, content: bytes) -> None:
    path.touch(mode=0o600)
    path.write_bytes(content)
