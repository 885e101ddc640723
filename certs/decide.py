"""What is to be done next, from what is stored and the time. Pure: no clock, no network, no randomness.

Decisions come one step at a time. Whoever carries one out reads again and asks again, so that a crash, a
lost race or a stranger's change between two steps needs no case of its own.

An authority is replaced in this order; each step waits until the one before is seen to be done:

1. A new authority is stored beside the old one: it signs from now on, both are in the bundle.
2. Every caBundle and the serving Secret's ``ca.crt`` get the bundle.
3. A settling time later every API server has seen that. A leaf of the new authority is stored.
4. A settling time later every kubelet has written it into its pods, and no replica that can be asked still
   serves a leaf of the old one. The old one is taken out of the bundle, and out of the caBundles.

A certificate from elsewhere is a Secret that is only read. While it is there and can be served, it stands for
"a leaf of the new authority", with the authorities of its ``ca.crt``; when it goes, this program's own
authority is the new one again. So a change of who makes the certificate is such a replacement as well.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum

from certs.authority import BACKDATE, is_authority, lacking, span
from certs.inputs import Inputs, good, last_served, renewal, still_good, unusable, verifies
from certs.objects import Bundle
from common.times import stamp


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
    TAKE = "take provided leaf"


@dataclass(frozen=True, slots=True)
class NextStep:
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


def decide(inputs: Inputs) -> NextStep:
    """Say what to do next: the answer of the first row that has one."""
    for row in _ROWS:
        decision = row(inputs)
        if decision is not None:
            return decision
    return _keep(inputs)


def _no_authority(inputs: Inputs) -> NextStep | None:
    held = inputs.authority
    if held.pair is not None:
        ca = held.pair.certificate
        if good(ca, inputs.now):
            return None
        why = "the certificate in the authority's Secret is not a CA"
        if is_authority(ca):
            why = f"the authority is {span(ca)} only"
        known = held.bundle
    else:
        why = f"no authority that can sign: {held.problem}"
        # The key is gone, perhaps with the Secrets; replicas serve on with what they have mounted, so
        # whoever is trusted now stays trusted until their leaves are replaced.
        known = held.bundle | inputs.serving.bundle
        known = known.union(*(bundle for hook in inputs.hooks for bundle in hook.bundles))
    return NextStep(Action.NEW_AUTHORITY, why, still_good(known, inputs.now), broken=True)


def _old_authority(inputs: Inputs) -> NextStep | None:
    signer = inputs.signer.certificate
    if signer in inputs.forced:
        why = "a new authority was requested"
    elif inputs.now >= renewal(signer):
        why = f"the authority reached its renewal time at {stamp(renewal(signer))}"
    else:
        return None
    return NextStep(Action.NEW_AUTHORITY, why, still_good(inputs.bundle | {signer}, inputs.now))


def _odd_bundle(inputs: Inputs) -> NextStep | None:
    trusted = still_good(inputs.bundle, inputs.now) | inputs.anchors
    if trusted == inputs.bundle:
        return None
    why = "the bundle lacks the authority of the leaf that is to be served"
    if inputs.anchors <= inputs.bundle:
        why = "a certificate in the bundle has expired, or is not a CA"
    broken = bool(unusable(inputs.serving, inputs.bundle, inputs.now))
    return NextStep(Action.BUNDLE, why, trusted, broken=broken)


def _lost_trust(inputs: Inputs) -> NextStep | None:
    """A caBundle lost an authority whose leaf is about to be served: the settling time begins again."""
    if inputs.moved or inputs.authority.noted is None:
        return None
    if all(inputs.anchors <= bundle for hook in inputs.hooks for bundle in hook.bundles):
        return None
    return NextStep(Action.FORGET, "a caBundle no longer holds the new authority")


def _untrusted(inputs: Inputs) -> NextStep | None:
    wrong = [hook for hook in inputs.hooks if any(held != inputs.bundle for held in hook.bundles)]
    if not wrong:
        return None
    serving = inputs.serving
    broken = any(unusable(serving, held, inputs.now) for hook in wrong for held in hook.bundles)
    names = ", ".join(f"{hook.kind} {hook.name}" for hook in wrong)
    return NextStep(Action.TRUST, f"another caBundle is wanted in {names}", broken=broken)


def _unpublished(inputs: Inputs) -> NextStep | None:
    serving = inputs.serving
    if serving.bundle == inputs.bundle or unusable(serving, inputs.bundle, inputs.now):
        return None  # what needs a leaf gets its bundle with it
    return NextStep(Action.PUBLISH, "ca.crt of the serving Secret is not the bundle")


def _broken_leaf(inputs: Inputs) -> NextStep | None:
    why = unusable(inputs.serving, inputs.bundle, inputs.now)
    # At once, settled or not: there is nothing good to serve meanwhile.
    return _another_leaf(inputs, f"no leaf to serve: {why}", broken=True) if why else None


def _unnoted(inputs: Inputs) -> NextStep | None:
    complete = inputs.moved and inputs.bundle == inputs.anchors
    if complete or inputs.authority.noted is not None:
        return None
    return NextStep(Action.NOTE, "every caBundle holds the new authority")


def _leaf_of_old_authority(inputs: Inputs) -> NextStep | None:
    leaf, since = inputs.serving.certificate, inputs.authority.noted
    if leaf is None or inputs.moved:
        return None
    settled = since + inputs.wanted.settle if since else inputs.now
    if inputs.now >= settled:
        return _another_leaf(inputs, "the new authority is trusted everywhere")
    if leaf.not_valid_after_utc <= settled:
        return _another_leaf(
            inputs, f"the leaf ends at {stamp(leaf.not_valid_after_utc)}, before all settles"
        )
    return NextStep(Action.WAIT, "API servers do not trust the new authority yet", until=settled)


def _old_leaf(inputs: Inputs) -> NextStep | None:
    leaf = inputs.serving.certificate
    if leaf is None or inputs.takes:
        return None
    if missing := lacking(leaf, inputs.wanted.names):
        return NextStep(Action.ISSUE, f"the leaf lacks the name {', '.join(missing)}", broken=True)
    if leaf in inputs.forced:
        return NextStep(Action.ISSUE, "a new leaf was requested")
    if inputs.now >= renewal(leaf):
        return NextStep(Action.ISSUE, f"the leaf reached its renewal time at {stamp(renewal(leaf))}")
    return None


def _old_authority_retires(inputs: Inputs) -> NextStep | None:
    serving = inputs.serving
    if serving.pair is None or inputs.bundle == inputs.anchors:
        return None
    stored_at = serving.noted or serving.pair.certificate.not_valid_before_utc + BACKDATE
    # A second more, for certificates count whole ones only.
    settled = stored_at + inputs.wanted.settle + timedelta(seconds=1)
    if inputs.now < settled:
        return NextStep(Action.WAIT, "pods are receiving the new authority's leaf", until=settled)
    behind = [
        place
        for place, seen in (inputs.replicas or {}).items()
        if not verifies(seen, serving.pair.intermediates, inputs.anchors, inputs.now)
    ]
    if behind:
        why = f"the old authority stays trusted: its leaf is still served by {', '.join(sorted(behind))}"
        return NextStep(Action.WAIT, why, until=inputs.now + inputs.wanted.settle)
    return NextStep(Action.BUNDLE, "every replica serves the new authority's leaf", inputs.anchors)


def _keep(inputs: Inputs) -> NextStep:
    leaf = inputs.serving.certificate
    due = renewal(inputs.signer.certificate)
    if leaf:
        due = min(due, last_served(leaf, inputs.wanted) if inputs.takes else renewal(leaf))
    return NextStep(Action.KEEP, "nothing to do", until=due)


def _another_leaf(inputs: Inputs, why: str, *, broken: bool = False) -> NextStep:
    return NextStep(Action.TAKE if inputs.takes else Action.ISSUE, why, broken=broken)


_ROWS: tuple[Callable[[Inputs], NextStep | None], ...] = (
    _no_authority,
    _old_authority,
    _odd_bundle,
    _lost_trust,
    _untrusted,
    _unpublished,
    _broken_leaf,
    _unnoted,
    _leaf_of_old_authority,
    _old_leaf,
    _old_authority_retires,
)
