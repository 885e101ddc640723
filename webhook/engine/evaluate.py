"""Evaluating a table against an object: the one function behind every endpoint and command."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cache, partial
from typing import Final

from common.pointers import pointer
from contract import keys
from webhook.engine.apply import Progress, apply_rules
from webhook.engine.candidates import candidacy, devices, injection
from webhook.engine.faults import faults
from webhook.engine.identity import first_uid, job_id
from webhook.engine.jobs import OpenJob, open_job, record_key, template_paths, unlike
from webhook.engine.match import SWITCHED_OFF, Subject
from webhook.engine.outcome import Fault, JobError, Kind, Outcome, Request, RuleOutcome, State, bounded, cut
from webhook.engine.placing import said_by
from webhook.engine.script import with_script
from webhook.engine.shapes import choose_shape
from webhook.engine.values import placeholder_values
from webhook.objects.patch import patched
from webhook.objects.tree import Json, Path, WrongTypeError, get, put, same, shown
from webhook.rows.policies import Mode, Off
from webhook.rows.table import Table
from webhook.rows.workloads import WORKER, Workload
from webhook.undo import record
from webhook.undo.budget import Budget


def evaluate(table: Table, request: Request) -> Outcome:
    """What the table does to the object of a request. Pure: the same arguments give the same outcome.

    Never raises for an object of whatever content: an invalid job is denied with a message. Where something
    is in shadow the object is evaluated twice, as it is served and as it would be.
    """
    ruling = table.ruling(request.object, request.namespace, request.now)
    modes = ruling.modes if ruling else table.modes
    outcome = _decided(table, modes.served, request)
    if modes.shadows:
        outcome = _beside(outcome, _decided(table, modes.would, request), modes.table)
    if ruling and outcome.untouched is not Kind.NO_WORKLOAD:
        outcome = replace(outcome, facts={**outcome.facts, "policy": ruling.policy.reason})
    return outcome


def _decided(table: Table, off: Off, request: Request) -> Outcome:
    try:
        return with_script(_ruled(table, off, request), table.script)
    except (JobError, WrongTypeError) as error:
        return Outcome(table.revision, "invalid job", request.object, denials=bounded([str(error)]))


def _ruled(table: Table, off: Off, request: Request) -> Outcome:
    obj = request.object
    if not table.workloads_of(kind_of(obj)):
        reason = cut(f"no workload of the rule table matches kind {kind_of(obj)}")
        return Outcome(table.revision, reason, obj, untouched=Kind.NO_WORKLOAD)
    if off.table:
        return Outcome(table.revision, "the whole rule table is switched off", obj)
    return _evaluate(table, off.rules, request)


def _beside(served: Outcome, would: Outcome, mode: Mode) -> Outcome:
    """What is served, with what it would be beside it; the mode is the whole table's."""
    if mode is Mode.SHADOW:
        served = replace(
            served,
            reason=f"the whole rule table only reports; {would.reason}",
            facts=would.facts,
            untouched=would.untouched,
            rules=tuple(row._replace(state=State.SKIPPED) for row in would.rules),
        )
    # Of an object that only what is in shadow cannot read nothing is known of what it would be.
    rules = tuple(map(_shadowed, served.rules, would.rules)) if would.rules else served.rules
    return replace(served, rules=rules, would=would)


def _shadowed(served: RuleOutcome, would: RuleOutcome) -> RuleOutcome:
    """What became of a rule that is perhaps in shadow, or is kept from firing by what is."""
    if served.state is State.FIRED or would.state is not State.FIRED:
        return served if served.why != SWITCHED_OFF else would
    return would._replace(state=State.SHADOWED)


def kind_of(obj: Json) -> str:
    """``group/version/Kind`` of an object, as workload rows name it."""
    return f"{get(obj, ('apiVersion',))}/{get(obj, ('kind',))}"


Records = Mapping[Path, record.Record]
"""The records of an object that count, by the path of the template."""

Claims = Mapping[Path, Mapping[str, Json]]
"""What an author wrote that is the webhook's own (`record.claims`), by the path of the template."""

FACTS: Final = {
    "shape": "shape.name",
    "nodeConfig": "shape.nodeConfig",
    "workers": "job.workers",
    "nodes": "job.nodes",
    "job": "job.id",
}
"""What an outcome tells of a job that has a size, and the placeholder that says the same."""

OVERDONE: Final = (
    "{} is ignored: it names more than the webhook can have added, so that stays in the job as yours; "
    "to remove that, take it out of the file"
)


