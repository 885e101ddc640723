"""What is decided, as a table: what is stored, what is wanted, the time; the step and its whole reason."""

from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import cache

import pytest
from cryptography import x509

from certs import messages
from certs.authority import BACKDATE, Pair, issue, new_authority
from certs.decide import Action, decide
from certs.inputs import Inputs, Wanted, renewal_time
from certs.objects import Hook, PairSecret
from common.times import stamp
from tests.certs.fake import NOW, WANTED

DAY, SECOND = timedelta(days=1), timedelta(seconds=1)
SETTLE = WANTED.settle
LEAF, CA = WANTED.leaf_lifetime, WANTED.authority_lifetime
LEAF_DUE = LEAF * 2 / 3
CA_DUE = CA * 2 / 3


@cache
def ca(name: str) -> Pair:
    """Returns a pair; most begin at NOW, ``dead`` has ended, ``leaf`` is not an authority."""
    if name == "leaf":
        return leaf("old")
    return new_authority(NOW - 10 * DAY, 5 * DAY) if name == "dead" else new_authority(NOW, CA)


@cache
def leaf(signer: str, after: timedelta = timedelta(0), names: tuple[str, ...] = WANTED.names) -> Pair:
    return issue(ca(signer), NOW + after, LEAF, names)


@dataclass(frozen=True)
class Given:
    """A state in a few words; the defaults are a cluster where all is well."""

    signer: str | None = "old"
    bundle: tuple[str, ...] = ("old",)
    trusted: timedelta | None = None
    leaf: Pair | None = field(default_factory=lambda: leaf("old"))
    published: tuple[str, ...] | None = None
    hooks: tuple[tuple[str, ...], ...] | None = None
    after: timedelta = DAY
    forced_certificates: Pair | None = None
    wanted: Wanted = WANTED
    replicas: dict[str, x509.Certificate] | None = None
    provided: Pair | None = None

    def case(self) -> Inputs:
        """Returns the state in full."""
        bundle = frozenset(ca(name).certificate for name in self.bundle)
        published = bundle if self.published is None else certificates(self.published)
        hooks = self.hooks if self.hooks is not None else (self.bundle, self.bundle)
        signer = ca(self.signer) if self.signer else None
        noted_time = NOW + self.trusted if self.trusted is not None else None
        forced_certificates = frozenset(
            {self.forced_certificates.certificate} if self.forced_certificates else ()
        )
        return Inputs(
            PairSecret("ca", {}, signer, ABSENT, bundle, noted_time),
            PairSecret("tls", {}, self.leaf, ABSENT, published),
            PairSecret(
                "provided", {} if self.provided else None, self.provided, ABSENT, certificates(("theirs",))
            ),
            tuple(
                Hook(("mutating", "validating")[i % 2], f"h{i}", {}, (certificates(held),))
                for i, held in enumerate(hooks)
            ),
            self.wanted,
            NOW + self.after,
            forced_certificates,
            self.replicas,
        )


ABSENT = messages.MISSING


def certificates(names: tuple[str, ...]) -> frozenset[x509.Certificate]:
    return frozenset(ca(name).certificate for name in names)


def both(**change: object) -> Given:
    """Returns inputs during a replacement: the new authority signs, the leaf is the old one's."""
    made = Given(signer="new", bundle=("new", "old"), trusted=DAY, after=DAY)
    return replace(made, **change)  # type: ignore[arg-type]


def taking(**change: object) -> Given:
    """Returns a certificate is provided, and its authority trusted since a day after its making."""
    made = Given(bundle=("theirs", "old"), trusted=DAY, after=DAY, provided=THEIRS)
    return replace(made, **change)  # type: ignore[arg-type]


def served(**change: object) -> Given:
    """Returns the provided certificate is served, and its authority alone is trusted."""
    made = Given(bundle=("theirs",), trusted=DAY, after=2 * DAY, provided=THEIRS, leaf=THEIRS)
    return replace(made, **change)  # type: ignore[arg-type]


