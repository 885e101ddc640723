"""Tests of `decide`, as a table of cases: the inputs, and the next step with the exact text of its reason."""

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
    """Returns an authority that was created at NOW. ``expired`` has expired; ``leaf`` is not an authority."""
    if name == "leaf":
        return leaf("old")
    return new_authority(NOW - 10 * DAY, 5 * DAY) if name == "expired" else new_authority(NOW, CA)


@cache
def leaf(signer: str, after: timedelta = timedelta(0), names: tuple[str, ...] = WANTED.names) -> Pair:
    return issue(ca(signer), NOW + after, LEAF, names)


@dataclass(frozen=True)
class State:
    """The inputs of a decision in short form; times are relative to NOW. The defaults need no step."""

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

    def inputs(self) -> Inputs:
        """Returns the inputs of the decision."""
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
                "provided", {} if self.provided else None, self.provided, ABSENT, certificates(("external",))
            ),
            tuple(
                Hook(("mutating", "validating")[i % 2], f"h{i}", {}, (certificates(names),))
                for i, names in enumerate(hooks)
            ),
            self.wanted,
            NOW + self.after,
            forced_certificates,
            self.replicas,
        )


ABSENT = messages.MISSING


def certificates(names: tuple[str, ...]) -> frozenset[x509.Certificate]:
    return frozenset(ca(name).certificate for name in names)


def replacement(**change: object) -> State:
    """Returns a state during a replacement: the new authority signs; the old authority signed the leaf."""
    state = State(signer="new", bundle=("new", "old"), trusted=DAY, after=DAY)
    return replace(state, **change)  # type: ignore[arg-type]


def takeover(**change: object) -> State:
    """Returns a state in which a provided certificate is not yet served, but its authority is trusted."""
    state = State(bundle=("external", "old"), trusted=DAY, after=DAY, provided=PROVIDED)
    return replace(state, **change)  # type: ignore[arg-type]


def provided_served(**change: object) -> State:
    """Returns a state in which the provided certificate is served, and only its authority is trusted."""
    state = State(bundle=("external",), trusted=DAY, after=2 * DAY, provided=PROVIDED, leaf=PROVIDED)
    return replace(state, **change)  # type: ignore[arg-type]


PROVIDED, NEXT_PROVIDED = leaf("external"), leaf("external", DAY)
WILDCARD = leaf("external", names=(f"*.{WANTED.names[0].partition('.')[2]}",))
NEW_LEAF = leaf("new", DAY)  # issued by the new authority, one day after NOW
OLD_LEAF = leaf("old").certificate
RECEIVED = DAY + SETTLE + SECOND
BUNDLE, TRUST, PUBLISH, NEW_AUTHORITY = Action.BUNDLE, Action.TRUST, Action.PUBLISH, Action.NEW_AUTHORITY
NOTE, FORGET, ISSUE, TAKE = Action.NOTE, Action.FORGET, Action.ISSUE, Action.TAKE
KEEP, WAIT = Action.KEEP, Action.WAIT

NO_STEP = messages.NOTHING_TO_DO
NO_LEAF = "no leaf to serve: the Secret does not exist"
LACKS_CA = messages.BUNDLE_LACKS_CA
HAS_INVALID_CA = messages.BUNDLE_HAS_INVALID_CA
IN_EVERY_BUNDLE = messages.IN_EVERY_BUNDLE
NOT_TRUSTED_YET = messages.NOT_TRUSTED_YET
TRUSTED = messages.TRUSTED
PODS_RECEIVE_LEAF = messages.PODS_RECEIVE_LEAF
EVERY_REPLICA = messages.EVERY_REPLICA
BEGIN = stamp(NOW - BACKDATE)
CA_NOT_VALID = f"the authority is only valid from {BEGIN} to {stamp(NOW + CA)}"


def stale_in(*names: str) -> str:
    return f"the caBundle is stale in {', '.join(names)}"


