"""What the schema cannot see of workloads: rows that can never open anything, or not alone."""

from collections.abc import Iterator, Mapping

from common.quantities import thousandths
from webhook.documents import Path
from webhook.rows.placeholders import names
from webhook.rows.table import Table
from webhook.rows.workloads import DEVICES, WORKER, Workload
from webhook.rules.rows import listed


def workload_problems(table: Table, values: Mapping[str, str]) -> Iterator[tuple[Path, str]]:
    """Every problem of a table's workloads: path and message; ``values`` are the table's own."""
    taken: dict[str, str] = {}
    for index, workload in enumerate(table.workloads):
        at: Path = ("workloads", index)
        yield from _shared_kinds(taken, workload, at)
        yield from _groups(workload, at)
        yield from _numbers(workload, at)
        yield from _defaults(workload, values, at)
        for name in workload.when:
            if name not in workload.fields:
                known = listed(workload.fields) or "none"
                yield (*at, "when", name), f"the workload has no field {name!r}; known are {known}"


def _shared_kinds(taken: dict[str, str], workload: Workload, at: Path) -> Iterator[tuple[Path, str]]:
    """Kinds of which two workloads take what the others leave; ``taken`` names the first such for each."""
    for kind in () if workload.when else workload.kinds:
        if kind in taken:
            first = f"{taken[kind]} opens every {kind}"
            yield (*at, "kinds"), f"unreachable: {first}; give one of the two a `when`"
        else:
            taken[kind] = workload.name


def _numbers(workload: Workload, at: Path) -> Iterator[tuple[Path, str]]:
    """Elements of lists that are meant where none is, and labels that quote what is not there."""
    for number, group in enumerate(workload.groups):
        here: Path = (*at, "groups", number)
        listed = str(group.template.list) if group.template.list else None
        times = [factor for term in group.index for factor in term.times]
        for factor in (*group.replicas, *times, *group.numbers):
            if factor.path and factor.path.list and str(factor.path.list) != listed:
                yield here, f"{factor.path} is for every element of a list of which template is not"
        if group.otherwise and group.takes_nodes != DEVICES:
            yield (*here, "otherwise"), "is for groups whose takesNodes is devices"
    for key, value in workload.peers.items():
        for quoted in names(value):
            if quoted != "job.name" or value != "$(job.name)":
                yield (
                    (*at, "peers", key),
                    f"is {value!r}: it must be $(job.name), or quote nothing",
                )


def _defaults(workload: Workload, values: Mapping[str, str], at: Path) -> Iterator[tuple[Path, str]]:
    """Defaults that quote what is not there, and fields with the smaller of two quantities that are none."""
    known = {f"value.{name}": text for name, text in values.items()}
    for name, row in workload.fields.items():
        here: Path = (*at, "fields", name)
        default = row.default
        for quoted in names(default):
            if quoted not in known:
                yield (*here, "default"), f"unknown placeholder $({quoted}); known here are {listed(known)}"
            default = known.get(quoted, default)
        if row.smaller and row.parent:
            yield (*here, "smaller"), f"{name} is a quantity, not a file path"
        elif row.smaller and not thousandths(default):
            yield (*here, "default"), f"must be a quantity above 0, such as 1Gi, not {default!r}"


def _groups(workload: Workload, at: Path) -> Iterator[tuple[Path, str]]:
    roles = [group.role for group in workload.groups]
    places = [str(group.template) for group in workload.groups]
    for number, group in enumerate(workload.groups):
        here: Path = (*at, "groups", number)
        if roles.index(group.role) < number:
            yield (*here, "role"), f"{group.role!r} is the role of two groups"
        if places.index(str(group.template)) < number:
            other = roles[places.index(str(group.template))]
            yield (*here, "template"), f"is the template of {other!r} already"
        if "" in places and len(places) > 1 and not str(group.template):
            yield (*here, "template"), "a Pod is its own template: it has one group and no other"
        if group.role == WORKER and group.takes_nodes not in {True, DEVICES}:
            yield (
                (*here, "takesNodes"),
                f"{WORKER!r} is the role of what takes nodes: say true or devices, or rename it",
            )
