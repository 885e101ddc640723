"""Evaluates a table against an object: the one function behind every endpoint and command."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final

from common.pointers import field_name, parse_pointer, pointer
from common.texts import cut
from contract import keys
from webhook.engine.apply import Progress, apply_rules
from webhook.engine.candidates import candidacy
from webhook.engine.faults import faults
from webhook.engine.identity import first_uid, job_id
from webhook.engine.jobs import Job
from webhook.engine.match import SWITCHED_OFF
from webhook.engine.messages import Message, bounded, message
from webhook.engine.outcome import JobError, Kind, Outcome, Request, RuleOutcome, State
from webhook.engine.reading import kind_of, read_job
from webhook.engine.script import with_script
from webhook.engine.shapes import choose_shape
from webhook.engine.values import Values
from webhook.objects import record
from webhook.objects.patch import Operation, compute_patch
from webhook.objects.tree import Json, Path, WrongTypeError, get, same, shown
from webhook.rows.policies import Exclusions, Mode
from webhook.rows.table import Table
from webhook.rows.workloads import WORKER


def evaluate(table: Table, request: Request) -> Outcome:
    """Returns the outcome for the object of a request. Pure: the same arguments give the same outcome.

    Never raises for any content of an object: an invalid job is denied with a message. If a rule or the table
    is in shadow mode, the object is evaluated twice: as it is served, and with everything enforced.
    """
    ruling = table.find_ruling(request.object, request.namespace, request.now)
    modes = ruling.modes if ruling else table.modes
    by_policy = f" for it, by the policy: {ruling.policy.reason}" if ruling and ruling.policy.mode else ""
    outcome = _evaluate_with(table, modes.served, request)
    if modes.has_shadow:
        outcome = _with_shadow(
            outcome, _evaluate_with(table, modes.if_enforced, request), modes.table, by_policy
        )
    if ruling and outcome.untouched is not Kind.NO_WORKLOAD:
        reason = cut(outcome.reason + by_policy) if modes.table is Mode.OFF else outcome.reason
        outcome = replace(outcome, reason=reason, facts={**outcome.facts, "policy": ruling.policy.reason})
    return outcome


def _evaluate_with(table: Table, off: Exclusions, request: Request) -> Outcome:
    """Returns the outcome if this is switched off."""
    kind, progress, after = kind_of(request.object), Progress(), request.object
    operations: list[Operation] = []
    try:
        if not table.workloads_of(kind):
            progress.reason = cut(f"no workload of the rule table matches kind {kind}")
            progress.untouched = Kind.NO_WORKLOAD
        elif off.table:
            progress.reason = "the whole rule table is switched off"
        else:
            _evaluate_object(table, off.rules, request, progress)
        if not progress.denials:
            if kind == "v1/Pod":
                progress.templates = with_script(request.object, progress.templates, table.script)
            after, operations = compute_patch(request.object, progress.templates)
    except (JobError, WrongTypeError) as error:
        progress = Progress(reason="invalid job", denials=[message("invalid-job", error)])
    return Outcome(
        revision=table.revision,
        reason=progress.reason,
        after=after,
        operations=tuple(operations),
        rules=tuple(progress.rules),
        warnings=bounded(progress.warnings),
        denials=bounded(progress.denials),
        facts=progress.facts,
        refusing=tuple(progress.refusing),
        unplaced=bounded(progress.unplaced),
        untouched=progress.untouched,
        setters=progress.setters,
        faults=progress.faults,
    )


def _with_shadow(served: Outcome, would: Outcome, mode: Mode, by_policy: str) -> Outcome:
    """Returns the served outcome, with what enforcement would do; the mode is the table's or a policy's."""
    if mode is Mode.SHADOW:
        served = replace(
            served,
            reason=cut(f"the whole rule table only reports{by_policy.rstrip('.')}; {would.reason}"),
            facts=would.facts,
            untouched=would.untouched,
            rules=tuple(row._replace(state=State.SKIPPED) for row in would.rules),
        )
    # If a rule in shadow cannot read the object, it is unknown what enforcement would do.
    rules = tuple(map(_shadowed, served.rules, would.rules)) if would.rules else served.rules
    return replace(served, rules=rules, would=would)


def _shadowed(served: RuleOutcome, would: RuleOutcome) -> RuleOutcome:
    """Returns the outcome of a rule, which is `SHADOWED` if the rule would fire only with enforcement."""
    if served.state is State.FIRED or would.state is not State.FIRED:
        return served if served.why != SWITCHED_OFF else would
    return would._replace(state=State.SHADOWED)


FACTS: Final = {
    "shape": "shape.name",
    "nodeConfig": "shape.nodeConfig",
    "workers": "job.workers",
    "nodes": "job.nodes",
    "job": "job.id",
}
"""The facts of an outcome about a job with a size, by their placeholders."""


def _evaluate_object(table: Table, off: frozenset[str], request: Request, progress: Progress) -> None:
    job = read_job(table, request)
    if job is None:
        progress.reason, progress.untouched = _no_workload(table, request), Kind.NO_WORKLOAD
        return
    if isinstance(job.opted, str):
        raise JobError(job.opted)
    job.off = off
    progress.templates = {group.path: group.template for group in job.groups}
    progress.warnings += [
        message("record-ignored", field_name((*group.path, *record.ANNOTATIONS, group.key)))
        for group in job.groups
        if group.record_ignored
    ]
    progress.setters = {} if request.explain else None
    progress.facts["workload"] = job.workload.name
    if job.opted is False:
        progress.reason, progress.untouched = f"opted out by {keys.INJECT}", Kind.OPTED_OUT
    else:
        _evaluate_job(job, request, progress)
        _write_records(job, progress)
    progress.warnings += _removed_marks(job, progress.templates)


def _evaluate_job(job: Job, request: Request, progress: Progress) -> None:
    """Evaluates the table against a job that is not opted out."""
    job.candidate, progress.reason = candidacy(job)
    progress.untouched = Kind.UNCHANGED if job.candidate else Kind.NO_CANDIDATE
    job.uid = "" if job.name else _first_uid(job, request)
    values = Values(job)
    if job.candidate and job.workload.takes_nodes:
        job.shape = choose_shape(job)
        job.identity = job_id(request, job.name, job.generate_name, job.uid)
        job.devices = job.own_devices
        progress.facts |= {fact: values.every[placeholder] for fact, placeholder in FACTS.items()}
        job.lacking = job.table.placeholders_of[job.workload.name].difference(values.every)
    job.placer = job.place.placer if job.place else None
    job.faults = progress.faults = faults(job)
    apply_rules(job, values, progress)
    if job.shape:
        progress.facts |= {"devices": job.devices, "placer": str(job.placer)}


def _no_workload(table: Table, request: Request) -> str:
    """Returns the reason for an object whose kind has rows, none of which is for it."""
    rows = table.workloads_of(kind_of(request.object))
    field, value = rows[-1].mismatch(request.object) or ("", "")
    names = ", ".join(row.name for row in rows)
    return (
        f"its {field} is {cut(value)}: each row for its kind ({names}) requires another value; "
        f"{keys.INJECT} has no effect on it"
    )


def _first_uid(job: Job, request: Request) -> str:
    if not job.of[WORKER]:
        return ""
    group = job.of[WORKER][0]
    label = get(request.object, (*group.path, *record.JOB_LABEL))
    return first_uid(request, job.generate_name, group.record.uid if group.record else "", label)


def _write_records(job: Job, progress: Progress) -> None:
    for group in job.groups:
        if added := progress.additions.get(group.path):
            # The uid matters only for the label that is derived from it.
            labelled = pointer(record.JOB_LABEL) in added
            written = record.Record(job.table.revision, job.uid if labelled else "", added)
            progress.templates[group.path] = record.write(progress.templates[group.path], written, group.key)


def _removed_marks(job: Job, templates: Mapping[Path, Json]) -> Iterator[Message]:
    """Yields messages about the webhook's marks that the user wrote and that the templates no longer have."""
    for group in job.groups:
        marks = record.marks(templates[group.path]) if group.user_marks else {}
        for place, users in group.user_marks.items():
            if not same(users, marks.get(place)):
                what = "replaced" if place in marks else "removed"
                at = field_name((*group.path, *parse_pointer(place)))
                yield message("own-key", what, at, shown(users, 40))
