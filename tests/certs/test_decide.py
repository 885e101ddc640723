"""What is decided, as a table: what is stored, what is wanted, the time; the step and its reason."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import cache
from typing import TYPE_CHECKING

import pytest

from certs.authority import BACKDATE, Pair, issue, new_authority
from certs.checks import renewal
from certs.decide import Action, decide
from certs.inputs import Force, Inputs, Policy
from certs.observed import AuthoritySecret, Hook, ServingSecret, Stored
from tests.certs.fake import NOW, POLICY

if TYPE_CHECKING:
    from cryptography import x509

DAY, SECOND = timedelta(days=1), timedelta(seconds=1)
SETTLE = POLICY.settle
LEAF, CA = POLICY.leaf_lifetime, POLICY.authority_lifetime
LEAF_DUE = LEAF * 2 / 3
CA_DUE = CA * 2 / 3


@cache
def ca(name: str) -> Pair:
    """``old``, ``new`` and ``theirs`` were made at NOW; ``dead`` ended before it."""
    return new_authority(NOW - 10 * DAY, 5 * DAY) if name == "dead" else new_authority(NOW, CA)


@cache
def leaf(signer: str, after: timedelta = timedelta(0), names: tuple[str, ...] = POLICY.dns_names) -> Pair:
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
    force: Force = field(default_factory=Force)
    policy: Policy = POLICY
    replicas: dict[str, x509.Certificate] | None = None
    provided: Pair | None = None
    provided_ca: tuple[str, ...] = ("theirs",)

    def case(self) -> Inputs:
        """The state in full."""
        bundle = frozenset(ca(name).certificate for name in self.bundle)
        published = bundle if self.published is None else certificates(self.published)
        hooks = self.hooks if self.hooks is not None else (self.bundle, self.bundle)
        stored = Stored(
            AuthoritySecret(
                {},
                ca(self.signer) if self.signer else None,
                "" if self.signer else "it does not exist",
                bundle,
                NOW + self.trusted if self.trusted is not None else None,
            ),
            secret(self.leaf, published),
            tuple(Hook("mutating", f"m{i}", {}, (certificates(held),)) for i, held in enumerate(hooks)),
            secret(self.provided, certificates(self.provided_ca)) if self.provided else ABSENT,
        )
        return Inputs(stored, self.policy, NOW + self.after, self.force, self.replicas)


ABSENT = ServingSecret(None, (), "it does not exist", frozenset())


def secret(pair: Pair | None, bundle: frozenset[x509.Certificate]) -> ServingSecret:
    return ServingSecret({}, (pair.certificate,) if pair else (), "it does not exist", bundle)


def certificates(names: tuple[str, ...]) -> frozenset[x509.Certificate]:
    return frozenset(ca(name).certificate for name in names)


def both(**change: object) -> Given:
    """An authority is being replaced: the new one signs, both are trusted, the leaf is the old one's."""
    made = Given(signer="new", bundle=("new", "old"), trusted=DAY, after=DAY)
    return replace(made, **change)  # type: ignore[arg-type]


def taking(**change: object) -> Given:
    """A certificate is provided, and its authority trusted since a day after its making."""
    made = Given(bundle=("theirs", "old"), trusted=DAY, after=DAY, provided=THEIRS)
    return replace(made, **change)  # type: ignore[arg-type]


def served(**change: object) -> Given:
    """The provided certificate is served, and its authority alone is trusted."""
    made = Given(bundle=("theirs",), trusted=DAY, after=2 * DAY, provided=THEIRS, leaf=THEIRS)
    return replace(made, **change)  # type: ignore[arg-type]


THEIRS, NEXT = leaf("theirs"), leaf("theirs", DAY)
SHORT = leaf("theirs", names=(f"*.{POLICY.dns_names[0].partition('.')[2]}",))
MOVED = leaf("new", DAY)  # the leaf of the new authority, a day later
WAIT, KEEP, ISSUE = Action.WAIT, Action.KEEP, Action.ISSUE

