"""The report on what is stored. Pure."""

from datetime import datetime

from cryptography.x509 import Certificate

from certs import messages
from certs.authority import lacking
from certs.decide import Action, NextStep
from certs.inputs import Inputs, renewal, verifies, why_refused


def problems(inputs: Inputs) -> list[str]:
    """Returns sentences about what makes calls from the API server fail, now or later."""
    serving, authority, now, names = inputs.serving, inputs.authority, inputs.now, inputs.wanted.names
    problems = []
    if authority.pair is None:
        problems.append(messages.no_ca(authority.problem))
    why, pair = why_refused(serving, authority.bundle, now), serving.pair
    if why:
        problems.append(messages.no_leaf(why))
    elif pair and not inputs.serves_provided and (missing := lacking(pair.certificate, names)):
        problems.append(messages.leaf_lacks(", ".join(missing)))
    problems += inputs.notes
    for hook in inputs.hooks:
        if any(why_refused(serving, held, now) for held in hook.bundles):
            problems.append(messages.bundle_lacks_ca(hook.kind, hook.name))
    return problems


def describe(inputs: Inputs, decision: NextStep) -> list[str]:
    """Returns the lines of a report: source, certificates, webhook configurations, replicas, next step."""
    serving, authority, now = inputs.serving, inputs.authority, inputs.now
    lines = [messages.source(provided=inputs.serves_provided)]
    if authority.pair:
        lines.append(_life("authority", authority.pair.certificate, now))
    others = len(authority.bundle - inputs.anchors) if authority.pair else 0
    if others:
        lines.append(messages.older_cas(others))
    if serving.certificate:
        lines.append(_life("leaf", serving.certificate, now))
    for hook in inputs.hooks:
        good = hook.raw is not None and all(held == authority.bundle for held in hook.bundles)
        lines.append(messages.hook(hook.kind, hook.name, exists=hook.raw is not None, good=good))
    for address, leaf in sorted((inputs.replicas or {}).items()):
        between = serving.pair.intermediates if serving.pair else ()
        old = bool(authority.pair) and not verifies(leaf, between, inputs.anchors, now)
        lines.append(messages.replica(address, stored=leaf == serving.certificate, old=old))
    if decision.action is Action.KEEP and decision.until:
        lines.append(messages.nothing_until(decision.until))
    else:
        lines.append(messages.next_step(decision.action.value, decision.why))
    return lines


def _life(kind: str, certificate: Certificate, now: datetime) -> str:
    return messages.certificate(kind, certificate.not_valid_after_utc, renewal(certificate), now)
