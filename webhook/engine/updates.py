"""What an update of a stored job keeps, and when its shape is chosen again (docs/adr/0021-updates.md).

Only an object whose pods are still to come is looked at: they are made from what the update stores. Each kind
says in its row how that is known. Who sends an update does not matter, only what it changes: one that takes
nothing out comes out as it was.
"""

from dataclasses import replace
from typing import Final

from common.pointers import field_name
from common.texts import cut
from contract import keys
from webhook.engine.evaluate import evaluate
from webhook.engine.opening import groups_of, injection, kind_of, open_job
from webhook.engine.outcome import JobError, Outcome, Request, bounded
from webhook.objects.patch import patched
from webhook.objects.templates import main_container
from webhook.objects.tree import Json, Path, WrongTypeError, get, put, same
from webhook.rows.policies import Mode
from webhook.rows.table import Table
from webhook.rows.workloads import Suspending, Workload
from webhook.undo import record
from webhook.undo.budget import Budget, OverBudgetError
from webhook.undo.putback import put_back
from webhook.undo.takeback import take_back

_Template = tuple[str, Path, Json]
"""The role of a group, the path of its template in the new object, and the template in the stored one."""

MADE: Final = "its pods were made of the stored templates already"
UNNAMED: Final = (
    "a job made by generateName keeps the terms of its first size; delete it and create it in the new one"
)
STAYS: Final = (
    "{0} was made for the old size, and only its scheduling is changed later: kubectl delete job {0}, "
    "and its operator recreates it"
)

COPIED: Final = ("image", "imagePullPolicy", "resources", "securityContext")
"""Of a template's main container, what containers that are added to it may copy."""
COPIES: Final = (
    "containers added to {} keep the image, imagePullPolicy, resources and securityContext that its main "
    "container had; to change them, delete the job and create it again"
)


def suspended(states: Suspending, stored: Json) -> bool:
    """Whether a stored job is suspended and has no pods left, as far as its status tells."""
    if states.suspend.value(stored) is not True:
        return False
    groups = states.active.value(stored)
    if any(get(group, ("active",)) for group in groups.values()) if isinstance(groups, dict) else groups:
        return False
    return states.started.value(stored) is None or states.stopped.value(stored) == "True"


def has_no_pods(states: Suspending, stored: Json) -> bool:
    """Whether the pods of a stored job are still to come: it is suspended, or no operator has seen it."""
    seen = states.suspend.value(stored) is True or states.started.value(stored) is not None
    return not seen or suspended(states, stored)


def admit(table: Table, request: Request, stored: Json = None) -> Outcome:
    """What is done to an object that is created or, where there is a stored one, to its update."""
    found = evaluate(table, request) if stored is None else update(table, request, stored)
    return Outcome(table.revision, found, request.object) if isinstance(found, str) else found


def update(table: Table, request: Request, stored: Json) -> Outcome | str:
    """What is done to the update of a job; where nothing is, why.

    Never raises, and refuses nothing but a suspended job of a new size that could not be created so either:
    whatever cannot be read here is let through.
    """
    new = request.object
    ruling = table.ruling(new, request.namespace, request.now)
    if (ruling.modes if ruling else table.modes).table is not Mode.ENFORCE:
        return "updates are let through: the rule table is not enforced"
    if kind_of(new) != kind_of(stored):
        return f"the stored object is a {cut(kind_of(stored))}"
    if get(new, ("metadata", "deletionTimestamp")) is not None:
        return "it is being deleted"
    if injection(new) is False:
        return f"opted out by {keys.INJECT}"
    try:
        for workload in table.workloads_of(kind_of(stored)):
            if not workload.unlike(stored):
                return _update(table, workload, request, stored)
    except (JobError, WrongTypeError, OverBudgetError) as error:
        return cut(f"it is let through as it is: {error}")
    return cut(f"no workload of the rule table matches kind {kind_of(stored)}")


def _update(table: Table, workload: Workload, request: Request, stored: Json) -> Outcome | str:
    new, states = request.object, workload.updates
    if states is None:
        return f"the rule table says nothing of updates of a {workload.name}"
    if isinstance(states, Suspending) and not has_no_pods(states, stored):
        return MADE
    old_groups, groups = groups_of(table, workload, stored), groups_of(table, workload, new)
    # Not by path: an element of a list may stand at another place than it did.
    old = {group.row.key(stored, group.path): group.template for group in old_groups}
    # A Pod, which is its own template, has no pods to come.
    templates = [
        (group.row.role, group.path, old.get(group.row.key(new, group.path)))
        for group in groups
        if group.path
    ]
    if not any(record.read(before) for _, _, before in templates):
        return "nothing was added to the stored object, so there is nothing to put back"
    before = open_job(stored, old_groups, replace(request, object=stored), workload, table)
    now = open_job(new, groups, request, workload, table)
    warnings: tuple[str, ...] = ()
    resized = now.has_workers and before.nodes != now.nodes
    if resized and isinstance(states, Suspending) and suspended(states, stored):
        if not now.generate_name:
            return _resized(table, request, templates, states.keeps)
        warnings = (UNNAMED,)
    budget = Budget(new)
    after, patch = patched(
        new, {path: put_back(was, get(new, path), path, budget) for _, path, was in templates}
    )
    reason = "put back what the update took out" if patch else "the update takes nothing out"
    warnings += tuple(
        COPIES.format(cut(field_name(path)))
        for _, path, was in templates
        if _copied(table, workload, was, get(new, path))
    )
    outcome = Outcome(table.revision, reason, after, tuple(patch), warnings=bounded(warnings))
    return replace(outcome, facts={"workload": workload.name}, setters={} if request.explain else None)


def _copied(table: Table, workload: Workload, stored: Json, new: Json) -> bool:
    """Whether an update changes what containers that were added to a template may have copied from it."""
    found = record.read(stored)
    if not found or found.added.keys().isdisjoint(("/spec/initContainers", "/spec/containers")):
        return False
    signs, resources = workload.main_container, table.resources
    before, now = (main_container(one, signs, resources) for one in (stored, new))
    return any(not same(before.get(key) or None, now.get(key) or None) for key in COPIED)


def _resized(table: Table, request: Request, templates: list[_Template], keeps: str | None) -> Outcome:
    """The job as if it were created in its new size, without what was added for its old one."""
    new = request.object
    bare, budget = new, Budget(new)
    for _, path, was in templates:
        found = record.read(was)
        # Called a second time, the webhook finds another record, its own: that is taken back as well.
        if found and found != record.read(get(new, path)):
            bare = put(bare, path, take_back(get(new, path), found.added, budget))
    outcome = evaluate(table, replace(request, object=bare))
    if outcome.denials:
        return replace(outcome, after=new)
    after, operations = patched(new, {path: get(outcome.after, path) for _, path, _ in templates})
    spec = ("spec",)
    stays = any(
        role == keeps and not same(get(was, spec), get(after, (*path, *spec)))
        for role, path, was in templates
    )
    said = [STAYS.format(f"{get(new, ('metadata', 'name'))}-{keeps}")] if stays else []
    return replace(
        outcome,
        reason=f"its size changed while it was suspended; {outcome.reason}",
        after=after,
        operations=tuple(operations),
        warnings=bounded([*outcome.warnings, *said]),
    )
