"""The control plane's own certificate authority, serving certificate, tokens and kubeconfigs."""

from __future__ import annotations

import datetime as dt
import ipaddress
import json
import secrets
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

if TYPE_CHECKING:
    from pathlib import Path

# Who talks to the API server, and the groups that its built-in roles know them by.
USERS = {
    "admin": ("cluster-admin", "system:masters"),
    "controller-manager": ("system:kube-controller-manager", ""),
    "scheduler": ("system:kube-scheduler", ""),
    # As its own manifests name it; ``controlplane`` binds it to the role that they have for it.
    "mpi-operator": ("system:serviceaccount:mpi-operator:mpi-operator", "system:serviceaccounts"),
}


@dataclass(frozen=True)
class Credentials:
    """Files of one control plane's identity, all in ``folder``."""

    folder: Path
    tokens: dict[str, str] = field(repr=False)

    @property
    def ca(self) -> Path:
        """The certificate authority that signed the serving certificate."""
        return self.folder / "ca.crt"

    @property
    def certificate(self) -> Path:
        """The serving certificate for 127.0.0.1 and localhost."""
        return self.folder / "server.crt"

    @property
    def key(self) -> Path:
        """The serving certificate's key."""
        return self.folder / "server.key"

    @property
    def accounts_key(self) -> Path:
        """Signs the tokens of service accounts."""
        return self.folder / "service-accounts.key"

    @property
    def token_file(self) -> Path:
        """The API server's static tokens."""
        return self.folder / "tokens.csv"

    def kubeconfig(self, user: str, server: str) -> Path:
        """Writes the kubeconfig of one of ``USERS`` and returns its path."""
        return self.token_kubeconfig(user, self.tokens[user], server)

    def token_kubeconfig(self, user: str, token: str, server: str) -> Path:
        """Writes a kubeconfig with a token and returns its path."""
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


def issue(folder: Path) -> Credentials:
    """Makes everything anew in ``folder``; it lives for a day, like the control plane at most."""
    folder.mkdir(parents=True, exist_ok=True)
    made = Credentials(folder, {user: secrets.token_urlsafe(24) for user in USERS})
    now = dt.datetime.now(dt.UTC)
    ca_key = ec.generate_private_key(ec.SECP256R1())
    ca_name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "loopback control plane")])
    ca = (
        _template(now, ca_name, ca_name, ca_key.public_key())
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(ca_key.public_key()), critical=False)
        .sign(ca_key, hashes.SHA256())
    )
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "127.0.0.1")])
    names = [x509.IPAddress(ipaddress.ip_address("127.0.0.1")), x509.DNSName("localhost")]
    certificate = (
        _template(now, name, ca_name, key.public_key())
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(ca_key.public_key()), critical=False
        )
        .sign(ca_key, hashes.SHA256())
    )
    made.ca.write_bytes(ca.public_bytes(serialization.Encoding.PEM))
    made.certificate.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    _write_private(made.key, _pem(key))
    _write_private(made.accounts_key, _pem(ec.generate_private_key(ec.SECP256R1())))
    rows = [f'{made.tokens[user]},{name},{user},"{groups}"' for user, (name, groups) in USERS.items()]
    _write_private(made.token_file, "\n".join(rows).encode() + b"\n")
    return made


def _template(
    now: dt.datetime, subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder(subject_name=subject, issuer_name=issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(minutes=5))
        .not_valid_after(now + dt.timedelta(days=1))
    )


def _pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    # The API server reads elliptic service-account keys in the traditional form only.
    form = serialization.PrivateFormat.TraditionalOpenSSL
    return key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption())


def _write_private(path: Path, content: bytes) -> None:
    path.touch(mode=0o600)
    path.write_bytes(content)