THEIRS, NEXT = leaf("theirs"), leaf("theirs", DAY)
SHORT = leaf("theirs", names=(f"*.{WANTED.names[0].partition('.')[2]}",))
MOVED = leaf("new", DAY)  # the leaf of the new authority, a day later
OURS = leaf("old").certificate
RECEIVED = DAY + SETTLE + SECOND
BUNDLE, TRUST, PUBLISH, NEW_AUTHORITY = Action.BUNDLE, Action.TRUST, Action.PUBLISH, Action.NEW_AUTHORITY
NOTE, FORGET, ISSUE, TAKE = Action.NOTE, Action.FORGET, Action.ISSUE, Action.TAKE
KEEP, WAIT = Action.KEEP, Action.WAIT

WELL = messages.NOTHING_TO_DO
ABSENT_LEAF = "no leaf to serve: the Secret does not exist"
LACKS = messages.BUNDLE_LACKS_CA
PAST = messages.BUNDLE_HAS_INVALID_CA
NOTED = messages.IN_EVERY_BUNDLE
LEARNING = messages.NOT_TRUSTED_YET
TRUSTED = messages.TRUSTED
RECEIVING = messages.PODS_RECEIVE_LEAF
SERVED = messages.EVERY_REPLICA
BEGUN = stamp(NOW - BACKDATE)
OVER = f"the authority is only valid from {BEGUN} to {stamp(NOW + CA)}"


def wanted_in(*names: str) -> str:
    return f"the caBundle is stale in {', '.join(names)}"


def behind(*places: str) -> str:
    return f"the old authority stays trusted: its leaf is still served by {', '.join(places)}"


