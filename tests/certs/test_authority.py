"""Tests of the certificate authority and of the certificates that it issues."""

import ipaddress
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID
from cryptography.x509.verification import PolicyBuilder, Store, VerificationError
from hypothesis import given
from hypothesis import strategies as st

from certs.authority import CertificateError, Pair, is_signed_by, issue, load, new_authority, service_names

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
YEAR, DAY = timedelta(days=365), timedelta(days=1)
NAMES = service_names("webhook", "ultraserver", "cluster.local")


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
    assert is_signed_by(certificate, certificate)


def test_a_serving_certificate_has_its_names_and_is_for_tls_servers_only(signer: Pair) -> None:
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
    leaf_issuer_id = leaf.extensions.get_extension_for_class(x509.AuthorityKeyIdentifier).value.key_identifier
    authority_id = signer.certificate.extensions.get_extension_for_class(
        x509.SubjectKeyIdentifier
    ).value.digest
    assert leaf_issuer_id == authority_id
    assert is_signed_by(leaf, signer.certificate)


@given(authority_days=st.integers(1, 4000), age=st.floats(0, 0.999), leaf_days=st.integers(1, 8000))
def test_a_leaf_is_valid_now_and_only_while_its_authority_is_valid(
    authority_days: int, age: float, leaf_days: int
) -> None:
    signer = new_authority(NOW, timedelta(days=authority_days))
    later = NOW + timedelta(days=authority_days) * age
    leaf = issue(signer, later, timedelta(days=leaf_days), NAMES).certificate
    assert leaf.not_valid_before_utc <= later < leaf.not_valid_after_utc
    assert signer.certificate.not_valid_before_utc <= leaf.not_valid_before_utc
    assert leaf.not_valid_after_utc <= signer.certificate.not_valid_after_utc
    assert leaf.not_valid_after_utc <= later + timedelta(days=leaf_days)


def test_a_name_that_is_too_long_for_a_common_name_is_in_the_leaf(signer: Pair) -> None:
    long_name = f"{'a' * 60}.{'b' * 60}.svc"
    leaf = issue(signer, NOW, DAY, [long_name]).certificate
    names = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == [long_name]


@pytest.mark.parametrize(
    ("change", "message"),
    [({"names": [""]}, "no name may be empty"), ({"names": ["bücher.example"]}, "malformed")],
)
def test_an_invalid_name_of_a_leaf_is_an_error_with_a_reason(
    signer: Pair, change: dict[str, object], message: str
) -> None:
    arguments = {"now": NOW, "lifetime": DAY, "names": NAMES, **change}
    with pytest.raises(CertificateError, match=message):
        issue(signer, **arguments)  # type: ignore[arg-type]


def test_an_unreadable_pair_or_a_wrong_key_is_refused_with_a_reason(signer: Pair) -> None:
    other = new_authority(NOW, YEAR)
    for certificate, key, message in [
        (b"", signer.key_pem(), "cannot be read"),
        (signer.certificate_pem(), b"nonsense", "cannot be read"),
        (signer.certificate_pem(), other.key_pem(), "does not belong to its certificate"),
    ]:
        with pytest.raises(CertificateError, match=message):
            load(certificate, key)


def test_a_client_accepts_a_leaf_only_for_the_names_in_the_leaf(signer: Pair) -> None:
    leaf = issue(signer, NOW, DAY, [*NAMES, "127.0.0.1"]).certificate
    client = PolicyBuilder().store(Store([signer.certificate])).time(NOW)
    for name in (x509.DNSName(NAMES[0]), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))):
        assert client.build_server_verifier(name).verify(leaf, []) == [leaf, signer.certificate]
    with pytest.raises(VerificationError, match="no matching subjectAltName"):
        client.build_server_verifier(x509.DNSName("other.ultraserver.svc")).verify(leaf, [])
