"""Reads an object: finds its workload row, removes earlier additions, and counts its pods."""

from collections.abc import Iterable, Sequence
from operator import attrgetter

from common.pointers import field_name
from contract import keys
from contract.placement import Index, Summand
from webhook.engine import messages
from webhook.engine.groups import Group
from webhook.engine.jobs import Job, choose_family, count_at_once
from webhook.engine.outcome import JobError, Request
from webhook.objects import record
from webhook.objects.paths import ObjectPath
from webhook.objects.takeback import Budget
from webhook.objects.tree import Json, Path, get, get_map, put, shown, text_of
from webhook.rows.table import Table
from webhook.rows.workloads import BY_DEVICES, HELPER, Factor, Workload


def find_groups(table: Table, workload: Workload, obj: Json) -> list[Group]:
    """Returns the groups of a workload that have a template in an object. Their pods are not counted yet."""
    rows = [(row, path, get(obj, path)) for row in workload.groups for path in row.template.find_all(obj)]
    return [
        Group(table, workload, row, path, template)
        for row, path, template in rows
        if isinstance(template, dict)
    ]


def read_job(table: Table, request: Request) -> Job | None:
    """Returns the job without earlier additions; None if no workload matches the object's kind and fields.

    Raises:
        JobError: A number of pods is not a whole number of at least 0.
        WrongTypeError: A field that a workload's ``when`` names cannot be read as text (see `Field.text`).
    """
    budget = Budget(request.object)
    for workload in table.workloads_of(kind_of(request.object)):
        obj, groups = request.object, find_groups(table, workload, request.object)
        for group in groups:
            template, key = group.template, group.record_key
            entry = record.read(template, key)
            group.template, is_valid, group.user_marks = record.strip(template, entry, budget, key)
            group.record, group.is_record_ignored = (entry, False) if is_valid else (None, entry is not None)
            if group.template is not template:
                obj = put(obj, group.path, group.template)
        if not workload.find_mismatch(obj):
            return build_job(obj, groups, request, workload, table)
    return None


def kind_of(obj: Json) -> str:
    """Returns ``group/version/Kind`` of an object, as in workload rows."""
    fields = obj if isinstance(obj, dict) else {}
    return f"{fields.get('apiVersion')}/{fields.get('kind')}"


def build_job(obj: Json, groups: Sequence[Group], request: Request, workload: Workload, table: Table) -> Job:
    """Returns the job of a request, and sets the family, role and numbers of each group.

    ``obj`` is the object, which `read_job` passes without earlier additions.

    Raises:
        JobError: A number of pods is not a whole number of at least 0.
    """
    opt_in, family = read_opt_in(obj), choose_family(table, groups)
    for group in groups:
        group.family = family
    groups_by_devices = [group for group in groups if group.row.takes_nodes == BY_DEVICES]
    device_groups = _find_device_groups(groups_by_devices, is_opted_in=opt_in is True)
    node_counts = {False: 0, True: 0}
    for group in groups:
        _read_numbers(group, obj, node_counts, takes_node=group in device_groups)
    metadata = get_map(request.object, ("metadata",))
    name, prefix = metadata.get("name"), metadata.get("generateName")
    name = name if isinstance(name, str) else ""
    prefix = prefix if isinstance(prefix, str) else ""
    worker_groups = [group for group in groups if group.takes_nodes]
    nodes, is_numbered = count_at_once(worker_groups), all(map(attrgetter("is_numbered"), worker_groups))
    return Job(
        table, workload, obj, name, prefix, request.namespace, family, groups, nodes, is_numbered, opt_in
    )


def _find_device_groups(groups: Sequence[Group], *, is_opted_in: bool) -> Sequence[Group]:
    """Returns the groups whose pods take a node because of their devices or their instance type.

    If an opted-in job has no such group, returns the groups that request any device or, if there are none,
    all groups.
    """
    result = [
        group for group in groups if group.node_reason_of(group.family) or group.selects_type_of(group.family)
    ]
    if result or not is_opted_in:
        return result
    return [group for group in groups if group.requested_resource] or groups


def _read_numbers(group: Group, obj: Json, node_counts: dict[bool, int], *, takes_node: bool) -> None:
    """Sets a group's role, size and numbering, and whether its pods take nodes.

    Adds pods that take nodes to ``node_counts``: the number of nodes so far, by `Group.starts_later`.
    """
    row = group.row
    group.role = row.role
    if isinstance(row.takes_nodes, ObjectPath):
        group.takes_nodes = row.takes_nodes.value(obj) is True
    elif row.takes_nodes == BY_DEVICES:
        group.takes_nodes = takes_node
        group.role = row.role if takes_node else HELPER
    else:
        group.takes_nodes = row.takes_nodes is True
    group.replicas = _multiply(row.replicas, obj, group.path)
    group.starts_later = row.later is not None and row.later.value(obj, group.path) is not None
    field = row.number and row.number.completion_mode
    completion_mode = field and (field.path.value(obj, group.path) or field.default)
    if (number := row.number) and completion_mode != "NonIndexed":
        summands = [Summand(name, _multiply(factors, obj, group.path)) for name, factors in number.summands]
        group.index = Index(tuple(summands), node_counts[group.starts_later] if number.continues else 0)
        counts = {0, group.replicas}
        group.is_numbered = not number.count or _multiply(number.count, obj, group.path) in counts
    node_counts[group.starts_later] += group.replicas if group.takes_nodes else 0


def _multiply(factors: Iterable[Factor], obj: Json, template: Path) -> int:
    product = 1
    for factor in factors:
        value = _read_number(factor.path, obj, template) if factor.path else None
        number = factor.default if value is None else value
        maximum = _read_number(factor.at_most, obj, template) if factor.at_most else None
        product *= number if maximum is None else min(number, maximum)
    return product


def _read_number(path: ObjectPath, obj: Json, template: Path) -> int | None:
    value = path.value(obj, template)
    if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 0):
        raise JobError(messages.invalid_count(path.name, shown(value)))
    return value


def find_annotation_or_label(obj: Json, key: str) -> tuple[str, str] | None:
    """Returns the field and the value of an annotation or, if there is none, of a label with this key."""
    metadata = get_map(obj, ("metadata",))
    for kind in ("annotations", "labels"):
        values = metadata.get(kind)
        if isinstance(values, dict) and (value := values.get(key)) is not None:
            return field_name(("metadata", kind, key)), text_of(value)
    return None


def read_opt_in(obj: Json) -> bool | str | None:
    """Returns True if opted in, False if opted out, None if neither, or a message about an invalid value."""
    field_and_value = find_annotation_or_label(obj, keys.INJECT)
    if field_and_value is None:
        return None
    field, value = field_and_value
    if value in keys.OPT_IN_VALUES or value in keys.OPT_OUT_VALUES:
        return value in keys.OPT_IN_VALUES
    return messages.invalid_opt_in(field, shown(value))
