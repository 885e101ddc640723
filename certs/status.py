"""The report on what is stored. Pure."""

from datetime import datetime, timedelta

from cryptography.x509 import Certificate

from certs.authority import lacking
from certs.decide import Action, NextStep
from certs.inputs import Inputs, renewal, unusable, verifies


def problems(inputs: Inputs) -> list[str]:
    """Returns sentences about what makes calls from the API server fail, now or later."""
    serving, authority, now, names = inputs.serving, inputs.authority, inputs.now, inputs.wanted.names
    problems = []
    if authority.pair is None:
        problems.append(f"no authority can sign: {authority.problem}")
    why = unusable(serving, authority.bundle, now)
    if why:
        problems.append(f"there is no leaf to serve: {why}")
    elif not inputs.takes and serving.pair and (missing := lacking(serving.pair.certificate, names)):
        problems.append(f"the leaf lacks the name {', '.join(missing)}")
    problems += inputs.notes
    for hook in inputs.hooks:
        if any(unusable(serving, held, now) for held in hook.bundles):
            name = f"{hook.kind} webhook configuration {hook.name}"
            problems.append(f"the caBundle of the {name} lacks the leaf's authority")
    return problems


def describe(inputs: Inputs, decision: NextStep) -> list[str]:
    """Returns the lines of a report: source, certificates, webhook configurations, replicas, next step."""
    serving, authority, now = inputs.serving, inputs.authority, inputs.now
    lines = [f"source     {'the provided certificate' if inputs.takes else 'this program'}"]
    if authority.pair:
        lines.append(f"authority  {_life(authority.pair.certificate, now)}")
    others = len(authority.bundle - inputs.anchors) if authority.pair else 0
    if others:
        lines.append(f"bundle     {others} older authorit{'y' if others == 1 else 'ies'} also trusted")
    if serving.certificate:
        lines.append(f"leaf       {_life(serving.certificate, now)}")
    for hook in inputs.hooks:
        good = hook.raw is not None and all(held == authority.bundle for held in hook.bundles)
        state = "has the bundle" if good else "is missing" if hook.raw is None else "has another caBundle"
        lines.append(f"{hook.kind:<10} {hook.name} {state}")
    for address, leaf in sorted((inputs.replicas or {}).items()):
        which = "the stored leaf" if leaf == serving.certificate else "another leaf"
        between = serving.pair.intermediates if serving.pair else ()
        old = authority.pair and not verifies(leaf, between, inputs.anchors, now)
        lines.append(f"replica    {address} serves {which}{', of another authority' if old else ''}")
    if decision.action is Action.KEEP and decision.until:
        lines.append(f"next       nothing until {decision.until:%Y-%m-%d %H:%M} UTC")
    else:
        lines.append(f"next       {decision.action.value}: {decision.why}")
    return lines


def _life(certificate: Certificate, now: datetime) -> str:
    end = certificate.not_valid_after_utc
    due = renewal(certificate)
    left = f"{_span(end - now)} left" if end > now else "over"
    return f"valid until {end:%Y-%m-%d %H:%M} UTC ({left}), renewed from {due:%Y-%m-%d %H:%M} UTC"


def _span(left: timedelta) -> str:
    hours = left.total_seconds() / 3600
    return f"{hours / 24:.0f} days" if hours >= 48 else f"{hours:.1f} hours"  # noqa: PLR2004 - two days
