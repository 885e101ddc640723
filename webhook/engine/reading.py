"""Reads an object: its workload row, its templates without earlier additions, and its numbers."""

from collections.abc import Iterable, Sequence
from operator import attrgetter

from common.pointers import field_name
from contract import keys
from contract.place import Index, Term
from webhook.engine.groups import Group
from webhook.engine.jobs import Job, at_once, family_of
from webhook.engine.outcome import JobError, Request
from webhook.objects import record
from webhook.objects.paths import ObjectPath
from webhook.objects.takeback import Budget
from webhook.objects.tree import Json, Path, get, map_at, put, shown, text_of
from webhook.rows.table import Table
from webhook.rows.workloads import BY_DEVICES, HELPER, Factor, Workload


def groups_of(table: Table, workload: Workload, obj: Json) -> list[Group]:
    """Returns the groups of a workload that have a template in an object, without their numbers."""
    places = [(row, path, get(obj, path)) for row in workload.groups for path in row.template.find_all(obj)]
    return [
        Group(table, workload, row, path, template)
        for row, path, template in places
        if isinstance(template, dict)
    ]


def read_job(table: Table, request: Request) -> Job | None:
    """Returns the object as its author wrote it, read by the first workload whose kind and ``when`` match.

    Raises:
        JobError: A number of its pods cannot be read.
        WrongTypeError: A field of ``when`` is not a string.
    """
    budget = Budget(request.object)
    for workload in table.workloads_of(kind_of(request.object)):
        obj, groups = request.object, groups_of(table, workload, request.object)
        for group in groups:
            template, key = group.template, group.key
            added = record.read(template, key)
            group.template, valid, group.user_marks = record.strip(template, added, budget, key)
            group.record, group.record_ignored = (added, False) if valid else (None, added is not None)
            if group.template is not template:
                obj = put(obj, group.path, group.template)
        if not workload.mismatch(obj):
            return build_job(obj, groups, request, workload, table)
    return None


def kind_of(obj: Json) -> str:
    """Returns ``group/version/Kind`` of an object, as in workload rows."""
    named = obj if isinstance(obj, dict) else {}
    return f"{named.get('apiVersion')}/{named.get('kind')}"


def build_job(obj: Json, groups: Sequence[Group], request: Request, workload: Workload, table: Table) -> Job:
    """Returns the job of a request, with the pods of each group in ``obj``, which has no earlier additions.

    Raises:
        JobError: A number of pods is not a whole number of at least 0.
    """
    opted, family = injection(obj), family_of(table, groups)
    for group in groups:
        group.family = family
    takers = _takers([group for group in groups if group.row.takes_nodes == BY_DEVICES], opted=opted is True)
    before = {False: 0, True: 0}
    for group in groups:
        _count(group, obj, before, takes_devices=group in takers)
    metadata = map_at(request.object, ("metadata",))
    name, generate_name = metadata.get("name"), metadata.get("generateName")
    name = name if isinstance(name, str) else ""
    generate_name = generate_name if isinstance(generate_name, str) else ""
    takers = [group for group in groups if group.takes_nodes]
    nodes, numbered = at_once(takers), all(map(attrgetter("numbered"), takers))
    return Job(
        table, workload, obj, name, generate_name, request.namespace, family, groups, nodes, numbered, opted
    )


def _takers(groups: Sequence[Group], *, opted: bool) -> Sequence[Group]:
    """Returns the groups that take nodes for their devices; all of them for a job that is opted in."""
    takers = [group for group in groups if group.node_reason or group.selects_type]
    return takers or ([group for group in groups if group.requested_resource] or groups if opted else ())


def _count(group: Group, obj: Json, before: dict[bool, int], *, takes_devices: bool) -> None:
    """Reads the numbers of a group, and adds its pods that take nodes to ``before[group.later]``."""
    row = group.row
    group.role = row.role
    if isinstance(row.takes_nodes, ObjectPath):
        group.takes_nodes = row.takes_nodes.value(obj) is True
    elif row.takes_nodes == BY_DEVICES:
        group.takes_nodes = takes_devices
        group.role = row.role if takes_devices else HELPER
    else:
        group.takes_nodes = row.takes_nodes is True
    group.replicas = _product(row.replicas, obj, group.path)
    group.later = row.later is not None and row.later.value(obj, group.path) is not None
    mode = row.number and row.number.completion_mode
    named = mode and (mode.path.value(obj, group.path) or mode.default)
    if (number := row.number) and named != "NonIndexed":
        terms = [Term(source, _product(times, obj, group.path)) for source, times in number.terms]
        group.index = Index(tuple(terms), before[group.later] if number.continues else 0)
        group.numbered = not number.count or _product(number.count, obj, group.path) in {0, group.replicas}
    before[group.later] += group.replicas if group.takes_nodes else 0


def _product(factors: Iterable[Factor], obj: Json, template: Path) -> int:
    product = 1
    for factor in factors:
        written = _whole(factor.path, obj, template) if factor.path else None
        number = factor.default if written is None else written
        limit = _whole(factor.at_most, obj, template) if factor.at_most else None
        product *= number if limit is None else min(number, limit)
    return product


def _whole(path: ObjectPath, obj: Json, template: Path) -> int | None:
    value = path.value(obj, template)
    if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 0):
        raise JobError(
            f"the number of workers must be a whole number, 0 or more: {path.name} is {shown(value)}"
        )
    return value


def marked(obj: Json, key: str) -> tuple[str, str] | None:
    """Returns path and value of one of our keys in an object's annotations or labels, in this order."""
    metadata = map_at(obj, ("metadata",))
    for kind in ("annotations", "labels"):
        marks = metadata.get(kind)
        if isinstance(marks, dict) and (value := marks.get(key)) is not None:
            return field_name(("metadata", kind, key)), text_of(value)
    return None


def injection(obj: Json) -> bool | str | None:
    """Returns whether an object is opted in (True), out (False), or neither; a text is an error."""
    mark = marked(obj, keys.INJECT)
    if mark is None:
        return None
    if mark[1] in keys.ON or mark[1] in keys.OFF:
        return mark[1] in keys.ON
    return f'use "true" to opt in, "false" to opt out, or remove it: {mark[0]} is {shown(mark[1])}'
