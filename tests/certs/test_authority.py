"""The authority and what it issues."""

from __future__ import annotations

import ipaddress
import socket
import ssl
import threading
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID
from hypothesis import given
from hypothesis import strategies as st

from certs.authority import (
    CertificateError,
    Pair,
    issue,
    load,
    new_authority,
    service_names,
    signed_by,
)

if TYPE_CHECKING:
    from pathlib import Path

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
YEAR, DAY = timedelta(days=365), timedelta(days=1)
NAMES = service_names("webhook", "ultraserver")


@pytest.fixture(scope="module")
def signer() -> Pair:
    return new_authority(NOW, YEAR)


def test_an_authority_signs_certificates_and_nothing_else(signer: Pair) -> None:
    certificate = signer.certificate
    constraints = certificate.extensions.get_extension_for_class(x509.BasicConstraints)
    usage = certificate.extensions.get_extension_for_class(x509.KeyUsage)
    assert constraints.critical
    assert (constraints.value.ca, constraints.value.path_length) == (True, 0)
    assert usage.critical
    assert (usage.value.key_cert_sign, usage.value.digital_signature) == (True, False)
    assert signed_by(certificate, certificate)


def test_a_serving_certificate_has_its_names_and_serves_only(signer: Pair) -> None:
    leaf = issue(signer, NOW, DAY, [*NAMES, "127.0.0.1", "::1"]).certificate
    names = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == NAMES
    assert names.get_values_for_type(x509.IPAddress) == [
        ipaddress.ip_address("127.0.0.1"),
        ipaddress.ip_address("::1"),
    ]
    extended = leaf.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert list(extended) == [ExtendedKeyUsageOID.SERVER_AUTH]
    usage = leaf.extensions.get_extension_for_class(x509.KeyUsage).value
    assert (usage.key_cert_sign, usage.digital_signature, usage.key_encipherment) == (False, True, False)
    assert not leaf.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    assert isinstance(leaf.public_key(), ec.EllipticCurvePublicKey)
    assert signed_by(leaf, signer.certificate)


@given(authority_days=st.integers(1, 4000), age=st.floats(0, 0.999), leaf_days=st.integers(1, 8000))
def test_a_leaf_is_good_now_and_never_outlives_nor_precedes_its_authority(
    authority_days: int, age: float, leaf_days: int
) -> None:
    signer = new_authority(NOW, timedelta(days=authority_days))
    later = NOW + timedelta(days=authority_days) * age
    leaf = issue(signer, later, timedelta(days=leaf_days), NAMES).certificate
    assert leaf.not_valid_before_utc <= later < leaf.not_valid_after_utc
    assert signer.certificate.not_valid_before_utc <= leaf.not_valid_before_utc
    assert leaf.not_valid_after_utc <= signer.certificate.not_valid_after_utc
    assert leaf.not_valid_after_utc <= later + timedelta(days=leaf_days)


def test_keys_and_serial_numbers_are_never_repeated(signer: Pair) -> None:
    leaves = [issue(signer, NOW, DAY, NAMES) for _ in range(20)]
    assert len({leaf.certificate.serial_number for leaf in leaves}) == 20
    assert len({leaf.key_pem() for leaf in leaves}) == 20


def test_a_name_too_long_for_a_common_name_is_still_served(signer: Pair) -> None:
    long = f"{'a' * 60}.{'b' * 60}.svc"
    leaf = issue(signer, NOW, DAY, [long]).certificate
    names = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == [long]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"names": []}, "needs a name"),
        ({"names": [""]}, "no empty one"),
        ({"names": ["bücher.example"]}, "malformed"),
        ({"now": NOW + YEAR}, "the authority is good from"),
        ({"now": NOW - DAY}, "the authority is good from"),
        ({"lifetime": timedelta(0)}, "lifetime"),
    ],
)
def test_what_cannot_be_issued_says_why(signer: Pair, change: dict[str, object], message: str) -> None:
    arguments = {"now": NOW, "lifetime": DAY, "names": NAMES, **change}
    with pytest.raises(CertificateError, match=message):
        issue(signer, **arguments)  # type: ignore[arg-type]


def test_a_leaf_cannot_issue(signer: Pair) -> None:
    leaf = issue(signer, NOW, DAY, NAMES)
    with pytest.raises(CertificateError, match="is not a CA"):
        issue(leaf, NOW, DAY, NAMES)


def test_what_is_no_pair_is_refused_with_a_reason(signer: Pair) -> None:
    other = new_authority(NOW, YEAR)
    for certificate, key, message in [
        (b"", signer.key_pem(), "cannot be read"),
        (signer.certificate_pem(), b"nonsense", "cannot be read"),
        (signer.certificate_pem(), other.key_pem(), "not the certificate's"),
    ]:
        with pytest.raises(CertificateError, match=message):
            load(certificate, key)


def test_a_verifying_client_accepts_the_names_it_was_issued_for_and_no_other(tmp_path: Path) -> None:
    now = datetime.now(UTC)
    signer = new_authority(now, YEAR)
    leaf = issue(signer, now, DAY, [*NAMES, "127.0.0.1"])
    (tmp_path / "tls.crt").write_bytes(leaf.certificate_pem())
    (tmp_path / "tls.key").write_bytes(leaf.key_pem())
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(tmp_path / "tls.crt", tmp_path / "tls.key")
    client = ssl.create_default_context(cadata=signer.certificate_pem().decode())
    client.verify_flags |= ssl.VerifyFlags.VERIFY_X509_STRICT
    for name, accepted in [(NAMES[0], True), ("127.0.0.1", True), ("other.ultraserver.svc", False)]:
        ours, theirs = socket.socketpair()
        with ours, theirs:
            thread = threading.Thread(target=greet, args=(server, theirs))
            thread.start()
            if accepted:
                client.wrap_socket(ours, server_hostname=name).close()
            else:
                with pytest.raises(ssl.SSLCertVerificationError, match="Hostname mismatch"):
                    client.wrap_socket(ours, server_hostname=name)
            thread.join(10)


def greet(context: ssl.SSLContext, sock: socket.socket) -> None:
    """The server's side of a handshake; that the client may refuse is part of the test."""
    sock.settimeout(10)
    try:
        context.wrap_socket(sock, server_side=True).close()
    except (ssl.SSLError, ConnectionError):
        sock.close()