CASES = [
    # All is well.
    ("nothing to do", Given(), KEEP, "all is well"),
    ("just before the leaf is due", Given(after=LEAF_DUE - SECOND), KEEP, "all is well"),
    ("no webhook configurations", Given(hooks=()), KEEP, "all is well"),
    ("a configuration without webhooks", Given(hooks=((), ("old",))[:0]), KEEP, "all is well"),
    # The authority.
    ("no authority", Given(signer=None, bundle=()), Action.NEW_AUTHORITY, "it does not exist"),
    ("an authority that is over", Given(after=CA), Action.NEW_AUTHORITY, "the authority is good from"),
    ("one that has not begun", Given(after=-DAY), Action.NEW_AUTHORITY, "the authority is good from"),
    ("just before it is due", Given(after=CA_DUE - SECOND, leaf=leaf("old", CA_DUE - DAY)), KEEP, "well"),
    (
        "its renewal time reached",
        Given(after=CA_DUE),
        Action.NEW_AUTHORITY,
        "the authority reached",
    ),
    ("asked for", Given(force=Force(ca("old").certificate)), Action.NEW_AUTHORITY, "asked for"),
    ("asked for, and done already", Given(force=Force(ca("new").certificate)), KEEP, "all is well"),
    ("a bundle without the signer", Given(bundle=(), hooks=()), Action.BUNDLE, "lacks the authority"),
    (
        "a bundle with one that is over",
        Given(bundle=("old", "dead")),
        Action.BUNDLE,
        "has expired",
    ),
    # The caBundles and ca.crt.
    ("a caBundle is empty", Given(hooks=(("old",), ())), Action.TRUST, "mutating m1"),
    ("a caBundle of another", Given(hooks=(("new",), ("old",))), Action.TRUST, "mutating m0"),
    ("a caBundle too many", Given(hooks=(("new", "old"),)), Action.TRUST, "mutating m0"),
    ("ca.crt differs", Given(published=("new",)), Action.PUBLISH, "ca.crt of the serving Secret"),
    ("caBundles come before a leaf", Given(hooks=((),), leaf=None), Action.TRUST, "mutating m0"),
    ("a leaf brings ca.crt with it", Given(published=(), leaf=None), ISSUE, "it does not exist"),
    # The leaf.
    ("no leaf", Given(leaf=None), ISSUE, "no leaf to serve: it does not exist"),
    ("the leaf's renewal time reached", Given(after=LEAF_DUE), ISSUE, "the leaf reached its renewal time"),
    ("a leaf that is over", Given(after=LEAF), ISSUE, "no leaf to serve: it is good from"),
    ("a leaf of nobody trusted", Given(leaf=leaf("new")), ISSUE, "no trusted authority signed it"),
    ("a leaf without a name", Given(leaf=leaf("old", names=POLICY.dns_names[1:])), ISSUE, "lacks the name"),
    ("a name more is no harm", Given(leaf=leaf("old", names=(*POLICY.dns_names, "more"))), KEEP, "well"),
    (
        "an address is wanted",
        Given(policy=replace(POLICY, ip_addresses=("127.0.0.1",))),
        ISSUE,
        "lacks the name 127.0.0.1",
    ),
    ("a leaf asked for", Given(force=Force(leaf=leaf("old").certificate)), ISSUE, "a new leaf was asked for"),
    ("asked for, and done already", Given(force=Force(leaf=leaf("new").certificate)), KEEP, "all is well"),
    # A new authority beside the old one.
    ("not in every caBundle", both(trusted=None, hooks=(("old",),)), Action.TRUST, "mutating m0"),
    ("in every caBundle, not noted", both(trusted=None), Action.NOTE, "every caBundle holds"),
    ("lost from a caBundle again", both(hooks=(("old",),)), Action.FORGET, "no longer holds"),
    ("API servers are learning", both(after=DAY + SETTLE - SECOND), WAIT, "API servers are learning"),
    ("API servers have learnt", both(after=DAY + SETTLE), ISSUE, "trusted everywhere"),
    ("a due leaf waits for that", both(trusted=LEAF_DUE, after=LEAF_DUE), WAIT, "API servers are learning"),
    ("a forced leaf waits for that", both(force=Force(leaf=leaf("old").certificate)), WAIT, "learning"),
    (
        "a leaf that ends first does not",
        both(trusted=LEAF - SETTLE / 2, after=LEAF - SETTLE / 2),
        ISSUE,
        "before all settles",
    ),
    ("a lost leaf does not", both(leaf=None), ISSUE, "no leaf to serve"),
    ("a newer one is asked for", both(force=Force(ca("new").certificate)), Action.NEW_AUTHORITY, "asked"),
    # The leaf is the new authority's.
    ("pods are receiving it", both(leaf=MOVED, after=DAY + SETTLE), WAIT, "pods are receiving"),
    (
        "pods have received it",
        both(leaf=MOVED, after=DAY + SETTLE + SECOND),
        Action.BUNDLE,
        "every replica serves",
    ),
    (
        "one has not",
        both(
            leaf=MOVED,
            after=DAY + SETTLE + SECOND,
            replicas={"10.0.0.1:8443": leaf("old").certificate, "10.0.0.2:8443": MOVED.certificate},
        ),
        WAIT,
        "still served by 10.0.0.1:8443",
    ),
    (
        "all are seen to have",
        both(leaf=MOVED, after=DAY + SETTLE + SECOND, replicas={"10.0.0.2:8443": MOVED.certificate}),
        Action.BUNDLE,
        "every replica",
    ),
    ("a caBundle without the old one", both(leaf=MOVED, hooks=(("new",),)), Action.TRUST, "m0"),
    # A certificate is provided.
    (
        "its authority is not trusted",
        Given(provided=THEIRS),
        Action.BUNDLE,
        "lacks the authority of the leaf",
    ),
    ("it is in no caBundle yet", taking(hooks=(("old",),), trusted=None), Action.TRUST, "mutating m0"),
    ("it is in every caBundle, not noted", taking(trusted=None), Action.NOTE, "every caBundle holds"),
    ("API servers learn of it", taking(after=DAY + SETTLE - SECOND), WAIT, "API servers are learning"),
    ("API servers know it", taking(after=DAY + SETTLE), Action.TAKE, "trusted everywhere"),
    ("nothing else is there to serve", taking(leaf=None), Action.TAKE, "no leaf to serve"),
    ("pods receive it", taking(leaf=THEIRS, after=SETTLE), WAIT, "pods are receiving"),
    ("pods have it", taking(leaf=THEIRS), Action.BUNDLE, "every replica serves"),
    (
        "a pod serves the leaf of before",
        taking(leaf=THEIRS, replicas={"10.0.0.1:8443": leaf("old").certificate}),
        WAIT,
        "still served by 10.0.0.1:8443",
    ),
    ("it is served", served(), KEEP, "all is well"),
    ("it is served for longer than its own would be", served(after=LEAF_DUE), KEEP, "all is well"),
    ("it lacks names that nobody asks for", served(provided=SHORT, leaf=SHORT), KEEP, "all is well"),
    ("it is replaced by one of the same authority", served(provided=NEXT), Action.TAKE, "trusted everywhere"),
    ("it was taken away", served(provided=None), Action.BUNDLE, "lacks the authority of the leaf"),
    ("its end is near", served(after=LEAF - 12 * SETTLE), Action.BUNDLE, "lacks the authority of the leaf"),
    # A provided certificate that cannot be served counts as none.
    ("it has ended", Given(provided=THEIRS, after=LEAF, leaf=leaf("old", LEAF - DAY)), KEEP, "all is well"),
    ("it has not begun", Given(provided=leaf("theirs", 2 * DAY)), KEEP, "all is well"),
    ("its ca.crt is another's", Given(provided=THEIRS, provided_ca=("new",)), KEEP, "all is well"),
    ("it has no ca.crt", Given(provided=THEIRS, provided_ca=()), KEEP, "all is well"),
    ("it is for another name", Given(provided=leaf("theirs", names=("a.b",))), KEEP, "all is well"),
]


