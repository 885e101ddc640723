"""Evaluates a table against an object that is created or resized, for all endpoints and commands."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cache, partial
from typing import Final

from common.pointers import field_name, parse_pointer, pointer
from common.texts import cut
from webhook.engine import messages
from webhook.engine.apply import Progress, apply_rules
from webhook.engine.candidates import decide_candidacy
from webhook.engine.faults import find_faults
from webhook.engine.identity import first_uid, job_id
from webhook.engine.jobs import Job
from webhook.engine.messages import Message, limit_messages, message
from webhook.engine.outcome import JobError, Outcome, OutcomeKind, Request, RuleOutcome, RuleState
from webhook.engine.reading import kind_of, read_job
from webhook.engine.script import add_script
from webhook.engine.shapes import choose_shape
from webhook.engine.values import compute_values
from webhook.objects import record
from webhook.objects.patch import Operation, compute_patch
from webhook.objects.tree import Json, Path, WrongTypeError, get, same, shown
from webhook.rows.policies import Mode
from webhook.rows.table import Table
from webhook.rows.workloads import WORKER


def evaluate(table: Table, request: Request) -> Outcome:
    """Returns the outcome for the object of a request. Pure: the same arguments give the same outcome.

    Never raises for any content of an object: an invalid job is denied with a message. If a rule or the table
    is in shadow mode, the object is evaluated twice: for the answer, and as if rules in shadow were enforced.
    """
    ruling = table.find_ruling(request.object, request.namespace, request.now)
    modes = ruling.modes if ruling else table.modes
    policy_note = messages.by_policy(ruling.policy.reason) if ruling and ruling.policy.mode else ""
    outcome = _evaluate_with(table, modes.unapplied_rules, request)
    if modes.has_shadow:
        enforced = _evaluate_with(table, modes.off_rules, request)
        outcome = _add_shadow(outcome, enforced, modes.table, policy_note)
    if ruling and outcome.kind_if_unchanged is not OutcomeKind.NO_WORKLOAD:
        reason = cut(outcome.reason + policy_note) if modes.table is Mode.OFF else outcome.reason
        outcome = replace(outcome, reason=reason, facts={**outcome.facts, "policy": ruling.policy.reason})
    return outcome


def _evaluate_with(table: Table, off_rules: frozenset[str] | None, request: Request) -> Outcome:
    """Returns the outcome without the rules in ``off_rules``. If ``off_rules`` is None, all rules are off.

    A launcher's Pod always gets the init script.
    """
    kind, progress, new_object = kind_of(request.object), Progress(), request.object
    operations: list[Operation] = []
    try:
        if not table.workloads_of(kind):
            progress.reason = cut(messages.no_workload(kind))
            progress.kind_if_unchanged = OutcomeKind.NO_WORKLOAD
        elif off_rules is None:
            progress.reason = messages.TABLE_OFF
        else:
            _evaluate_object(table, off_rules, request, progress)
        if not progress.denials:
            if kind == "v1/Pod":
                progress.templates = add_script(request.object, progress.templates, table.script)
            new_object, operations = compute_patch(request.object, progress.templates)
    except (JobError, WrongTypeError) as error:
        progress = Progress(reason=messages.INVALID_JOB, denials=[message("invalid-job", error)])
    return Outcome(
        revision=table.revision,
        reason=progress.reason,
        after=new_object,
        operations=tuple(operations),
        rules=tuple(progress.rules),
        warnings=limit_messages(progress.warnings),
        denials=limit_messages(progress.denials),
        facts=progress.facts,
        refusing=tuple(progress.refusing),
        unplaced=limit_messages(progress.unplaced),
        kind_if_unchanged=progress.kind_if_unchanged,
        rules_by_path=progress.rules_by_path,
        faults=progress.faults,
    )


def _add_shadow(served: Outcome, enforced: Outcome, mode: Mode, policy_note: str) -> Outcome:
    """Returns ``served``, the outcome for the answer, with ``enforced`` and the states of rules in shadow.

    ``mode`` is the mode of the table. If it is shadow, reason, facts and kind come from ``enforced``, too.
    """
    if mode is Mode.SHADOW:
        served = replace(
            served,
            reason=cut(messages.table_reports(policy_note.rstrip("."), enforced.reason)),
            facts=enforced.facts,
            kind_if_unchanged=enforced.kind_if_unchanged,
            rules=tuple(row._replace(state=RuleState.SKIPPED) for row in enforced.rules),
        )
    # If the evaluation with the rules in shadow finds an invalid job, the enforced outcome has no rules.
    rules = tuple(map(_shadow_outcome, served.rules, enforced.rules)) if enforced.rules else served.rules
    return replace(served, rules=rules, enforced=enforced)


def _shadow_outcome(served: RuleOutcome, enforced: RuleOutcome) -> RuleOutcome:
    """Returns a rule's outcome: `SHADOWED` if the rule fires only when rules in shadow are enforced."""
    if served.state is RuleState.FIRED or enforced.state is not RuleState.FIRED:
        return served if served.why != messages.SWITCHED_OFF else enforced
    return enforced._replace(state=RuleState.SHADOWED)