def still_served_by(*places: str) -> str:
    return f"the old authority stays trusted: its leaf is still served by {', '.join(places)}"


CASES = [
    # There is nothing to do.
    ("the defaults", State(), KEEP, NO_STEP),
    ("just before the leaf's renewal time", State(after=LEAF_DUE - SECOND), KEEP, NO_STEP),
    ("no webhook configurations", State(hooks=()), KEEP, NO_STEP),
    # The authority.
    (
        "no authority",
        State(signer=None, bundle=()),
        NEW_AUTHORITY,
        "no authority can sign: the Secret does not exist",
    ),
    ("the authority is not a CA", State(signer="leaf", bundle=("old",)), NEW_AUTHORITY, messages.NOT_A_CA),
    ("the authority has expired", State(after=CA), NEW_AUTHORITY, CA_NOT_VALID),
    ("the authority is not valid yet", State(after=-DAY), NEW_AUTHORITY, CA_NOT_VALID),
    (
        "just before the authority's renewal time",
        State(after=CA_DUE - SECOND, leaf=leaf("old", CA_DUE - DAY)),
        KEEP,
        NO_STEP,
    ),
    (
        "the authority's renewal time",
        State(after=CA_DUE),
        NEW_AUTHORITY,
        f"the authority reached its renewal time at {stamp(NOW + CA_DUE)}",
    ),
    (
        "a new authority is requested",
        State(forced_certificates=ca("old")),
        NEW_AUTHORITY,
        messages.NEW_CA_REQUESTED,
    ),
    ("a requested authority is stored already", State(forced_certificates=ca("new")), KEEP, NO_STEP),
    ("a bundle without the signer", State(bundle=(), hooks=()), BUNDLE, LACKS_CA),
    ("a bundle with an expired authority", State(bundle=("old", "expired")), BUNDLE, HAS_INVALID_CA),
    ("a bundle with a certificate that is not a CA", State(bundle=("old", "leaf")), BUNDLE, HAS_INVALID_CA),
    # The caBundles and ca.crt.
    ("a caBundle is empty", State(hooks=(("old",), ())), TRUST, stale_in("validating h1")),
    ("a caBundle with another authority", State(hooks=(("new",), ("old",))), TRUST, stale_in("mutating h0")),
    ("every caBundle is empty", State(hooks=((), ())), TRUST, stale_in("mutating h0", "validating h1")),
    (
        "a caBundle with one authority too many",
        State(hooks=(("new", "old"),)),
        TRUST,
        stale_in("mutating h0"),
    ),
    ("ca.crt of the serving Secret differs", State(published=("new",)), PUBLISH, messages.NOT_PUBLISHED),
    (
        "a caBundle is empty, and there is no leaf",
        State(hooks=((),), leaf=None),
        TRUST,
        stale_in("mutating h0"),
    ),
    ("ca.crt is empty, and there is no leaf", State(published=(), leaf=None), ISSUE, NO_LEAF),
    # The leaf.
    ("no leaf", State(leaf=None), ISSUE, NO_LEAF),
    (
        "the leaf's renewal time",
        State(after=LEAF_DUE),
        ISSUE,
        f"the leaf reached its renewal time at {stamp(NOW + LEAF_DUE)}",
    ),
    (
        "an expired leaf",
        State(after=LEAF),
        ISSUE,
        f"no leaf to serve: it is only valid from {BEGIN} to {stamp(NOW + LEAF)}",
    ),
    (
        "a leaf that is not trusted",
        State(leaf=leaf("new")),
        ISSUE,
        "no leaf to serve: no trusted authority signed it",
    ),
    (
        "a leaf that lacks two names",
        State(leaf=leaf("old", names=WANTED.names[2:])),
        ISSUE,
        f"the leaf lacks the name {', '.join(WANTED.names[:2])}",
    ),
    ("a leaf with an additional name", State(leaf=leaf("old", names=(*WANTED.names, "more"))), KEEP, NO_STEP),
    (
        "a leaf that lacks an IP address",
        State(wanted=replace(WANTED, names=(*WANTED.names, "127.0.0.1"))),
        ISSUE,
        "the leaf lacks the name 127.0.0.1",
    ),
    ("a new leaf is requested", State(forced_certificates=leaf("old")), ISSUE, messages.NEW_LEAF_REQUESTED),
    ("a requested leaf is stored already", State(forced_certificates=leaf("new")), KEEP, NO_STEP),
    # A new authority next to the old one.
    (
        "a caBundle lacks the new authority",
        replacement(trusted=None, hooks=(("old",),)),
        TRUST,
        stale_in("mutating h0"),
    ),
    ("the new authority is in all caBundles", replacement(trusted=None), NOTE, IN_EVERY_BUNDLE),
    ("a caBundle has lost the new authority", replacement(hooks=(("old",),)), FORGET, messages.TRUST_LOST),
    ("just before the settling time ends", replacement(after=DAY + SETTLE - SECOND), WAIT, NOT_TRUSTED_YET),
    ("the settling time has ended", replacement(after=DAY + SETTLE), ISSUE, TRUSTED),
    (
        "the leaf's renewal time in the settling time",
        replacement(trusted=LEAF_DUE, after=LEAF_DUE),
        WAIT,
        NOT_TRUSTED_YET,
    ),
    (
        "a leaf is requested in the settling time",
        replacement(forced_certificates=leaf("old")),
        WAIT,
        NOT_TRUSTED_YET,
    ),
    (
        "the leaf ends before the settling time",
        replacement(trusted=LEAF - SETTLE / 2, after=LEAF - SETTLE / 2),
        ISSUE,
        f"the leaf ends at {stamp(NOW + LEAF)}, before the settling time ends",
    ),
    ("no leaf in the settling time", replacement(leaf=None), ISSUE, NO_LEAF),
    (
        "a still newer authority is requested",
        replacement(forced_certificates=ca("new")),
        NEW_AUTHORITY,
        messages.NEW_CA_REQUESTED,
    ),
    # The new authority signed the stored leaf.
    (
        "pods are receiving the new leaf",
        replacement(leaf=NEW_LEAF, after=DAY + SETTLE),
        WAIT,
        PODS_RECEIVE_LEAF,
    ),
    ("pods have received the new leaf", replacement(leaf=NEW_LEAF, after=RECEIVED), BUNDLE, EVERY_REPLICA),
    (
        "two replicas serve the old leaf",
        replacement(
            leaf=NEW_LEAF, after=RECEIVED, replicas={"c": OLD_LEAF, "b": OLD_LEAF, "a": NEW_LEAF.certificate}
        ),
        WAIT,
        still_served_by("b", "c"),
    ),
    (
        "all replicas serve the new leaf",
        replacement(leaf=NEW_LEAF, after=RECEIVED, replicas={"a": NEW_LEAF.certificate}),
        BUNDLE,
        EVERY_REPLICA,
    ),
    (
        "a caBundle lacks the old authority",
        replacement(leaf=NEW_LEAF, hooks=(("new",),)),
        TRUST,
        stale_in("mutating h0"),
    ),
    # A certificate is provided.
    ("provided: its authority is not trusted", State(provided=PROVIDED), BUNDLE, LACKS_CA),
    (
        "provided: a caBundle lacks its authority",
        takeover(hooks=(("old",),), trusted=None),
        TRUST,
        stale_in("mutating h0"),
    ),
    ("provided: its authority is in all caBundles", takeover(trusted=None), NOTE, IN_EVERY_BUNDLE),
    ("provided: before the settling time ends", takeover(after=DAY + SETTLE - SECOND), WAIT, NOT_TRUSTED_YET),
    ("provided: the settling time has ended", takeover(after=DAY + SETTLE), TAKE, TRUSTED),
    ("provided: there is no other leaf", takeover(leaf=None), TAKE, NO_LEAF),
    ("provided: pods are receiving it", takeover(leaf=PROVIDED, after=SETTLE), WAIT, PODS_RECEIVE_LEAF),
    ("provided: pods have received it", takeover(leaf=PROVIDED), BUNDLE, EVERY_REPLICA),
    (
        "provided: a replica serves the old leaf",
        takeover(leaf=PROVIDED, replicas={"a": OLD_LEAF}),
        WAIT,
        still_served_by("a"),
    ),
    ("provided: it is served", provided_served(), KEEP, NO_STEP),
    ("provided: the renewal time of a leaf", provided_served(after=LEAF_DUE), KEEP, NO_STEP),
    ("provided: it lacks unused names", provided_served(provided=WILDCARD, leaf=WILDCARD), KEEP, NO_STEP),
    ("provided: a new leaf of the same authority", provided_served(provided=NEXT_PROVIDED), TAKE, TRUSTED),
    ("provided: its Secret is deleted", provided_served(provided=None), BUNDLE, LACKS_CA),
    ("provided: it ends soon", provided_served(after=LEAF - 12 * SETTLE), BUNDLE, LACKS_CA),
    # A provided certificate that cannot be served is ignored. test_checks.py has the reasons.
    (
        "provided: it has expired",
        State(provided=PROVIDED, after=LEAF, leaf=leaf("old", LEAF - DAY)),
        KEEP,
        NO_STEP,
    ),
]

