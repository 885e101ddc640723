"""What an update of a stored job keeps, and when its shape is chosen anew (docs/adr/0021-updates.md).

Only a job whose pods are still to come is looked at: its pods are made from what the update stores. Who sends
an update does not matter, only what it changes: one that takes nothing out comes out as it was.
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from webhook.engine import keys, record
from webhook.engine.budget import Budget, OverBudgetError
from webhook.engine.candidates import marked
from webhook.engine.evaluate import evaluate, kind_of
from webhook.engine.jobs import is_of, open_job, template_paths
from webhook.engine.outcome import JobError, Outcome, Request, bounded
from webhook.engine.patch import Operation, difference
from webhook.engine.putback import put_back
from webhook.engine.table import Mode, Table, Workload
from webhook.engine.takeback import take_back
from webhook.engine.tree import Json, Path, WrongTypeError, get, map_at, maps_at, put, same

SUSPEND: Final = ("spec", "runPolicy", "suspend")
START_TIME: Final = ("status", "startTime")
CONDITIONS: Final = ("status", "conditions")
REPLICA_STATUSES: Final = ("status", "replicaStatuses")

UNNAMED: Final = (
    "a job made by generateName keeps the terms of its first size; delete it and create it in the new one"
)
LAUNCHER: Final = "launcher"
STAYS: Final = (
    "{0}-launcher was made for the old size, and only its scheduling is changed later: kubectl delete job "
    "{0}-launcher, and mpi-operator makes it anew"
)
"""mpi-operator makes the launcher's Job while the MPIJob is suspended, and changes labels, annotations, node
selector, tolerations and gates of its template when it resumes (``syncLauncherSchedulingDirectives``)."""


def suspended(stored: Json) -> bool:
    """Whether a stored job is suspended and has no pods left, as far as its status tells.

    mpi-operator sets ``startTime`` when it first finds a job that is not suspended, and the condition
    ``Suspended`` after it has deleted the workers (mpi-operator v0.8.0, ``syncHandler``).
    """
    if get(stored, SUSPEND) is not True:
        return False
    statuses = map_at(stored, REPLICA_STATUSES)
    if any(get(statuses, (role, "active")) for role in statuses):
        return False
    if get(stored, START_TIME) is None:
        return True
    conditions = maps_at(stored, CONDITIONS)
    return any((found.get("type"), found.get("status")) == ("Suspended", "True") for found in conditions)


def has_no_pods(stored: Json) -> bool:
    """Whether the pods of a stored job are still to come: it is suspended, or no operator has seen it."""
    return suspended(stored) or (get(stored, SUSPEND) is not True and get(stored, START_TIME) is None)


def update(table: Table, request: Request, stored: Json) -> Outcome | None:
    """What is done to the update of a job; None where nothing is.

    Never raises, and refuses nothing but a suspended job of a new size that could not be created so either:
    whatever cannot be read here is let through.

    Args:
        table: the rules.
        request: the update, with the object as it would be stored.
        stored: the object before.
    """
    new = request.object
    if table.mode is not Mode.ENFORCE or kind_of(new) != kind_of(stored) or not has_no_pods(stored):
        return None
    if get(new, ("metadata", "deletionTimestamp")) is not None or _opted_out(new):
        return None
    try:
        for workload in table.workloads_of(kind_of(stored)):
            if is_of(workload, stored):
                return _update(table, workload, request, stored)
    except (JobError, WrongTypeError, OverBudgetError):
        return None
    return None


def _opted_out(obj: Json) -> bool:
    mark = marked(obj, keys.INJECT)
    return mark is not None and mark[1] in keys.OFF


def _update(table: Table, workload: Workload, request: Request, stored: Json) -> Outcome | None:
    new = request.object
    # A Pod, whose template is the object itself, has no pods to come.
    paths = [path for _, path in template_paths(workload, new) if path]
    if not any(record.read(get(stored, path)) for path in paths):
        return None
    before, now = (open_job(workload, obj, replace(request, object=obj)) for obj in (stored, new))
    warnings: tuple[str, ...] = ()
    if now.workers() and before.workers() != now.workers() and suspended(stored):
        if not now.generate_name:
            return _resized(table, workload, request, stored)
        warnings = (UNNAMED,)
    desired, budget = new, Budget(new)
    for path in paths:
        desired = put(desired, path, put_back(get(stored, path), get(new, path), path, budget))
    after, patch = _patched(new, desired, paths)
    reason = "put back what the update took out" if patch else "the update takes nothing out"
    facts = {"workload": workload.name}
    return Outcome(table.revision, reason, after, tuple(patch), warnings=warnings, facts=facts)


def _resized(table: Table, workload: Workload, request: Request, stored: Json) -> Outcome:
    """The job as if it were created in its new size, without what was added for its old one."""
    new = request.object
    bare, budget = new, Budget(new)
    paths = {path: group.role for group, path in template_paths(workload, new)}
    for path in paths:
        found = record.read(get(stored, path))
        # Asked for the second time, the webhook finds another record, its own: that is taken back as well.
        if found and found != record.read(get(new, path)):
            bare = put(bare, path, take_back(get(new, path), found.added, budget))
    outcome = evaluate(table, replace(request, object=bare))
    if outcome.denials:
        return replace(outcome, after=new)
    after, operations = _patched(new, outcome.after, paths)
    launchers = [(*path, "spec") for path, role in paths.items() if role == LAUNCHER]
    stays = not all(same(get(stored, path), get(after, path)) for path in launchers)
    said = [STAYS.format(get(new, ("metadata", "name")))] if stays else []
    return replace(
        outcome,
        reason=f"its size changed while it was suspended; {outcome.reason}",
        after=after,
        operations=tuple(operations),
        warnings=bounded([*outcome.warnings, *said]),
    )


def _patched(received: Json, desired: Json, paths: Iterable[Path]) -> tuple[Json, list[Operation]]:
    after, patch = received, list[Operation]()
    for path in paths:
        template, operations = difference(get(received, path), get(desired, path), path)
        after, patch = put(after, path, template), patch + operations
    return after, patch