def _evaluate(table: Table, off: frozenset[str], request: Request) -> Outcome:
    found = opened(table, request)
    if found is None:
        rows = table.workloads_of(kind_of(request.object))
        name, value = unlike(rows[-1], request.object) or ("", "")
        of_kind = f"the table's rows for its kind ({', '.join(row.name for row in rows)})"
        reason = f"its {name} is {cut(value)}: {of_kind} leave it to that, and {keys.INJECT} counts there"
        return Outcome(table.revision, reason, request.object, untouched=Kind.NO_WORKLOAD)
    job, records, ignored, claimed = found
    templates = {group.template: get(job.object, group.template) for group in job.groups}
    progress = Progress(templates, warnings=ignored, setters={} if request.explain else None)
    opted = injection(job.object)
    facts, wrong = {"workload": job.workload.name}, dict[str, Fault]()
    if opted is False:
        reason, untouched = f"opted out by {keys.INJECT}", Kind.OPTED_OUT
    else:
        candidate, reason = candidacy(table, job, opted=bool(opted))
        untouched = Kind.UNCHANGED if candidate else Kind.NO_CANDIDATE
        shape = choose_shape(table, job) if candidate and job.workload.takes_nodes else None
        uid = _first_uid(job, request, records)
        identity = job_id(request, job.name, job.generate_name, uid) if shape else ""
        values = cache(partial(placeholder_values, table, job, shape, identity, off))
        if shape:
            facts |= {fact: values()[placeholder] for fact, placeholder in FACTS.items()}
        said = said_by(job)
        placer = said.placer if said else None
        how = devices(table.candidates, job) if shape else "none"
        lacking = table.quoted_of[job.workload.name].difference(values()) if shape else frozenset()
        wrong = faults(table.candidates, job)
        subject = Subject(table, job, candidate, shape, placer, how, lacking, wrong, off)
        how = apply_rules(subject, values, progress)
        facts |= {"devices": how} if shape else {}
        _write_records(table, uid, progress)
    progress.warnings += _not_taken_over(claimed, progress.templates)
    after, patch = patched(request.object, {} if progress.denials else progress.templates)
    return Outcome(
        revision=table.revision,
        reason=reason,
        after=after,
        operations=tuple(patch),
        rules=tuple(progress.rules),
        warnings=bounded(progress.warnings),
        denials=bounded(progress.denials),
        facts=facts,
        refusing=tuple(progress.refusing),
        untouched=untouched,
        setters=progress.setters,
        faults=wrong,
    )


def opened(table: Table, request: Request) -> tuple[OpenJob, Records, list[str], Claims] | None:
    """The object opened by the first workload whose kind and ``when`` it has; None if it has none.

    Returns:
        The job as its author wrote it, the records of what was added to it, what to say of others, and what
        its author claimed.

    Raises:
        JobError: if a number of its pods cannot be read.
        WrongTypeError: if a field that ``when`` looks at is not a string.
    """
    budget = Budget(request.object)
    for workload in table.workloads_of(kind_of(request.object)):
        base, records, ignored, claimed = _base(workload, request.object, budget)
        if not unlike(workload, base):
            return open_job(table.candidates, workload, base, request), records, ignored, claimed
    return None


def _base(workload: Workload, obj: Json, budget: Budget) -> tuple[Json, Records, list[str], Claims]:
    """The object without what an earlier evaluation added to it and without claims, and what these were."""
    records: dict[Path, record.Record] = {}
    ignored: list[str] = []
    claims: dict[Path, dict[str, Json]] = {}
    for _, path in template_paths(workload, obj):
        key, template = record_key(path), get(obj, path)
        found = record.read(template, key)
        bare, counted, claims[path] = record.strip(template, found, budget, key)
        obj = obj if bare is template else put(obj, path, bare)
        if found and counted:
            records[path] = found
        elif found:
            ignored.append(OVERDONE.format(pointer((*path, *record.ANNOTATIONS, key))))
    return obj, records, ignored, claims


def _first_uid(job: OpenJob, request: Request, records: Records) -> str:
    if job.name or not job.paths(WORKER):
        return ""
    path = job.paths(WORKER)[0]
    seen = records.get(path)
    label = get(request.object, (*path, *record.JOB_LABEL))
    return first_uid(request, job.generate_name, seen.uid if seen else "", label)


def _write_records(table: Table, uid: str, progress: Progress) -> None:
    for path, added in progress.additions.items():
        if added:
            # The uid matters only where the label that follows from it is.
            labelled = pointer(record.JOB_LABEL) in added
            written = record.Record(table.revision, uid if labelled else "", added)
            progress.templates[path] = record.write(progress.templates[path], written, record_key(path))


def _not_taken_over(claimed: Claims, templates: Mapping[Path, Json]) -> Iterator[str]:
    """What to tell a person whose own claims are not in the templates any more."""
    for path, claims in claimed.items():
        ours = record.claims(templates[path]) if claims else {}
        for place, theirs in claims.items():
            if not same(theirs, ours.get(place)):
                what = "replaced" if place in ours else "removed"
                at = pointer(path) + place
                yield f"{what} yours: {at} is the webhook's own, not {shown(theirs, 40)}"
