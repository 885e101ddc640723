"""Decides which of the webhook's additions stay when a stored job is updated (ADR 0021).

The key `updates` of a workload row defines when the webhook acts: never, always, or only while the job has no
pods, because its pods are then created from the updated templates. All users are treated in the same way. An
update that removes nothing that the webhook added is stored unchanged. If a suspended job changes its size,
it gets a new shape.
"""

from dataclasses import replace
from typing import Final

from common.pointers import field_name
from common.texts import cut
from webhook.engine import messages
from webhook.engine.evaluate import evaluate
from webhook.engine.messages import Message, limit_messages, message, messages_of
from webhook.engine.outcome import JobError, Outcome, Request
from webhook.engine.reading import build_job, find_groups, kind_of, read_opt_in
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

_StoredGroup = tuple[str, Path, Json]
"""A group's role, the path of its template in the new object, and its template in the stored object."""

COPIED_FIELDS: Final = ("image", "imagePullPolicy", "resources", "securityContext")
"""Fields of a template's main container that the containers of a rule may copy."""

START_TIME: Final = ("status", "startTime")
"""The field that the operator sets when it first reads an object that is not suspended."""
SUSPENDED_CONDITION: Final = parse_path("/status/conditions[type=Suspended]/status")
"""The condition that the operator sets when it has deleted the pods of a job that a user suspended."""


def is_suspended_without_pods(updates: Suspending, obj: Json) -> bool:
    """Returns whether a stored job is suspended and has no pods, by its status."""
    if updates.suspend.value(obj) is not True:
        return False
    statuses = get(obj, ("status", "replicaStatuses"))
    is_active = isinstance(statuses, dict) and any(get(status, ("active",)) for status in statuses.values())
    if is_active or (statuses and not isinstance(statuses, dict)):
        return False
    return get(obj, START_TIME) is None or SUSPENDED_CONDITION.value(obj) == "True"


def has_no_pods(updates: Suspending, obj: Json) -> bool:
    """Returns whether a stored job has no pods: suspended without pods, or neither suspended nor started."""
    is_suspended_or_started = updates.suspend.value(obj) is True or get(obj, START_TIME) is not None
    return not is_suspended_or_started or is_suspended_without_pods(updates, obj)


def admit(table: Table, request: Request, stored_object: Json = None) -> Outcome:
    """Returns the outcome for the creation of an object or, if there is a stored object, for its update."""
    outcome = evaluate(table, request) if stored_object is None else update(table, request, stored_object)
    return Outcome(table.revision, outcome, request.object) if isinstance(outcome, str) else outcome


def update(table: Table, request: Request, stored: Json) -> Outcome | str:
    """Returns the outcome for the update of a job, or the reason why the update is admitted unchanged.

    Never raises. Refuses an update only if it changes the size of a suspended job, and the table refuses the
    resized job. If a job of a workload with `Suspending` may have Pods, the outcome has no operations.
    """
    new = request.object
    ruling = table.find_ruling(new, request.namespace, request.now)
    if (ruling.modes if ruling else table.modes).table is not Mode.ENFORCE:
        return messages.NOT_ENFORCED
    if kind_of(new) != kind_of(stored):
        return messages.other_kind(cut(kind_of(stored)))
    if get(new, ("metadata", "deletionTimestamp")) is not None:
        return messages.DELETED
    if read_opt_in(new) is False:
        return messages.OPTED_OUT
    try:
        for workload in table.workloads_of(kind_of(stored)):
            if not workload.find_mismatch(stored):
                return _update(table, workload, request, stored)
    except (JobError, WrongTypeError, OverBudgetError) as error:
        return cut(messages.admitted_unchanged(error))
    return cut(messages.no_workload(kind_of(stored)))