CALLS_FAIL = {
    *("no authority", "the authority is not a CA", "the authority has expired"),
    *("the authority is not valid yet", "a bundle without the signer", "a caBundle is empty"),
    *(
        "a caBundle with another authority",
        "every caBundle is empty",
        "a caBundle is empty, and there is no leaf",
    ),
    *("ca.crt is empty, and there is no leaf", "no leaf", "an expired leaf", "a leaf that is not trusted"),
    *("a leaf that lacks two names", "a leaf that lacks an IP address", "no leaf in the settling time"),
    "provided: there is no other leaf",
}
"""The cases in which calls of the API server fail, or may fail, until the step is done."""


@pytest.mark.parametrize(("name", "state", "action", "why"), CASES, ids=[case[0] for case in CASES])
def test_decide_returns_the_step_its_reason_and_whether_calls_fail(
    name: str, state: State, action: Action, why: str
) -> None:
    decision = decide(state.inputs())
    assert (decision.action, decision.why) == (action, why)
    assert decision.calls_fail == (name in CALLS_FAIL)


def test_every_action_has_a_case() -> None:
    assert {case[2] for case in CASES} == set(Action)
    assert {case[0] for case in CASES} >= CALLS_FAIL


def test_valid_trusted_authorities_stay_trusted_next_to_a_new_authority() -> None:
    decision = decide(replacement(bundle=("new", "old", "expired"), forced_certificates=ca("new")).inputs())
    assert decision.bundle == certificates(("new", "old"))


def test_valid_trusted_authorities_stay_trusted_if_the_signing_authority_is_lost() -> None:
    state = State(signer=None, bundle=(), published=("old",), hooks=(("new",), ("expired",), ()))
    assert decide(state.inputs()).bundle == certificates(("old", "new"))


def test_the_old_authority_is_removed_from_the_bundle() -> None:
    assert decide(replacement(leaf=NEW_LEAF, after=2 * DAY).inputs()).bundle == certificates(("new",))


def test_keep_and_wait_include_the_time_of_the_next_decision() -> None:
    assert decide(State().inputs()).until == NOW + LEAF_DUE
    assert decide(replacement().inputs()).until == NOW + DAY + SETTLE
    assert decide(replacement(leaf=NEW_LEAF).inputs()).until == NOW + RECEIVED


def test_a_lifetime_begins_with_the_creation_of_the_certificate() -> None:
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
def test_lifetimes_that_leave_no_time_for_a_rotation_are_refused(
    change: dict[str, timedelta], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        replace(WANTED, **change)  # type: ignore[arg-type]
