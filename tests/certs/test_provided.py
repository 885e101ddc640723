"""Tests of a provided certificate: it replaces the program's own leaf until it is deleted or expires."""

from datetime import timedelta

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec

from certs import messages
from certs.authority import Pair, issue, new_authority
from certs.decide import Action
from certs.inputs import why_refused
from certs.objects import PairSecret, read_secret
from contract.keys import STORED_AT
from tests.certs.fake import (
    NOW,
    PROVIDED_SECRET,
    SECRET,
    WANTED,
    FakeApi,
    api_after_first_pass,
    files,
    foreign_certificate,
    rotator,
    run_until_complete,
)

DAY = timedelta(days=1)
CA = new_authority(NOW, 900 * DAY)
LEAF = issue(CA, NOW, 90 * DAY, WANTED.names)


def provide(
    api: FakeApi, leaf: Pair = LEAF, authority: bytes = CA.certificate_pem(), chain: bytes = b""
) -> None:
    data = files(leaf.certificate_pem() + chain, leaf.key_pem(), authority)
    api.put(PROVIDED_SECRET, {"metadata": {"name": "provided"}, "data": data})


def test_a_provided_certificate_is_trusted_then_served_then_the_old_authority_is_removed() -> None:
    api, clock = api_after_first_pass()
    provide(api)
    trust_steps = [Action.BUNDLE, Action.TRUST, Action.PUBLISH]
    assert run_until_complete(api, clock) == [*trust_steps, Action.NOTE, Action.TAKE, *trust_steps]
    stored = rotator(api, clock).read()
    assert stored.serving.certificate == LEAF.certificate
    assert api.objects[SECRET]["data"]["tls.key"] == api.objects[PROVIDED_SECRET]["data"]["tls.key"]
    assert {bundle for hook in stored.hooks for bundle in hook.bundles} == {frozenset({CA.certificate})}


def test_when_the_provided_certificate_is_deleted_the_program_issues_a_leaf() -> None:
    api, clock = api_after_first_pass()
    before = rotator(api, clock).read()
    provide(api)
    run_until_complete(api, clock)
    del api.objects[PROVIDED_SECRET]
    trust_steps = [Action.BUNDLE, Action.TRUST, Action.PUBLISH]
    assert run_until_complete(api, clock) == [*trust_steps, Action.NOTE, Action.ISSUE, *trust_steps]
    assert rotator(api, clock).read().authority.bundle == before.authority.bundle


def test_before_a_provided_certificate_expires_the_program_issues_a_leaf() -> None:
    api, clock = api_after_first_pass()
    provide(api)
    run_until_complete(api, clock)
    outcome = rotator(api, clock).run()
    assert (outcome.stored.why_not_served, outcome.stored.notes) == ("", [])
    assert outcome.last.until == LEAF.certificate.not_valid_after_utc - 12 * WANTED.settle
    clock.now = outcome.last.until
    run_until_complete(api, clock)
    assert clock() < LEAF.certificate.not_valid_after_utc
    outcome = rotator(api, clock).run()
    assert outcome.stored.serving.certificate != LEAF.certificate
    assert not [write for write in api.writes if "provided" in write]
    assert outcome.stored.why_not_served.startswith("it ends at 2027-02-19")
    assert outcome.stored.notes == [
        f"the provided certificate is not served: {outcome.stored.why_not_served}"
    ]


def test_intermediates_are_stored_with_the_leaf_and_verify_it_up_to_the_root() -> None:
    root = new_authority(NOW, 900 * DAY)
    key = ec.generate_private_key(ec.SECP256R1())
    identifier = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    intermediate = foreign_certificate(
        root, key, x509.BasicConstraints(ca=True, path_length=0), identifier, days=800
    )
    leaf = issue(intermediate, NOW, 90 * DAY, WANTED.names)
    api, clock = api_after_first_pass()
    provide(api, leaf, root.certificate_pem(), intermediate.certificate_pem())
    run_until_complete(api, clock)
    serving = read_secret("tls", api.objects[SECRET], STORED_AT)
    assert serving.pair == Pair(leaf.certificate, leaf.key, (intermediate.certificate,))
    assert serving.bundle == {root.certificate}
    without_intermediate = PairSecret("tls", {}, leaf, "", serving.bundle)
    assert why_refused(without_intermediate, serving.bundle, clock()) == messages.NOT_SIGNED


def test_the_same_leaf_with_other_intermediates_is_stored_again() -> None:
    api, clock = api_after_first_pass()
    provide(api)
    run_until_complete(api, clock)
    provide(api, chain=CA.certificate_pem())
    assert run_until_complete(api, clock) == [Action.TAKE]
