"""Decides the next step from the stored objects and the time. Pure: no clock, no network, no randomness.

A decision is one step. After each step the caller reads and decides again. So a crash, a conflict or another
client's change between two steps needs no special case.

An authority is replaced in this order. Each step begins when the previous step is complete:

1. A new authority is stored next to the old authority, and signs from now on. The bundle has both.
2. Every caBundle and the serving Secret's ``ca.crt`` get the bundle.
3. A settling time later every API server has seen the bundle. A leaf of the new authority is stored.
4. A settling time later every kubelet has written the leaf into its pods, and no reachable replica still
   serves a leaf of the old authority. The old authority is removed from the bundle, then from every caBundle
   and from the serving Secret's ``ca.crt``.

A change of issuer follows the same order. A provided certificate is in a Secret that this program never
writes. While it can be served, it is "a leaf of the new authority", and the authorities in that Secret's
``ca.crt`` are "the new authority". While it cannot be served, the new authority is this program's own.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum

from certs import messages
from certs.authority import BACKDATE, is_authority, missing_names, validity_text
from certs.inputs import (
    Inputs,
    is_valid_authority,
    is_verified_by,
    renewal_time,
    serving_end,
    valid_authorities,
    why_refused,
)
from certs.objects import Bundle


class Action(Enum):
    """The kind of a step. docs/reference.md explains the kinds."""

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
    """The next step."""

    action: Action  # the kind of the step
    why: str  # the reason, as a sentence without a full stop
    # For `Action.NEW_AUTHORITY`, the old authorities that stay trusted; for `Action.BUNDLE`, all trusted
    # authorities.
    bundle: Bundle = frozenset()
    until: datetime | None = None  # for KEEP and WAIT, when to decide again if nothing changes; else None
    calls_fail: bool = False  # whether calls from the API server fail, or may fail, until the step is done


def decide(inputs: Inputs) -> NextStep:
    """Returns the step of the first function of `_CHECKS` that returns a step; KEEP if none does."""
    steps = (check(inputs) for check in _CHECKS)
    return next(filter(None, steps), None) or _keep(inputs)


def _check_authority_is_usable(inputs: Inputs) -> NextStep | None:
    secret = inputs.authority
    if secret.pair is not None:
        ca = secret.pair.certificate
        if is_valid_authority(ca, inputs.now):
            return None
        why = messages.NOT_A_CA
        if is_authority(ca):
            why = messages.ca_not_valid(validity_text(ca))
        trusted = secret.bundle
    else:
        why = messages.no_ca(secret.problem)
        # The key is lost, perhaps with the Secrets. Replicas can still serve mounted leaves. Until these
        # leaves are replaced, all authorities that are trusted now stay trusted.
        trusted = secret.bundle | inputs.serving.bundle
        trusted = trusted.union(*(bundle for hook in inputs.hooks for bundle in hook.bundles))
    return NextStep(Action.NEW_AUTHORITY, why, valid_authorities(trusted, inputs.now), calls_fail=True)


def _check_authority_age(inputs: Inputs) -> NextStep | None:
    signer = inputs.signer.certificate
    if signer in inputs.forced_certificates:
        why = messages.NEW_CA_REQUESTED
    elif inputs.now >= renewal_time(signer):
        why = messages.ca_due(renewal_time(signer))
    else:
        return None
    return NextStep(Action.NEW_AUTHORITY, why, valid_authorities(inputs.bundle | {signer}, inputs.now))


def _check_bundle(inputs: Inputs) -> NextStep | None:
    trusted = valid_authorities(inputs.bundle, inputs.now) | inputs.anchors
    if trusted == inputs.bundle:
        return None
    why = messages.BUNDLE_LACKS_CA
    if inputs.anchors <= inputs.bundle:
        why = messages.BUNDLE_HAS_INVALID_CA
    calls_fail = bool(why_refused(inputs.serving, inputs.bundle, inputs.now))
    return NextStep(Action.BUNDLE, why, trusted, calls_fail=calls_fail)


def _check_trust_in_new_authority(inputs: Inputs) -> NextStep | None:
    """Returns a step that restarts the settling time if a caBundle lacks an authority of the wanted leaf."""
    if inputs.has_wanted_issuer or inputs.authority.noted_time is None:
        return None
    if all(inputs.anchors <= bundle for hook in inputs.hooks for bundle in hook.bundles):
        return None
    return NextStep(Action.FORGET, messages.TRUST_LOST)


def _check_ca_bundles(inputs: Inputs) -> NextStep | None:
    stale_hooks = [hook for hook in inputs.hooks if any(bundle != inputs.bundle for bundle in hook.bundles)]
    if not stale_hooks:
        return None
    serving = inputs.serving
    bundles = [bundle for hook in stale_hooks for bundle in hook.bundles]
    calls_fail = any(why_refused(serving, bundle, inputs.now) for bundle in bundles)
    why = messages.stale(", ".join(f"{hook.kind} {hook.name}" for hook in stale_hooks))
    return NextStep(Action.TRUST, why, calls_fail=calls_fail)


def _check_published_bundle(inputs: Inputs) -> NextStep | None:
    serving = inputs.serving
    if serving.bundle == inputs.bundle or why_refused(serving, inputs.bundle, inputs.now):
        return None  # the next leaf is stored together with the bundle
    return NextStep(Action.PUBLISH, messages.NOT_PUBLISHED)


def _check_leaf_is_usable(inputs: Inputs) -> NextStep | None:
    why = why_refused(inputs.serving, inputs.bundle, inputs.now)
    # This step does not wait for the settling time, because there is no valid leaf to serve.
    return _replace_leaf(inputs, messages.no_leaf(why), calls_fail=True) if why else None


def _check_trust_is_noted(inputs: Inputs) -> NextStep | None:
    is_complete = inputs.has_wanted_issuer and inputs.bundle == inputs.anchors
    if is_complete or inputs.authority.noted_time is not None:
        return None
    return NextStep(Action.NOTE, messages.IN_EVERY_BUNDLE)


def _check_leaf_issuer(inputs: Inputs) -> NextStep | None:
    leaf, trusted_since = inputs.serving.certificate, inputs.authority.noted_time
    if leaf is None or inputs.has_wanted_issuer:
        return None
    settling_end = trusted_since + inputs.wanted.settle if trusted_since else inputs.now
    if inputs.now >= settling_end:
        return _replace_leaf(inputs, messages.TRUSTED)
    if leaf.not_valid_after_utc <= settling_end:
        return _replace_leaf(inputs, messages.leaf_ends_early(leaf.not_valid_after_utc))
    return NextStep(Action.WAIT, messages.NOT_TRUSTED_YET, until=settling_end)


def _check_leaf_names_and_age(inputs: Inputs) -> NextStep | None:
    leaf = inputs.serving.certificate
    if leaf is None or inputs.serves_provided:
        return None
    if missing := missing_names(leaf, inputs.wanted.names):
        return NextStep(Action.ISSUE, messages.leaf_lacks(", ".join(missing)), calls_fail=True)
    if leaf in inputs.forced_certificates:
        return NextStep(Action.ISSUE, messages.NEW_LEAF_REQUESTED)
    if inputs.now >= renewal_time(leaf):
        return NextStep(Action.ISSUE, messages.leaf_due(renewal_time(leaf)))
    return None


def _check_old_authority(inputs: Inputs) -> NextStep | None:
    serving = inputs.serving
    if serving.pair is None or inputs.bundle == inputs.anchors:
        return None
    stored_at = serving.noted_time or serving.pair.certificate.not_valid_before_utc + BACKDATE
    # One second is added, because certificates have times in whole seconds.
    settling_end = stored_at + inputs.wanted.settle + timedelta(seconds=1)
    if inputs.now < settling_end:
        return NextStep(Action.WAIT, messages.PODS_RECEIVE_LEAF, until=settling_end)
    old_replicas = [
        address
        for address, leaf in (inputs.replica_leaves or {}).items()
        if not is_verified_by(leaf, serving.pair.intermediates, inputs.anchors, inputs.now)
    ]
    if old_replicas:
        why = messages.still_served(", ".join(sorted(old_replicas)))
        return NextStep(Action.WAIT, why, until=inputs.now + inputs.wanted.settle)
    return NextStep(Action.BUNDLE, messages.EVERY_REPLICA, inputs.anchors)


def _keep(inputs: Inputs) -> NextStep:
    leaf = inputs.serving.certificate
    due = renewal_time(inputs.signer.certificate)
    if leaf:
        due = min(due, serving_end(leaf, inputs.wanted) if inputs.serves_provided else renewal_time(leaf))
    return NextStep(Action.KEEP, messages.NOTHING_TO_DO, until=due)


def _replace_leaf(inputs: Inputs, why: str, *, calls_fail: bool = False) -> NextStep:
    return NextStep(Action.TAKE if inputs.serves_provided else Action.ISSUE, why, calls_fail=calls_fail)


_CHECKS: tuple[Callable[[Inputs], NextStep | None], ...] = (
    _check_authority_is_usable,
    _check_authority_age,
    _check_bundle,
    _check_trust_in_new_authority,
    _check_ca_bundles,
    _check_published_bundle,
    _check_leaf_is_usable,
    _check_trust_is_noted,
    _check_leaf_issuer,
    _check_leaf_names_and_age,
    _check_old_authority,
)
