"""What is to be done next, from what is stored and the time. Pure: no clock, no network, no randomness.

Decisions come one step at a time. Whoever carries one out reads again and asks again, so that a crash, a
lost race or a stranger's change between two steps needs no case of its own.

An authority is replaced in this order; each step waits until the one before is seen to be done:

1. A new authority is stored beside the old one: it signs from now on, both are in the bundle.
2. Every caBundle and the serving Secret's ``ca.crt`` get the bundle.
3. A settling time later every API server has seen that. A leaf of the new authority is stored.
4. A settling time later every kubelet has written it into its pods, and no replica that can be asked still
   serves a leaf of the old one. The old one is taken out of the bundle, and out of the caBundles.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from enum import Enum
from typing import TYPE_CHECKING

from certs.authority import BACKDATE, signed_by
from certs.checks import at, good, is_authority, lacking_names, renewal, still_good, unusable

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from certs.case import Case
    from certs.held import Bundle


class Action(Enum):
    """What to do next."""

    KEEP = "keep"
    WAIT = "wait"
    NEW_AUTHORITY = "new authority"
    BUNDLE = "change bundle"
    FORGET = "forget trust"
    TRUST = "patch caBundle"
    PUBLISH = "publish bundle"
    NOTE = "note trust"
    ISSUE = "issue leaf"


@dataclass(frozen=True, slots=True)
class Decision:
    """What to do next.

    Attributes:
        action: The step.
        why: The reason, as a sentence without its end.
        bundle: For `Action.NEW_AUTHORITY` the authorities that stay trusted beside it, for
            `Action.BUNDLE` all that are to be.
        until: When there will be something to do, if nothing changes; for KEEP and WAIT.
        broken: Whether calls from the API server fail, or may, until it is done.
    """

    action: Action
    why: str
    bundle: Bundle = frozenset()
    until: datetime | None = None
    broken: bool = False


def decide(case: Case) -> Decision:
    """Say what to do next: the answer of the first row that has one."""
    for row in _ROWS:
        decision = row(case)
        if decision is not None:
            return decision
    return _keep(case)


def _no_authority(case: Case) -> Decision | None:
    held = case.stored.authority
    if held.pair is not None:
        ca = held.pair.certificate
        if good(ca, case.now):
            return None
        why = f"the authority is good from {at(ca.not_valid_before_utc)} to {at(ca.not_valid_after_utc)}"
        why += " only" if is_authority(ca) else ", and it is none"
        known = held.bundle
    else:
        why = f"no authority that can sign: {held.problem}"
        # The key is gone, perhaps with the Secrets; replicas serve on with what they have mounted, so
        # whoever is trusted now stays trusted until their leaves are replaced.
        known = held.bundle | case.stored.serving.bundle
        known = known.union(*(bundle for hook in case.stored.hooks for bundle in hook.bundles))
    return Decision(Action.NEW_AUTHORITY, why, still_good(known, case.now), broken=True)


def _old_authority(case: Case) -> Decision | None:
    if case.force.authority == case.signer:
        why = "a new authority was asked for"
    elif case.now >= renewal(case.signer):
        why = f"two thirds of the authority's life were over at {at(renewal(case.signer))}"
    else:
        return None
    return Decision(Action.NEW_AUTHORITY, why, still_good(case.bundle | {case.signer}, case.now))


def _odd_bundle(case: Case) -> Decision | None:
    wanted = still_good(case.bundle, case.now) | {case.signer}
    if wanted == case.bundle:
        return None
    why = "the bundle lacks the authority that signs"
    if case.signer in case.bundle:
        why = "an authority in the bundle is over, or is none"
    return Decision(Action.BUNDLE, why, wanted, broken=case.signer not in case.bundle)


def _lost_trust(case: Case) -> Decision | None:
    """A caBundle lost an authority that is about to sign: the settling time begins anew."""
    if case.of_signer or case.stored.authority.trusted_since is None:
        return None
    if all(case.signer in bundle for hook in case.stored.hooks for bundle in hook.bundles):
        return None
    return Decision(Action.FORGET, "a caBundle no longer holds the new authority")


def _untrusted(case: Case) -> Decision | None:
    wrong = [hook for hook in case.stored.hooks if any(held != case.bundle for held in hook.bundles)]
    if not wrong:
        return None
    serving = case.stored.serving
    broken = any(
        unusable(serving.leaf, serving.problem, held, case.now) for hook in wrong for held in hook.bundles
    )
    names = ", ".join(f"{hook.kind} {hook.name}" for hook in wrong)
    return Decision(Action.TRUST, f"another caBundle is wanted in {names}", broken=broken)


def _unpublished(case: Case) -> Decision | None:
    serving = case.stored.serving
    if serving.bundle == case.bundle or unusable(serving.leaf, serving.problem, case.bundle, case.now):
        return None  # what needs a leaf gets its bundle with it
    return Decision(Action.PUBLISH, "ca.crt of the serving Secret is not the bundle")


def _unnoted(case: Case) -> Decision | None:
    if len(case.bundle) == 1 or case.stored.authority.trusted_since is not None:
        return None
    return Decision(Action.NOTE, "every caBundle holds the new authority")


def _broken_leaf(case: Case) -> Decision | None:
    serving = case.stored.serving
    why = unusable(serving.leaf, serving.problem, case.bundle, case.now)
    # At once, settled or not: there is nothing good to serve meanwhile.
    return Decision(Action.ISSUE, f"no leaf to serve: {why}", broken=True) if why else None


def _leaf_of_old_authority(case: Case) -> Decision | None:
    leaf, since = case.stored.serving.leaf, case.stored.authority.trusted_since
    if leaf is None or case.of_signer:
        return None
    settled = since + case.policy.settle if since else case.now
    if case.now >= settled:
        return Decision(Action.ISSUE, "the new authority is trusted everywhere")
    if leaf.not_valid_after_utc <= settled:
        return Decision(Action.ISSUE, f"the leaf ends at {at(leaf.not_valid_after_utc)}, before all settles")
    return Decision(Action.WAIT, "API servers are learning to trust the new authority", until=settled)


def _old_leaf(case: Case) -> Decision | None:
    leaf = case.stored.serving.leaf
    if leaf is None:
        return None
    lacking = lacking_names(leaf, case.policy)
    if lacking:
        return Decision(Action.ISSUE, f"the leaf lacks the name {', '.join(lacking)}", broken=True)
    if case.force.leaf == leaf:
        return Decision(Action.ISSUE, "a new leaf was asked for")
    if case.now >= renewal(leaf):
        return Decision(Action.ISSUE, f"two thirds of the leaf's life were over at {at(renewal(leaf))}")
    return None


def _old_authority_retires(case: Case) -> Decision | None:
    leaf = case.stored.serving.leaf
    if leaf is None or len(case.bundle) == 1:
        return None
    # A second more, for certificates count whole ones only.
    settled = leaf.not_valid_before_utc + BACKDATE + case.policy.settle + timedelta(seconds=1)
    if case.now < settled:
        return Decision(Action.WAIT, "pods are receiving the new authority's leaf", until=settled)
    behind = [place for place, seen in (case.replicas or {}).items() if not signed_by(seen, case.signer)]
    if behind:
        why = f"the old authority stays trusted: its leaf is still served by {', '.join(sorted(behind))}"
        return Decision(Action.WAIT, why, until=case.now + case.policy.settle)
    return Decision(Action.BUNDLE, "every replica serves the new authority's leaf", frozenset({case.signer}))


def _keep(case: Case) -> Decision:
    leaf = case.stored.serving.leaf
    due = min(renewal(certificate) for certificate in (leaf, case.signer) if certificate)
    return Decision(Action.KEEP, "all is well", until=due)


_ROWS: tuple[Callable[[Case], Decision | None], ...] = (
    _no_authority,
    _old_authority,
    _odd_bundle,
    _lost_trust,
    _untrusted,
    _unpublished,
    _unnoted,
    _broken_leaf,
    _leaf_of_old_authority,
    _old_leaf,
    _old_authority_retires,
)