def _update(table: Table, workload: Workload, request: Request, stored: Json) -> Outcome | str:
    new, updates = request.object, workload.updates
    if updates is None:
        return messages.no_updates(workload.name)
    if isinstance(updates, Suspending) and not has_no_pods(updates, stored):
        return Outcome(table.revision, messages.HAS_PODS, new, has_pods=True)
    old_groups, groups = find_groups(table, workload, stored), find_groups(table, workload, new)
    # Groups are matched by key and not by path, because an update may move elements of a list.
    stored_templates = {group.row.key(stored, group.path): group.template for group in old_groups}
    # A Pod, whose path is empty, is left out, because nothing is created from it.
    templates = [
        (group.row.role, group.path, stored_templates.get(group.row.key(new, group.path)))
        for group in groups
        if group.path
    ]
    if not any(record.read(template) for _, _, template in templates):
        return messages.NOTHING_ADDED
    stored_job = build_job(stored, old_groups, replace(request, object=stored), workload, table)
    new_job = build_job(new, groups, request, workload, table)
    warnings: list[Message] = []
    is_resized = new_job.has_workers and stored_job.nodes != new_job.nodes
    if is_resized and isinstance(updates, Suspending) and is_suspended_without_pods(updates, stored):
        if not new_job.generate_name:
            return _resize(table, request, templates, updates)
        warnings.append(message("size-kept"))
    budget = Budget(new)
    result, patch = compute_patch(
        new, {path: put_back(template, get(new, path), path, budget) for _, path, template in templates}
    )
    reason = messages.PUT_BACK if patch else messages.NOTHING_REMOVED
    fields = (
        cut(field_name(path))
        for _, path, template in templates
        if _changes_copies(table, workload, template, get(new, path))
    )
    warnings += messages_of("copies-kept", fields)
    outcome = Outcome(table.revision, reason, result, tuple(patch), warnings=limit_messages(warnings))
    return replace(outcome, facts={"workload": workload.name}, rules_by_path={} if request.explain else None)


def _changes_copies(table: Table, workload: Workload, stored: Json, new: Json) -> bool:
    """Returns whether an update changes a field that a rule's containers can copy from the main container."""
    stored_record = record.read(stored)
    additions = stored_record.additions if stored_record else {}
    if additions.keys().isdisjoint(("/spec/initContainers", "/spec/containers")):
        return False
    names, resources = workload.main_container, table.resources
    old_main, new_main = (main_container(template, names, resources) for template in (stored, new))
    return any(not same(old_main.get(key) or None, new_main.get(key) or None) for key in COPIED_FIELDS)


def _resize(table: Table, request: Request, templates: list[_StoredGroup], updates: Suspending) -> Outcome:
    """Returns the outcome for the job as if it were created in its new size and without the old additions.

    Warns if the launcher's Job, which exists while the job is suspended, was created from another template
    than the new template. ``updates.keeps`` is the role of the launcher; None if there is no such Job.
    """
    new = request.object
    bare_object, budget = new, Budget(new)
    for _, path, template in templates:
        old_record = record.read(template)
        # `evaluate` removes the additions in the new object's record. The update may have removed or replaced
        # this record, so the additions in the stored record are removed here.
        if old_record and old_record != record.read(get(new, path)):
            bare_object = put(bare_object, path, take_back(get(new, path), old_record.additions, budget))
    outcome = evaluate(table, replace(request, object=bare_object))
    if outcome.denials:
        return replace(outcome, after=new)
    result, operations = compute_patch(new, {path: get(outcome.after, path) for _, path, _ in templates})
    spec = ("spec",)
    is_launcher_outdated = any(
        role == updates.keeps and not same(get(template, spec), get(result, (*path, *spec)))
        for role, path, template in templates
    )
    launcher = f"{get(new, ('metadata', 'name'))}-{updates.keeps}"
    warnings = [message("launcher-kept", launcher)] if is_launcher_outdated else []
    return replace(
        outcome,
        reason=messages.resized(outcome.reason),
        after=result,
        operations=tuple(operations),
        warnings=limit_messages([*outcome.warnings, *warnings]),
    )
