"""A certificate from elsewhere: taken over whole, given back, and refused with a reason."""

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
    complete,
    files,
    foreign,
    ready,
    rotator,
)

DAY = timedelta(days=1)
CA = new_authority(NOW, 900 * DAY)
LEAF = issue(CA, NOW, 90 * DAY, WANTED.names)


def provide(
    api: FakeApi, leaf: Pair = LEAF, authority: bytes = CA.certificate_pem(), chain: bytes = b""
) -> None:
    data = files(leaf.certificate_pem() + chain, leaf.key_pem(), authority)
    api.put(PROVIDED_SECRET, {"metadata": {"name": "provided"}, "data": data})


def test_a_provided_certificate_is_trusted_then_served_then_trusted_alone() -> None:
    api, clock = ready()
    provide(api)
    change = [Action.BUNDLE, Action.TRUST, Action.PUBLISH]
    assert complete(api, clock) == [*change, Action.NOTE, Action.TAKE, *change]
    stored = rotator(api, clock).read()
    assert stored.serving.certificate == LEAF.certificate
    assert api.objects[SECRET]["data"]["tls.key"] == api.objects[PROVIDED_SECRET]["data"]["tls.key"]
    assert {bundle for hook in stored.hooks for bundle in hook.bundles} == {frozenset({CA.certificate})}


def test_when_it_is_deleted_the_programs_own_authority_serves_again() -> None:
    api, clock = ready()
    before = rotator(api, clock).read()
    provide(api)
    complete(api, clock)
    del api.objects[PROVIDED_SECRET]
    change = [Action.BUNDLE, Action.TRUST, Action.PUBLISH]
    assert complete(api, clock) == [*change, Action.NOTE, Action.ISSUE, *change]
    assert rotator(api, clock).read().authority.bundle == before.authority.bundle


def test_before_a_provided_certificate_ends_the_program_serves_its_own() -> None:
    api, clock = ready()
    provide(api)
    complete(api, clock)
    outcome = rotator(api, clock).run()
    assert (outcome.stored.why_not_served, outcome.stored.notes) == ("", [])
    assert outcome.last.until == LEAF.certificate.not_valid_after_utc - 12 * WANTED.settle
    clock.now = outcome.last.until
    complete(api, clock)
    assert clock() < LEAF.certificate.not_valid_after_utc
    outcome = rotator(api, clock).run()
    assert outcome.stored.serving.certificate != LEAF.certificate
    assert not [write for write in api.writes if "provided" in write]
    assert outcome.stored.why_not_served.startswith("it ends at 2027-02-19")
    assert outcome.stored.notes == [
        f"the provided certificate is not served: {outcome.stored.why_not_served}"
    ]


def test_intermediates_go_along_and_are_followed_up_to_the_root() -> None:
    root = new_authority(NOW, 900 * DAY)
    key = ec.generate_private_key(ec.SECP256R1())
    identifier = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    between = foreign(root, key, x509.BasicConstraints(ca=True, path_length=0), identifier, days=800)
    leaf = issue(between, NOW, 90 * DAY, WANTED.names)
    api, clock = ready()
    provide(api, leaf, root.certificate_pem(), between.certificate_pem())
    complete(api, clock)
    taken = read_secret("tls", api.objects[SECRET], STORED_AT)
    assert taken.pair == Pair(leaf.certificate, leaf.key, (between.certificate,))
    assert taken.bundle == {root.certificate}
    alone = PairSecret("tls", {}, leaf, "", taken.bundle)
    assert why_refused(alone, taken.bundle, clock()) == messages.NOT_SIGNED


def test_the_same_leaf_with_other_intermediates_is_taken_again() -> None:
    api, clock = ready()
    provide(api)
    complete(api, clock)
    provide(api, chain=CA.certificate_pem())
    assert complete(api, clock) == [Action.TAKE]
