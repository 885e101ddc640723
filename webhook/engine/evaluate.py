"""Evaluating a table against an object: the one function behind every door."""

from webhook.engine import record
from webhook.engine.apply import Progress, apply_rules, shape_messages
from webhook.engine.identity import first_uid
from webhook.engine.match import PLACED_ROLE, candidacy, choose_shape
from webhook.engine.order import as_received
from webhook.engine.outcome import JobError, Outcome, Request
from webhook.engine.patch import operations
from webhook.engine.table import Table, Workload
from webhook.engine.tree import Json, WrongTypeError, get, pointer, put, shown
from webhook.engine.values import placeholder_values
from webhook.engine.workloads import Job, open_job


def evaluate(table: Table, request: Request) -> Outcome:
    """What the table does to the object of a request. Pure: the same arguments give the same outcome.

    Never raises for an object of whatever content: what cannot be is denied with a message.
    """
    obj = request.object
    workload = table.workload(kind_of(obj))
    if workload is None:
        return Outcome(table.revision, f"no workload of the rule table opens {kind_of(obj)}", obj)
    try:
        return _evaluate(table, workload, request)
    except (JobError, WrongTypeError) as error:
        return Outcome(table.revision, "denied", obj, denials=(str(error),))


def kind_of(obj: Json) -> str:
    """``group/version/Kind`` of an object, as workload rows name it."""
    return f"{get(obj, ('apiVersion',))}/{get(obj, ('kind',))}"


def _evaluate(table: Table, workload: Workload, request: Request) -> Outcome:
    base = _base(workload, request.object)
    job = open_job(workload, base, request)
    progress = Progress(base)
    wanted, reason = candidacy(table, job)
    workers = job.workers() if wanted else 0
    if wanted and workers == 0:
        wanted, reason = False, "the job has no workers"
    facts = {"workload": workload.name}
    if wanted:
        shape = choose_shape(table, job, workers)
        uid = _first_uid(job, request)
        values = placeholder_values(table, job, shape, request, uid)
        facts |= {
            "shape": shape.name,
            "nodeConfig": str(shape.node_config),
            "workers": str(workers),
            "job": values["job.id"],
        }
        shape_messages(shape, values, progress)
        apply_rules(table, job, shape, values, progress)
        _write_records(table, job, uid, progress)
    _label_message(job, request, progress)
    after = request.object if progress.denials else as_received(request.object, progress.object)
    return Outcome(
        revision=table.revision,
        reason=reason,
        after=after,
        operations=tuple(operations(request.object, after)),
        rules=tuple(progress.rules),
        warnings=tuple(dict.fromkeys(progress.warnings)),
        denials=tuple(progress.denials),
        facts=facts,
    )


def _base(workload: Workload, obj: Json) -> Json:
    """The object without what an earlier evaluation added to it."""
    for path in workload.roles.values():
        template = get(obj, path)
        if isinstance(template, dict):
            bare = record.strip(template)
            obj = obj if bare is template else put(obj, path, bare)
    return obj


def _first_uid(job: Job, request: Request) -> str:
    if job.name:
        return ""
    template = get(request.object, job.templates[PLACED_ROLE])
    seen = record.read(template)
    label = get(template, record.JOB_LABEL)
    return first_uid(request, job.generate_name, seen.uid if seen else "", label)


def _write_records(table: Table, job: Job, uid: str, progress: Progress) -> None:
    for role, added in progress.additions.items():
        if added:
            path = job.templates[role]
            # The uid matters only where the label that follows from it is.
            labelled = pointer(record.JOB_LABEL) in added
            written = record.Record(table.revision, uid if labelled else "", added)
            progress.object = put(progress.object, path, record.write(get(progress.object, path), written))


def _label_message(job: Job, request: Request, progress: Progress) -> None:
    """Tells a person whose own job label was not taken over."""
    for path in job.templates.values():
        theirs, seen = (get(get(request.object, path), p) for p in (record.JOB_LABEL, record.ANNOTATION))
        ours = get(get(progress.object, path), record.JOB_LABEL)
        if theirs is not None and seen is None and theirs != ours:
            place = pointer((*path, *record.JOB_LABEL))
            progress.warnings.append(f"replaced yours: {place} is the webhook's own, not {shown(theirs, 40)}")
