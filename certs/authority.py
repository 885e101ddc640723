"""Creates X.509 certificates of authorities and servers, and reads certificates of any issuer.

This module reads no clock and no files. Lifetimes begin at the parameter ``now``, which has a time zone.
``cryptography`` takes keys and serial numbers from the operating system's random generator.
"""

import contextlib
import ipaddress
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import cast

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.types import CertificateIssuerPrivateKeyTypes
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from certs import messages

BACKDATE = timedelta(minutes=5)
"""How long before ``now`` a certificate begins, because the clocks of nodes differ by up to a few minutes."""

_AUTHORITY_NAME = "ultraserver-webhook authority"
_COMMON_NAME_LIMIT = 64  # RFC 5280, ub-common-name


class CertificateError(ValueError):
    """A certificate or key cannot be created or read; the message has the reason."""


@dataclass(frozen=True, slots=True)
class Pair:
    """The certificate and key of an authority or a server. Pairs with equal certificate chains are equal."""

    certificate: x509.Certificate  # the certificate of the authority or server
    key: CertificateIssuerPrivateKeyTypes = field(compare=False)  # the private key of the certificate
    # The authorities between a provided certificate and a trusted authority.
    intermediates: tuple[x509.Certificate, ...] = ()

    def certificate_pem(self) -> bytes:
        """Returns the certificate as PEM, without the intermediates."""
        return self.certificate.public_bytes(serialization.Encoding.PEM)

    def key_pem(self) -> bytes:
        """Returns the private key as unencrypted PKCS 8 PEM."""
        return self.key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )


def service_names(service: str, namespace: str, cluster_domain: str) -> list[str]:
    """Returns the DNS names of a Service. The first is ``<svc>.<ns>.svc``, which the API server uses."""
    host = f"{service}.{namespace}"
    return [f"{host}.svc", f"{host}.svc.{cluster_domain}", host, service]


def new_authority(now: datetime, lifetime: timedelta) -> Pair:
    """Returns a new self-signed authority that may sign serving certificates, but no other authorities."""
    return _new_pair(_AUTHORITY_NAME, now - BACKDATE, now + lifetime)


def issue(authority: Pair, now: datetime, lifetime: timedelta, names: Sequence[str]) -> Pair:
    """Returns a new serving certificate and its key. ``authority`` signs it, and must be valid now.

    The certificate ends with its authority at the latest. The names are DNS names and IP addresses, v4 or v6.
    The common name, which only people read, is the first name that is short enough, or ``webhook``.

    Raises:
        CertificateError: A name is empty or malformed.
    """
    begin = max(now - BACKDATE, authority.certificate.not_valid_before_utc)
    end = min(now + lifetime, authority.certificate.not_valid_after_utc)
    subject = next((name for name in names if len(name) <= _COMMON_NAME_LIMIT), "webhook")
    usage = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH])
    alternative_names = x509.SubjectAlternativeName(map(_general_name, names))
    return _new_pair(subject, begin, end, authority, (alternative_names, usage))


def load(certificate_pem: bytes, key_pem: bytes, *, is_ca: bool = False) -> Pair:
    """Returns the pair of a certificate, which any issuer signed, and its private key.

    Args:
        certificate_pem: The certificate, followed by its intermediate authorities.
        key_pem: The private key, unencrypted.
        is_ca: Whether `issue` signs with the key, which must then be ECDSA on P-256.

    Raises:
        CertificateError: The certificate or key cannot be read, or the key has the wrong type or belongs to
            another certificate.
    """
    try:
        certificate, *intermediates = x509.load_pem_x509_certificates(certificate_pem)
        public_key, key = certificate.public_key(), serialization.load_pem_private_key(key_pem, password=None)
    except Exception as error:  # ValueError, TypeError or UnsupportedAlgorithm
        raise CertificateError(messages.unreadable(error)) from error
    if key.public_key() != public_key:
        raise CertificateError(messages.OTHER_KEY)
    if is_ca and not (isinstance(key, ec.EllipticCurvePrivateKey) and isinstance(key.curve, ec.SECP256R1)):
        raise CertificateError(messages.WRONG_KEY)
    return Pair(certificate, cast("CertificateIssuerPrivateKeyTypes", key), tuple(intermediates))


def is_signed_by(certificate: x509.Certificate, authority: x509.Certificate) -> bool:
    """Returns whether ``authority`` signed ``certificate``."""
    try:
        certificate.verify_directly_issued_by(authority)
    except Exception:  # noqa: BLE001 - InvalidSignature, ValueError, TypeError
        return False
    return True


def is_valid_at(certificate: x509.Certificate, now: datetime) -> bool:
    """Returns whether the validity of a certificate has begun and has not ended."""
    return certificate.not_valid_before_utc <= now < certificate.not_valid_after_utc


def validity_text(certificate: x509.Certificate) -> str:
    """Returns the text ``valid from … to …``."""
    return messages.valid(certificate.not_valid_before_utc, certificate.not_valid_after_utc)


def is_authority(certificate: x509.Certificate) -> bool:
    """Returns whether the basic constraints of a certificate make it a CA."""
    try:
        return certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    except x509.ExtensionNotFound:
        return False


def missing_names(leaf: x509.Certificate, wanted_names: Iterable[str]) -> list[str]:
    """Returns the wanted names and addresses that a leaf does not list. A wildcard matches only itself."""
    names = _names_of(leaf)
    return [name for name in wanted_names if _general_name(name) not in names]


def has_name(leaf: x509.Certificate, name: str) -> bool:
    """Returns whether a leaf lists a DNS name, or the name with ``*`` instead of its first label."""
    return not _names_of(leaf).isdisjoint(map(_general_name, (name, f"*.{name.partition('.')[2]}")))


def _general_name(name: str) -> x509.GeneralName:
    """Returns a name as a certificate has it: an IP address, or a DNS name."""
    with contextlib.suppress(ValueError):
        return x509.IPAddress(ipaddress.ip_address(name))
    if not name:
        raise CertificateError(messages.NO_NAMES)
    try:
        return x509.DNSName(name)
    except ValueError as error:
        raise CertificateError(messages.malformed_name(error)) from error


def _names_of(leaf: x509.Certificate) -> set[x509.GeneralName]:
    try:
        return set(leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value)
    except x509.ExtensionNotFound:
        return set()


def _new_pair(
    common_name: str,
    begin: datetime,
    end: datetime,
    signer: Pair | None = None,
    extensions: Iterable[x509.ExtensionType] = (),
) -> Pair:
    """Returns a new pair: a leaf of the signer or, without a signer, an authority."""
    is_ca = signer is None
    usage = x509.KeyUsage(
        digital_signature=not is_ca,
        content_commitment=False,
        key_encipherment=False,  # only for RSA keys: ECDSA only signs
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=is_ca,
        crl_sign=is_ca,
        encipher_only=False,
        decipher_only=False,
    )
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])
    subject_id = issuer_id = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    if signer:
        issuer_id = signer.certificate.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(signer.certificate.subject if signer else subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(begin)
        .not_valid_after(end)
        .add_extension(x509.BasicConstraints(ca=is_ca, path_length=0 if is_ca else None), critical=True)
        .add_extension(usage, critical=True)
    )
    identifier = x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(issuer_id)
    for extension in (subject_id, identifier, *extensions):
        builder = builder.add_extension(extension, critical=False)
    return Pair(builder.sign(signer.key if signer else key, hashes.SHA256()), key)