CASES = [
    # All is well.
    (messages.NOTHING_TO_DO, Given(), KEEP, WELL),
    ("just before the leaf is due", Given(after=LEAF_DUE - SECOND), KEEP, WELL),
    ("no webhook configurations", Given(hooks=()), KEEP, WELL),
    # The authority.
    (
        "no authority",
        Given(signer=None, bundle=()),
        NEW_AUTHORITY,
        "no authority can sign: the Secret does not exist",
    ),
    (
        "an authority that may not sign",
        Given(signer="leaf", bundle=("old",)),
        NEW_AUTHORITY,
        messages.NOT_A_CA,
    ),
    ("an authority that is over", Given(after=CA), NEW_AUTHORITY, OVER),
    ("one that has not begun", Given(after=-DAY), NEW_AUTHORITY, OVER),
    ("just before it is due", Given(after=CA_DUE - SECOND, leaf=leaf("old", CA_DUE - DAY)), KEEP, WELL),
    (
        "its renewal time reached",
        Given(after=CA_DUE),
        NEW_AUTHORITY,
        f"the authority reached its renewal time at {stamp(NOW + CA_DUE)}",
    ),
    ("asked for", Given(forced_certificates=ca("old")), NEW_AUTHORITY, messages.NEW_CA_REQUESTED),
    ("asked for, and done already", Given(forced_certificates=ca("new")), KEEP, WELL),
    ("a bundle without the signer", Given(bundle=(), hooks=()), BUNDLE, LACKS),
    ("a bundle with one that is over", Given(bundle=("old", "dead")), BUNDLE, PAST),
    ("a bundle with one that may not sign", Given(bundle=("old", "leaf")), BUNDLE, PAST),
    # The caBundles and ca.crt.
    ("a caBundle is empty", Given(hooks=(("old",), ())), TRUST, wanted_in("validating h1")),
    ("a caBundle of another", Given(hooks=(("new",), ("old",))), TRUST, wanted_in("mutating h0")),
    ("every caBundle is empty", Given(hooks=((), ())), TRUST, wanted_in("mutating h0", "validating h1")),
    ("a caBundle too many", Given(hooks=(("new", "old"),)), TRUST, wanted_in("mutating h0")),
    ("ca.crt differs", Given(published=("new",)), PUBLISH, messages.NOT_PUBLISHED),
    ("caBundles come before a leaf", Given(hooks=((),), leaf=None), TRUST, wanted_in("mutating h0")),
    ("a leaf brings ca.crt with it", Given(published=(), leaf=None), ISSUE, ABSENT_LEAF),
    # The leaf.
    ("no leaf", Given(leaf=None), ISSUE, ABSENT_LEAF),
    (
        "the leaf's renewal time reached",
        Given(after=LEAF_DUE),
        ISSUE,
        f"the leaf reached its renewal time at {stamp(NOW + LEAF_DUE)}",
    ),
    (
        "a leaf that is over",
        Given(after=LEAF),
        ISSUE,
        f"no leaf to serve: it is only valid from {BEGUN} to {stamp(NOW + LEAF)}",
    ),
    (
        "a leaf that is not trusted",
        Given(leaf=leaf("new")),
        ISSUE,
        "no leaf to serve: no trusted authority signed it",
    ),
    (
        "a leaf without two names",
        Given(leaf=leaf("old", names=WANTED.names[2:])),
        ISSUE,
        f"the leaf lacks the name {', '.join(WANTED.names[:2])}",
    ),
    ("a name more does no harm", Given(leaf=leaf("old", names=(*WANTED.names, "more"))), KEEP, WELL),
    (
        "an address is wanted",
        Given(wanted=replace(WANTED, names=(*WANTED.names, "127.0.0.1"))),
        ISSUE,
        "the leaf lacks the name 127.0.0.1",
    ),
    ("a leaf asked for", Given(forced_certificates=leaf("old")), ISSUE, messages.NEW_LEAF_REQUESTED),
    ("a leaf asked for, and made already", Given(forced_certificates=leaf("new")), KEEP, WELL),
    # A new authority next to the old one.
    ("not in every caBundle", both(trusted=None, hooks=(("old",),)), TRUST, wanted_in("mutating h0")),
    ("in every caBundle, not noted", both(trusted=None), NOTE, NOTED),
    (
        "lost from a caBundle again",
        both(hooks=(("old",),)),
        FORGET,
        messages.TRUST_LOST,
    ),
    ("API servers are learning", both(after=DAY + SETTLE - SECOND), WAIT, LEARNING),
    ("API servers have learnt", both(after=DAY + SETTLE), ISSUE, TRUSTED),
    ("a due leaf waits for that", both(trusted=LEAF_DUE, after=LEAF_DUE), WAIT, LEARNING),
    ("a forced leaf waits for that", both(forced_certificates=leaf("old")), WAIT, LEARNING),
    (
        "a leaf that ends first does not",
        both(trusted=LEAF - SETTLE / 2, after=LEAF - SETTLE / 2),
        ISSUE,
        f"the leaf ends at {stamp(NOW + LEAF)}, before the settling time ends",
    ),
    ("a lost leaf does not", both(leaf=None), ISSUE, ABSENT_LEAF),
    (
        "a newer one is asked for",
        both(forced_certificates=ca("new")),
        NEW_AUTHORITY,
        messages.NEW_CA_REQUESTED,
    ),
    # The leaf is the new authority's.
    ("pods are receiving it", both(leaf=MOVED, after=DAY + SETTLE), WAIT, RECEIVING),
    ("pods have received it", both(leaf=MOVED, after=RECEIVED), BUNDLE, SERVED),
    (
        "two have not",
        both(leaf=MOVED, after=RECEIVED, replicas={"c": OURS, "b": OURS, "a": MOVED.certificate}),
        WAIT,
        behind("b", "c"),
    ),
    (
        "all replicas have",
        both(leaf=MOVED, after=RECEIVED, replicas={"a": MOVED.certificate}),
        BUNDLE,
        SERVED,
    ),
    ("a caBundle without the old one", both(leaf=MOVED, hooks=(("new",),)), TRUST, wanted_in("mutating h0")),
    # A certificate is provided.
    ("its authority is not trusted", Given(provided=THEIRS), BUNDLE, LACKS),
    ("it is in no caBundle yet", taking(hooks=(("old",),), trusted=None), TRUST, wanted_in("mutating h0")),
    ("it is in every caBundle, not noted", taking(trusted=None), NOTE, NOTED),
    ("API servers learn of it", taking(after=DAY + SETTLE - SECOND), WAIT, LEARNING),
    ("API servers know it", taking(after=DAY + SETTLE), TAKE, TRUSTED),
    ("nothing else is there to serve", taking(leaf=None), TAKE, ABSENT_LEAF),
    ("pods receive it", taking(leaf=THEIRS, after=SETTLE), WAIT, RECEIVING),
    ("pods have it", taking(leaf=THEIRS), BUNDLE, SERVED),
    ("a pod serves the leaf of before", taking(leaf=THEIRS, replicas={"a": OURS}), WAIT, behind("a")),
    ("it is served", served(), KEEP, WELL),
    ("it is served for longer than its own would be", served(after=LEAF_DUE), KEEP, WELL),
    ("it lacks names that are not used", served(provided=SHORT, leaf=SHORT), KEEP, WELL),
    ("it is replaced by one of the same authority", served(provided=NEXT), TAKE, TRUSTED),
    ("it was taken away", served(provided=None), BUNDLE, LACKS),
    ("its end is near", served(after=LEAF - 12 * SETTLE), BUNDLE, LACKS),
    # A provided certificate that cannot be served counts as none; test_checks has the reasons.
    ("it has ended", Given(provided=THEIRS, after=LEAF, leaf=leaf("old", LEAF - DAY)), KEEP, WELL),
]

