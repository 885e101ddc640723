"""Tests that Secrets and webhook configurations can be read, also if their content is invalid."""

import base64
import re
from datetime import timedelta
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import rsa

from certs import messages
from certs.authority import Pair, issue, new_authority
from certs.decide import Action
from certs.objects import Hook, PairSecret, bundle_pem, read_bundle, read_hook, read_secret
from contract.keys import STORED_AT, TRUSTED_SINCE
from tests.certs.fake import NOW, SECRET, WANTED, Clock, create_api, files, foreign_certificate, rotator

CA = new_authority(NOW, timedelta(days=9))
OTHER = new_authority(NOW + timedelta(seconds=1), timedelta(days=9))
LEAF = issue(CA, NOW, timedelta(days=1), ["name"])


def secret(crt: bytes, key: bytes, ca: bytes = b"", **annotations: str) -> dict[str, Any]:
    return {"metadata": {"annotations": annotations}, "data": files(crt, key, ca)}


def test_all_parts_of_a_valid_secret_are_read() -> None:
    bundle_text = bundle_pem([CA.certificate, OTHER.certificate])
    chain = LEAF.certificate_pem() + CA.certificate_pem()
    raw = secret(chain, LEAF.key_pem(), bundle_text, **{STORED_AT: NOW.isoformat()})
    pair = Pair(LEAF.certificate, LEAF.key, (CA.certificate,))
    bundle = frozenset({CA.certificate, OTHER.certificate})
    assert read_secret("tls", raw, STORED_AT) == PairSecret("tls", raw, pair, "", bundle, NOW)


ABSENT, UNREADABLE = messages.MISSING, "its certificate or key cannot be read: .+"
NO_CA, ONE_CA = frozenset[x509.Certificate](), frozenset({CA.certificate})


@pytest.mark.parametrize(
    ("raw", "problem", "bundle"),
    [
        (None, ABSENT, NO_CA),
        ({}, UNREADABLE, NO_CA),
        ({"data": None, "metadata": {"annotations": None}}, UNREADABLE, NO_CA),
        ({"data": {"tls.crt": "***", "tls.key": "***"}}, UNREADABLE, NO_CA),
        (secret(b"text", b"", CA.certificate_pem()), UNREADABLE, ONE_CA),
        (secret(LEAF.certificate_pem(), b"no key"), UNREADABLE, NO_CA),
        (
            secret(LEAF.certificate_pem(), CA.key_pem(), CA.certificate_pem()),
            messages.OTHER_KEY,
            ONE_CA,
        ),
    ],
)
def test_an_unusable_secret_has_a_reason_and_keeps_its_authorities(
    raw: dict[str, Any] | None, problem: str, bundle: frozenset[x509.Certificate]
) -> None:
    result = read_secret("tls", raw, STORED_AT)
    assert re.fullmatch(problem, result.problem)
    assert (result.raw, result.pair, result.bundle, result.noted_time) == (raw, None, bundle, None)


@pytest.mark.parametrize("text", ["", "yesterday"])
def test_an_annotation_that_is_not_a_time_is_read_as_none(text: str) -> None:
    raw = secret(CA.certificate_pem(), CA.key_pem(), b"", **{TRUSTED_SINCE: text})
    assert read_secret("ca", raw, TRUSTED_SINCE).noted_time is None


def test_an_incomplete_certificate_is_ignored_and_equal_bundles_have_equal_texts() -> None:
    bundle_text = bundle_pem([CA.certificate, OTHER.certificate])
    assert bundle_text == bundle_pem([OTHER.certificate, CA.certificate])
    assert read_bundle(b"# two\n" + bundle_text) == {CA.certificate, OTHER.certificate}
    # The API server, too, ignores an incomplete block at the end.
    assert len(read_bundle(bundle_text[:-40])) == 1
    for broken in (b"", b"text", bundle_text.replace(b"MII", b"XXX")):
        assert read_bundle(broken) == frozenset()


def test_a_configuration_has_a_bundle_for_each_webhook() -> None:
    good = base64.b64encode(CA.certificate_pem()).decode()
    not_only_base64 = f"{good[:8]}!{good[8:]}"
    clients = [{"clientConfig": client} for client in ({"caBundle": good}, {"caBundle": not_only_base64}, {})]
    raw = {"webhooks": [*clients, {}]}
    bundles = (ONE_CA, NO_CA, NO_CA, NO_CA)
    assert read_hook("validating", "us", raw) == Hook("validating", "us", raw, bundles)
    assert read_hook("mutating", "m", {"webhooks": None}).bundles == ()
    assert read_hook("mutating", "m", None).raw is None


def test_certificates_of_another_program_are_served_until_they_are_replaced_in_steps() -> None:
    api, clock = create_api(), Clock()
    names = x509.SubjectAlternativeName([x509.DNSName(name) for name in WANTED.names])
    pair = foreign_certificate(CA, rsa.generate_private_key(65537, 2048), names)
    contents = pair.certificate_pem(), pair.key_pem(), CA.certificate_pem()
    raw = {**secret(*contents), "type": "kubernetes.io/tls", "kind": "Secret"}
    assert read_secret("ca", raw, STORED_AT, is_ca=True).problem == messages.WRONG_KEY
    api.put(SECRET, raw)
    api.objects[SECRET]["metadata"]["name"] = "tls"
    first = rotator(api, clock).run()
    assert first.stored.serving.certificate == pair.certificate
    assert len(first.stored.authority.bundle) == 2
    clock.forward(WANTED.settle)
    assert [step.action for step in rotator(api, clock).run().steps] == [Action.ISSUE]
    clock.forward(WANTED.settle + timedelta(seconds=1))
    assert len(rotator(api, clock).run().stored.authority.bundle) == 1
