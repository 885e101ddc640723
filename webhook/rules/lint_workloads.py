"""What the schema cannot see of workloads: rows that can never open anything, or not alone."""

from collections.abc import Iterator, Mapping

from common.quantities import thousandths
from webhook.documents import Path
from webhook.engine.placeholders import names
from webhook.engine.table import WORKER, Table, Workload
from webhook.rules.rows import listed


def workload_problems(table: Table, values: Mapping[str, str]) -> Iterator[tuple[Path, str]]:
    """Every problem of a table's workloads: path and message; ``values`` are the table's own."""
    taken: dict[str, str] = {}
    for index, workload in enumerate(table.workloads):
        at: Path = ("workloads", index)
        yield from _shared_kinds(taken, workload, at)
        yield from _groups(workload, at)
        yield from _divided(table, workload, at)
        yield from _defaults(workload, values, at)
        for name in workload.when:
            if name not in workload.fields:
                known = listed(workload.fields) or "none"
                yield (*at, "when", name), f"the workload has no field {name!r}; known are {known}"


def _shared_kinds(taken: dict[str, str], workload: Workload, at: Path) -> Iterator[tuple[Path, str]]:
    """The kinds of which an earlier workload leaves nothing; ``taken`` names the first such for each."""
    for kind in workload.kinds:
        if kind in taken:
            first = f"{taken[kind]} opens every {kind}"
            yield (*at, "kinds"), f"unreachable: {first}; give that one a `when`, or put it last"
        elif not workload.when:
            taken[kind] = workload.name


def _divided(table: Table, workload: Workload, at: Path) -> Iterator[tuple[Path, str]]:
    """Fields that are quotients of which nothing sensible can come."""
    configs = sorted({shape.node_config for shape in table.shapes}, reverse=True)
    for name, row in workload.fields.items():
        here: Path = (*at, "fields", name, "dividedBy")
        if row.divided_by is None:
            continue
        divisor = workload.fields.get(row.divided_by)
        if divisor is None:
            yield here, f"the workload has no field {row.divided_by!r}; known are {listed(workload.fields)}"
        elif divisor.divided_by is not None or divisor.parent or row.parent:
            yield (
                here,
                f"{name} and {row.divided_by} must be numbers that the object says, not made of others",
            )
        elif divisor.default not in {"", *map(str, configs)}:
            shown = ", ".join(map(str, configs))
            why = f"blocks of that many fill no unit: the shapes have node config {shown}"
            yield here, f"the default of {row.divided_by} is {divisor.default!r}: {why}"


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
        if row.smaller and (row.parent or row.divided_by):
            yield (*here, "smaller"), f"{name} is a quantity, not made of something else"
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
        if group.role == WORKER and group.takes_nodes is not True:
            yield (*here, "takesNodes"), f"{WORKER!r} is the role of what takes nodes: say true, or rename it"