BREAKS = {
    *("no authority", "an authority that may not sign", "an authority that is over"),
    *("one that has not begun", "a bundle without the signer", "a caBundle is empty"),
    *("a caBundle of another", "every caBundle is empty", "caBundles come before a leaf"),
    *("a leaf brings ca.crt with it", "no leaf", "a leaf that is over", "a leaf that is not trusted"),
    *("a leaf without two names", "an address is wanted", "a lost leaf does not"),
    "nothing else is there to serve",
}
"""In which cases calls fail until the step is done; in all others it is done in time."""


@pytest.mark.parametrize(("name", "given", "action", "why"), CASES, ids=[case[0] for case in CASES])
def test_the_step_its_reason_in_a_sentence_and_whether_calls_fail_meanwhile(
    name: str, given: Given, action: Action, why: str
) -> None:
    decision = decide(given.case())
    assert (decision.action, decision.why) == (action, why)
    assert decision.calls_fail == (name in BREAKS)


def test_every_step_is_in_the_table() -> None:
    assert {case[2] for case in CASES} == set(Action)
    assert {case[0] for case in CASES} >= BREAKS


def test_a_new_authority_joins_those_that_are_trusted_and_good() -> None:
    decision = decide(both(bundle=("new", "old", "dead"), forced_certificates=ca("new")).case())
    assert decision.bundle == certificates(("new", "old"))


def test_without_an_authority_all_trusted_ones_stay_trusted() -> None:
    given = Given(signer=None, bundle=(), published=("old",), hooks=(("new",), ("dead",), ()))
    assert decide(given.case()).bundle == certificates(("old", "new"))


def test_the_retired_authority_leaves_the_bundle() -> None:
    assert decide(both(leaf=MOVED, after=2 * DAY).case()).bundle == certificates(("new",))


def test_keep_and_wait_have_the_time_of_the_next_step() -> None:
    assert decide(Given().case()).until == NOW + LEAF_DUE
    assert decide(both().case()).until == NOW + DAY + SETTLE
    assert decide(both(leaf=MOVED).case()).until == NOW + RECEIVED


def test_life_is_counted_from_when_a_certificate_was_made() -> None:
    short = issue(ca("old"), NOW, 30 * SECOND, WANTED.names).certificate
    assert short.not_valid_before_utc == NOW - BACKDATE
    assert renewal_time(short) == NOW + 20 * SECOND


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"leaf_lifetime": 2 * CA}, "cannot outlive"),
        ({"settle": LEAF / 11}, "shorter than twelve settling times"),
    ],
)
def test_lifetimes_in_which_no_rotation_fits_are_refused(change: dict[str, timedelta], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        replace(WANTED, **change)  # type: ignore[arg-type]
