"""Reading Secrets and configurations of any author and any content."""

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
from tests.certs.fake import NOW, SECRET, WANTED, Clock, files, foreign, installed, rotator

CA = new_authority(NOW, timedelta(days=9))
OTHER = new_authority(NOW + timedelta(seconds=1), timedelta(days=9))
LEAF = issue(CA, NOW, timedelta(days=1), ["name"])


def secret(crt: bytes, key: bytes, ca: bytes = b"", **annotations: str) -> dict[str, Any]:
    return {"metadata": {"annotations": annotations}, "data": files(crt, key, ca)}


def test_a_good_secret_is_read_whole() -> None:
    both = bundle_pem([CA.certificate, OTHER.certificate])
    chain = LEAF.certificate_pem() + CA.certificate_pem()
    raw = secret(chain, LEAF.key_pem(), both, **{STORED_AT: NOW.isoformat()})
    pair = Pair(LEAF.certificate, LEAF.key, (CA.certificate,))
    bundle = frozenset({CA.certificate, OTHER.certificate})
    assert read_secret("tls", raw, STORED_AT) == PairSecret("tls", raw, pair, "", bundle, NOW)


ABSENT, UNREADABLE = messages.MISSING, "its certificate or key cannot be read: .+"
NONE, ONE = frozenset[x509.Certificate](), frozenset({CA.certificate})


@pytest.mark.parametrize(
    ("raw", "problem", "bundle"),
    [
        (None, ABSENT, NONE),
        ({}, UNREADABLE, NONE),
        ({"data": None, "metadata": {"annotations": None}}, UNREADABLE, NONE),
        ({"data": {"tls.crt": "***", "tls.key": "***"}}, UNREADABLE, NONE),
        (secret(b"text", b"", CA.certificate_pem()), UNREADABLE, ONE),
        (secret(LEAF.certificate_pem(), b"no key"), UNREADABLE, NONE),
        (
            secret(LEAF.certificate_pem(), CA.key_pem(), CA.certificate_pem()),
            messages.OTHER_KEY,
            ONE,
        ),
    ],
)
def test_what_cannot_be_used_has_a_reason_and_is_no_error_and_keeps_its_authorities(
    raw: dict[str, Any] | None, problem: str, bundle: frozenset[x509.Certificate]
) -> None:
    read = read_secret("tls", raw, STORED_AT)
    assert re.fullmatch(problem, read.problem)
    assert (read.raw, read.pair, read.bundle, read.noted_time) == (raw, None, bundle, None)


@pytest.mark.parametrize("text", ["", "yesterday"])
def test_an_annotation_that_is_no_instant_is_none(text: str) -> None:
    raw = secret(CA.certificate_pem(), CA.key_pem(), b"", **{TRUSTED_SINCE: text})
    assert read_secret("ca", raw, TRUSTED_SINCE).noted_time is None


def test_a_bundle_is_what_of_it_is_whole_and_equal_ones_are_written_alike() -> None:
    both = bundle_pem([CA.certificate, OTHER.certificate])
    assert both == bundle_pem([OTHER.certificate, CA.certificate])
    assert read_bundle(b"# two\n" + both) == {CA.certificate, OTHER.certificate}
    # As the API server reads it: what follows the last whole block is text.
    assert len(read_bundle(both[:-40])) == 1
    for broken in (b"", b"text", both.replace(b"MII", b"XXX")):
        assert read_bundle(broken) == frozenset()


def test_a_configuration_has_a_bundle_for_each_webhook() -> None:
    good = base64.b64encode(CA.certificate_pem()).decode()
    not_only_base64 = f"{good[:8]}!{good[8:]}"
    clients = [{"clientConfig": client} for client in ({"caBundle": good}, {"caBundle": not_only_base64}, {})]
    raw = {"webhooks": [*clients, {}]}
    bundles = (ONE, NONE, NONE, NONE)
    assert read_hook("validating", "us", raw) == Hook("validating", "us", raw, bundles)
    assert read_hook("mutating", "m", {"webhooks": None}).bundles == ()
    assert read_hook("mutating", "m", None).raw is None


def test_certificates_that_another_program_made_are_served_on_and_replaced_step_by_step() -> None:
    api, clock = installed(), Clock()
    names = x509.SubjectAlternativeName([x509.DNSName(name) for name in WANTED.names])
    theirs = foreign(CA, rsa.generate_private_key(65537, 2048), names)
    made = theirs.certificate_pem(), theirs.key_pem(), CA.certificate_pem()
    raw = {**secret(*made), "type": "kubernetes.io/tls", "kind": "Secret"}
    assert read_secret("ca", raw, STORED_AT, is_ca=True).problem == messages.WRONG_KEY
    api.put(SECRET, raw)
    api.objects[SECRET]["metadata"]["name"] = "tls"
    first = rotator(api, clock).run()
    assert first.stored.serving.certificate == theirs.certificate
    assert len(first.stored.authority.bundle) == 2
    clock.forward(WANTED.settle)
    assert [step.action for step in rotator(api, clock).run().steps] == [Action.ISSUE]
    clock.forward(WANTED.settle + timedelta(seconds=1))
    assert len(rotator(api, clock).run().stored.authority.bundle) == 1