FACTS: Final = {
    "shape": "shape.name",
    "nodeConfig": "shape.nodeConfig",
    "workers": "job.workers",
    "nodes": "job.nodes",
    "job": "job.id",
}
"""For each fact about a job with a shape, the placeholder that has its value."""


def _evaluate_object(table: Table, off_rules: frozenset[str], request: Request, progress: Progress) -> None:
    job = read_job(table, request)
    if job is None:
        progress.reason = _explain_no_workload(table, request)
        progress.kind_if_unchanged = OutcomeKind.NO_WORKLOAD
        return
    if isinstance(job.opt_in, str):
        raise JobError(job.opt_in)
    job.off_rules = off_rules
    progress.templates = {group.path: group.template for group in job.groups}
    groups = [group for group in job.groups if group.is_record_ignored]
    paths = [(*group.path, *record.ANNOTATIONS, group.record_key) for group in groups]
    progress.warnings += [message("record-ignored", field_name(path)) for path in paths]
    progress.rules_by_path = {} if request.explain else None
    progress.facts["workload"] = job.workload.name
    if job.opt_in is False:
        progress.reason, progress.kind_if_unchanged = messages.OPTED_OUT, OutcomeKind.OPTED_OUT
    else:
        _evaluate_job(job, request, progress)
        _write_records(job, progress)
    progress.warnings += _report_removed_marks(job, progress.templates)


def _evaluate_job(job: Job, request: Request, progress: Progress) -> None:
    """Evaluates the table against a job that is not opted out."""
    job.is_candidate, progress.reason = decide_candidacy(job)
    progress.kind_if_unchanged = OutcomeKind.UNCHANGED if job.is_candidate else OutcomeKind.NO_CANDIDATE
    job.uid = "" if job.name else _find_first_uid(job, request)
    job.values = cache(partial(compute_values, job))
    if job.is_candidate and job.workload.takes_nodes:
        job.shape = choose_shape(job)
        job.job_label = job_id(request, job.name, job.generate_name, job.uid)
        job.devices = job.user_devices
        progress.facts |= {fact: job.values()[placeholder] for fact, placeholder in FACTS.items()}
        placeholders = job.table.placeholders_by_workload[job.workload.name]
        job.missing_placeholders = placeholders.difference(job.values())
    job.placer = job.placement.placer if job.placement else None
    job.faults = progress.faults = find_faults(job)
    apply_rules(job, progress)
    if job.shape:
        progress.facts |= {"devices": job.devices, "placer": str(job.placer)}


def _explain_no_workload(table: Table, request: Request) -> str:
    """Returns why no workload row matches an object, although rows for its kind exist."""
    rows = table.workloads_of(kind_of(request.object))
    mismatches = ((row.name, *(row.find_mismatch(request.object) or ("", ""))) for row in rows)
    reasons = (messages.other_row(name, field, cut(value)) for name, field, value in mismatches)
    return messages.no_row(", ".join(reasons))


def _find_first_uid(job: Job, request: Request) -> str:
    if not job.by_role[WORKER]:
        return ""
    group = job.by_role[WORKER][0]
    label = get(request.object, (*group.path, *record.JOB_LABEL))
    return first_uid(request, job.generate_name, group.record.uid if group.record else "", label)


def _write_records(job: Job, progress: Progress) -> None:
    for group in job.groups:
        if additions := progress.additions.get(group.path):
            # The uid is recorded only if a rule sets the job label, whose value depends on the uid.
            has_label = pointer(record.JOB_LABEL) in additions
            new_record = record.Record(job.table.revision, job.uid if has_label else "", additions)
            template = progress.templates[group.path]
            progress.templates[group.path] = record.write(template, new_record, group.record_key)


def _report_removed_marks(job: Job, templates: Mapping[Path, Json]) -> Iterator[Message]:
    """Yields messages about fields that only the webhook may set, and whose user value was not kept."""
    for group in job.groups:
        marks = record.find_marks(templates[group.path]) if group.user_marks else {}
        for mark, user_value in group.user_marks.items():
            if not same(user_value, marks.get(mark)):
                verb = "replaced" if mark in marks else "removed"
                field = field_name((*group.path, *parse_pointer(mark)))
                yield message("own-key", verb, field, shown(user_value, 40))
