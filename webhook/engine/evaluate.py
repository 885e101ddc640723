"""Evaluating a table against an object: the one function behind every door."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from webhook.engine import record
from webhook.engine.apply import Progress, apply_rules, shape_messages
from webhook.engine.budget import Budget
from webhook.engine.identity import first_uid
from webhook.engine.match import candidacy, choose_shape
from webhook.engine.order import as_received
from webhook.engine.outcome import JobError, Outcome, Request, State, bounded, cut
from webhook.engine.patch import operations
from webhook.engine.table import Mode, Shape, Table, Workload
from webhook.engine.tree import Json, Path, WrongTypeError, get, pointer, put, shown
from webhook.engine.values import placeholder_values
from webhook.engine.workloads import WORKER, Job, open_job, record_key


def evaluate(table: Table, request: Request) -> Outcome:
    """What the table does to the object of a request. Pure: the same arguments give the same outcome.

    Never raises for an object of whatever content: what cannot be is denied with a message.
    """
    obj = request.object
    workload = table.workload(kind_of(obj))
    if workload is None:
        return Outcome(table.revision, cut(f"no workload of the rule table opens {kind_of(obj)}"), obj)
    if table.mode is Mode.OFF:
        return Outcome(table.revision, "the whole rule table is switched off", obj)
    try:
        outcome = _evaluate(table, workload, request)
    except (JobError, WrongTypeError) as error:
        outcome = Outcome(table.revision, "the job cannot be as it is", obj, denials=bounded([str(error)]))
    return outcome if table.mode is Mode.ENFORCE else _reported(outcome, obj)


def _reported(outcome: Outcome, obj: Json) -> Outcome:
    """An outcome of a table that only reports: nothing is changed, refused or said to the user."""
    rules = (replace(row, state=State.SHADOWED) if row.state is State.FIRED else row for row in outcome.rules)
    would = "; ".join((*outcome.denials, *outcome.warnings))
    return replace(
        outcome,
        reason=f"the whole rule table only reports; {outcome.reason}",
        after=obj,
        operations=(),
        rules=tuple(rules),
        warnings=(),
        denials=(),
        facts={**outcome.facts, **({"would": would} if would else {})},
    )


def kind_of(obj: Json) -> str:
    """``group/version/Kind`` of an object, as workload rows name it."""
    return f"{get(obj, ('apiVersion',))}/{get(obj, ('kind',))}"


Records = Mapping[Path, record.Record]
"""The records of an object that count, by the path of the template."""

OVERDONE: Final = (
    "{} is ignored: it names more than the webhook can have added, so that stays in the job as yours; "
    "to be rid of that, take it out of the file"
)


def _evaluate(table: Table, workload: Workload, request: Request) -> Outcome:
    base, records, ignored = _base(workload, request.object)
    job = open_job(workload, base, request)
    progress = Progress(job.object, warnings=ignored)
    wanted, reason = candidacy(table, job)
    facts = {"workload": workload.name}
    if wanted:
        shape = choose_shape(table, job) if workload.workers else None
        uid = _first_uid(job, request, records)
        values = placeholder_values(table, job, shape, request, uid)
        if shape:
            facts |= _about(shape, job, values)
            shape_messages(shape, values, progress)
        apply_rules(table, job, shape, values, progress)
        _write_records(table, job, uid, progress)
    _label_message(job, request, records, progress)
    after = request.object if progress.denials else as_received(request.object, progress.object)
    return Outcome(
        revision=table.revision,
        reason=reason,
        after=after,
        operations=tuple(operations(request.object, after)),
        rules=tuple(progress.rules),
        warnings=bounded(progress.warnings),
        denials=bounded(progress.denials),
        facts=facts,
    )


def _base(workload: Workload, obj: Json) -> tuple[Json, Records, list[str]]:
    """The object without what an earlier evaluation added to it, its records, and what to say of others."""
    budget, key = Budget(obj), record_key(workload)
    records: dict[Path, record.Record] = {}
    ignored: list[str] = []
    for path in workload.roles.values():
        template = get(obj, path)
        if isinstance(template, dict):
            found = record.read(template, key)
            bare, counted = record.strip(template, found, budget, key)
            obj = obj if bare is template else put(obj, path, bare)
            if found and counted:
                records[path] = found
            elif found:
                ignored.append(OVERDONE.format(pointer((*path, *record.ANNOTATIONS, key))))
    return obj, records, ignored


def _about(shape: Shape, job: Job, values: Mapping[str, Json]) -> dict[str, str]:
    facts = {"shape": shape.name, "nodeConfig": str(shape.node_config), "workers": str(job.workers())}
    return facts | {"job": values["job.id"]}


def _first_uid(job: Job, request: Request, records: Records) -> str:
    if job.name or WORKER not in job.templates:
        return ""
    path = job.templates[WORKER][0]
    seen = records.get(path)
    label = get(request.object, (*path, *record.JOB_LABEL))
    return first_uid(request, job.generate_name, seen.uid if seen else "", label)


def _write_records(table: Table, job: Job, uid: str, progress: Progress) -> None:
    for path, added in progress.additions.items():
        if added:
            # The uid matters only where the label that follows from it is.
            labelled = pointer(record.JOB_LABEL) in added
            written = record.Record(table.revision, uid if labelled else "", added)
            template = record.write(get(progress.object, path), written, job.record_key)
            progress.object = put(progress.object, path, template)


def _label_message(job: Job, request: Request, records: Records, progress: Progress) -> None:
    """Tells a person whose own job label was not taken over."""
    for path in dict.fromkeys(path for paths in job.templates.values() for path in paths):
        label = (*path, *record.JOB_LABEL)
        theirs, ours = get(request.object, label), get(progress.object, label)
        if theirs is not None and theirs != ours and path not in records:
            place = pointer(label)
            progress.warnings.append(f"replaced yours: {place} is the webhook's own, not {shown(theirs, 40)}")
