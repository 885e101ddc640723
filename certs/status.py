"""Reports on the stored certificates, caBundles and replicas. Pure."""

from datetime import datetime

from cryptography.x509 import Certificate

from certs import messages
from certs.authority import missing_names
from certs.decide import Action, NextStep
from certs.inputs import Inputs, is_verified_by, renewal_time, why_refused


def problems(inputs: Inputs) -> list[str]:
    """Returns the notes, and the reasons why calls from the API server fail now or will fail later."""
    serving, authority, now, names = inputs.serving, inputs.authority, inputs.now, inputs.wanted.names
    problems = []
    if authority.pair is None:
        problems.append(messages.no_ca(authority.problem))
    why, pair = why_refused(serving, authority.bundle, now), serving.pair
    if why:
        problems.append(messages.no_leaf(why))
    elif pair and not inputs.serves_provided and (missing := missing_names(pair.certificate, names)):
        problems.append(messages.leaf_lacks(", ".join(missing)))
    problems += inputs.notes
    for hook in inputs.hooks:
        if any(why_refused(serving, bundle, now) for bundle in hook.bundles):
            problems.append(messages.bundle_lacks_ca(hook.kind, hook.name))
    return problems


def describe(inputs: Inputs, decision: NextStep) -> list[str]:
    """Returns the lines of a report: source, certificates, webhook configurations, replicas, next step."""
    serving, authority, now = inputs.serving, inputs.authority, inputs.now
    provided = inputs.serves_provided
    lines = [messages.source(provided=provided)]
    if authority.pair:
        lines.append(_certificate_text("authority", authority.pair.certificate, now))
    older_count = len(authority.bundle - inputs.anchors) if authority.pair else 0
    if older_count:
        lines.append(messages.older_cas(older_count))
    if serving.certificate:
        lines.append(_certificate_text("leaf", serving.certificate, now, is_renewed=not provided))
    for hook in inputs.hooks:
        has_bundle = hook.raw is not None and all(bundle == authority.bundle for bundle in hook.bundles)
        lines.append(messages.hook(hook.kind, hook.name, exists=hook.raw is not None, has_bundle=has_bundle))
    for address, leaf in sorted((inputs.replica_leaves or {}).items()):
        intermediates = serving.pair.intermediates if serving.pair else ()
        is_old = bool(authority.pair) and not is_verified_by(leaf, intermediates, inputs.anchors, now)
        lines.append(messages.replica(address, is_stored=leaf == serving.certificate, is_old=is_old))
    if decision.action is Action.KEEP and decision.until:
        lines.append(messages.nothing_until(decision.until))
    else:
        lines.append(messages.next_step(decision.action.value, decision.why))
    return lines


def _certificate_text(kind: str, certificate: Certificate, now: datetime, *, is_renewed: bool = True) -> str:
    due = renewal_time(certificate) if is_renewed else None  # the program renews no provided certificate
    return messages.certificate(kind, certificate.not_valid_after_utc, due, now)