@pytest.mark.parametrize(("given", "action", "why"), [c[1:] for c in CASES], ids=[c[0] for c in CASES])
def test_the_step_and_its_reason(given: Given, action: Action, why: str) -> None:
    decision = decide(given.case())
    assert decision.action is action
    assert why in decision.why


def test_every_step_is_in_the_table() -> None:
    assert {case[2] for case in CASES} == set(Action)


def test_a_new_authority_joins_those_that_are_trusted_and_good() -> None:
    decision = decide(both(bundle=("new", "old", "dead"), force=Force(ca("new").certificate)).case())
    assert decision.bundle == certificates(("new", "old"))


def test_without_an_authority_whoever_anything_trusts_stays_trusted() -> None:
    given = Given(signer=None, bundle=(), published=("old",), hooks=(("new",), ("dead",), ()))
    assert decide(given.case()).bundle == certificates(("old", "new"))


def test_the_retired_authority_leaves_the_bundle() -> None:
    assert decide(both(leaf=MOVED, after=2 * DAY).case()).bundle == certificates(("new",))


def test_what_breaks_calls_is_told_from_what_is_only_due() -> None:
    broken = [
        Given(signer=None),
        Given(leaf=None),
        Given(hooks=((),)),
        Given(leaf=leaf("new")),
        Given(after=LEAF),
    ]
    due = [Given(after=LEAF_DUE), Given(after=CA_DUE - SECOND, leaf=leaf("old", CA_DUE - DAY)), both()]
    assert [decide(given.case()).broken for given in broken] == [True] * len(broken)
    assert [decide(given.case()).broken for given in due] == [False] * len(due)


def test_keep_and_wait_say_when_to_look_again() -> None:
    assert decide(Given().case()).until == NOW + LEAF_DUE
    assert decide(both().case()).until == NOW + DAY + SETTLE
    assert decide(both(leaf=MOVED).case()).until == NOW + DAY + SETTLE + SECOND


def test_life_is_counted_from_when_a_certificate_was_made() -> None:
    short = issue(ca("old"), NOW, 30 * SECOND, POLICY.dns_names).certificate
    assert short.not_valid_before_utc == NOW - BACKDATE
    assert renewal(short) == NOW + 20 * SECOND


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"leaf_lifetime": 2 * CA}, "cannot outlive"),
        ({"settle": LEAF / 11}, "shorter than twelve settling times"),
    ],
)
def test_lifetimes_in_which_no_rotation_fits_are_refused(change: dict[str, timedelta], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        replace(POLICY, **change)  # type: ignore[arg-type]
