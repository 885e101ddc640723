"""Decides which additions an update of a stored job keeps, and when its shape changes (ADR 0021).

An update matters only while the object's pods do not exist, because they will be created from the updated
templates. The key `updates` of each workload row has the condition. It does not matter who sends the update.
If the update removes no addition, it is stored as it is.
"""

from dataclasses import replace
from typing import Final

from common.pointers import field_name
from common.texts import cut
from contract import keys
from webhook.engine.evaluate import evaluate
from webhook.engine.messages import Message, limit_messages, message, messages_of
from webhook.engine.outcome import JobError, Outcome, Request
from webhook.engine.reading import build_job, groups_of, injection, kind_of
from webhook.objects import record
from webhook.objects.patch import compute_patch
from webhook.objects.paths import parse_path
from webhook.objects.putback import put_back
from webhook.objects.takeback import Budget, OverBudgetError, take_back
from webhook.objects.templates import main_container
from webhook.objects.tree import Json, Path, WrongTypeError, get, put, same
from webhook.rows.policies import Mode
from webhook.rows.table import Table
from webhook.rows.workloads import Suspending, Workload

_Template = tuple[str, Path, Json]
"""The role of a group, the path of its template in the new object, and the template in the stored one."""

COPIED: Final = ("image", "imagePullPolicy", "resources", "securityContext")
"""Fields of a template's main container that added containers may copy."""

STARTED: Final = ("status", "startTime")
"""A field that the operator sets when it first sees an object that is not suspended."""
STOPPED: Final = parse_path("/status/conditions[type=Suspended]/status")
"""A condition that the operator sets when it has deleted the pods of a job that was suspended later."""


def suspended(states: Suspending, stored: Json) -> bool:
    """Returns whether a stored job is suspended and has no pods, by its status."""
    if states.suspend.value(stored) is not True:
        return False
    statuses = get(stored, ("status", "replicaStatuses"))
    active = isinstance(statuses, dict) and any(get(status, ("active",)) for status in statuses.values())
    if active or (statuses and not isinstance(statuses, dict)):
        return False
    return get(stored, STARTED) is None or STOPPED.value(stored) == "True"


def has_no_pods(states: Suspending, stored: Json) -> bool:
    """Returns whether the pods of a stored job are not created yet: it is suspended, or has no status."""
    may_have_started = states.suspend.value(stored) is True or get(stored, STARTED) is not None
    return not may_have_started or suspended(states, stored)


def admit(table: Table, request: Request, stored: Json = None) -> Outcome:
    """Returns the outcome for an object that is created or, if there is a stored one, for its update."""
    outcome = evaluate(table, request) if stored is None else update(table, request, stored)
    return Outcome(table.revision, outcome, request.object) if isinstance(outcome, str) else outcome


def update(table: Table, request: Request, stored: Json) -> Outcome | str:
    """Returns the outcome for the update of a job or, if nothing is done, why; an outcome if it has Pods.

    Never raises. Refuses an update only if a suspended job gets a size with which it could not be created.
    An update that cannot be read is admitted unchanged.
    """
    new = request.object
    ruling = table.find_ruling(new, request.namespace, request.now)
    if (ruling.modes if ruling else table.modes).table is not Mode.ENFORCE:
        return "updates are admitted unchanged: the rule table is not enforced"
    if kind_of(new) != kind_of(stored):
        return f"the stored object is a {cut(kind_of(stored))}"
    if get(new, ("metadata", "deletionTimestamp")) is not None:
        return "it is being deleted"
    if injection(new) is False:
        return f"opted out by {keys.INJECT}"
    try:
        for workload in table.workloads_of(kind_of(stored)):
            if not workload.mismatch(stored):
                return _update(table, workload, request, stored)
    except (JobError, WrongTypeError, OverBudgetError) as error:
        return cut(f"it is admitted unchanged: {error}")
    return cut(f"no workload of the rule table matches kind {kind_of(stored)}")


def _update(table: Table, workload: Workload, request: Request, stored: Json) -> Outcome | str:
    new, states = request.object, workload.updates
    if states is None:
        return f"the rule table has no `updates` for a {workload.name}"
    if isinstance(states, Suspending) and not has_no_pods(states, stored):
        return Outcome(
            table.revision, "its pods were already created from the stored templates", new, has_pods=True
        )
    old_groups, groups = groups_of(table, workload, stored), groups_of(table, workload, new)
    # Matched by key, not by path: an update may move an element of a list.
    old = {group.row.key(stored, group.path): group.template for group in old_groups}
    # A Pod (its path is empty) is left out: nothing is created from it.
    templates = [
        (group.row.role, group.path, old.get(group.row.key(new, group.path)))
        for group in groups
        if group.path
    ]
    if not any(record.read(before) for _, _, before in templates):
        return "nothing was added to the stored object, so there is nothing to put back"
    before = build_job(stored, old_groups, replace(request, object=stored), workload, table)
    now = build_job(new, groups, request, workload, table)
    warnings: list[Message] = []
    resized = now.has_workers and before.nodes != now.nodes
    if resized and isinstance(states, Suspending) and suspended(states, stored):
        if not now.generate_name:
            return _resized(table, request, templates, states.keeps)
        warnings.append(message("size-kept"))
    budget = Budget(new)
    after, patch = compute_patch(
        new, {path: put_back(was, get(new, path), path, budget) for _, path, was in templates}
    )
    reason = "put back what the update removed" if patch else "the update removes no addition"
    copied = (
        cut(field_name(path)) for _, path, was in templates if _copied(table, workload, was, get(new, path))
    )
    warnings += messages_of("copies-kept", copied)
    outcome = Outcome(table.revision, reason, after, tuple(patch), warnings=limit_messages(warnings))
    return replace(outcome, facts={"workload": workload.name}, setters={} if request.explain else None)


def _copied(table: Table, workload: Workload, stored: Json, new: Json) -> bool:
    """Returns whether an update changes what added containers may have copied from a template."""
    written = record.read(stored)
    if not written or written.added.keys().isdisjoint(("/spec/initContainers", "/spec/containers")):
        return False
    signs, resources = workload.main_container, table.resources
    before, now = (main_container(template, signs, resources) for template in (stored, new))
    return any(not same(before.get(key) or None, now.get(key) or None) for key in COPIED)


def _resized(table: Table, request: Request, templates: list[_Template], kept_role: str | None) -> Outcome:
    """Returns the outcome for the job as if it were created in its new size, without the old additions."""
    new = request.object
    bare, budget = new, Budget(new)
    for _, path, was in templates:
        old = record.read(was)
        # When the API server calls the webhook again, the new record is there, and `evaluate` removes it.
        if old and old != record.read(get(new, path)):
            bare = put(bare, path, take_back(get(new, path), old.added, budget))
    outcome = evaluate(table, replace(request, object=bare))
    if outcome.denials:
        return replace(outcome, after=new)
    after, operations = compute_patch(new, {path: get(outcome.after, path) for _, path, _ in templates})
    spec = ("spec",)
    launcher_is_outdated = any(
        role == kept_role and not same(get(was, spec), get(after, (*path, *spec)))
        for role, path, was in templates
    )
    launcher = f"{get(new, ('metadata', 'name'))}-{kept_role}"
    warning = [message("launcher-kept", launcher)] if launcher_is_outdated else []
    return replace(
        outcome,
        reason=f"its size changed while it was suspended; {outcome.reason}",
        after=after,
        operations=tuple(operations),
        warnings=limit_messages([*outcome.warnings, *warning]),
    )
