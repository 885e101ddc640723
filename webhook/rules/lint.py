"""What the schema cannot see: rows that contradict each other, or Kubernetes, or can never fire."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from webhook.documents import Json, Path
from webhook.engine import keys
from webhook.engine.placeholders import JOB, PATTERN, ROLE, ROLE_MAPS, SCRIPTS, names
from webhook.engine.table import Mode, Rule, Shape, Table, Workload
from webhook.rules.lint_workloads import workload_problems

Found = Iterator[tuple[Path, str]]

_NEGATIVE = (
    "{} here makes kube-scheduler 1.36 match the job's own namespace too; use an empty namespaceSelector "
    "and tell jobs apart by a label"
)

COUNTS = range(1, 1025)
"""Worker counts that reachability is tried with; shapes repeat long before the end."""


def problems_of(table: Table, values: Mapping[str, str]) -> Found:
    """Every problem of a table whose fragments still quote the table's own values."""
    yield from _duplicates(table)
    broken = list(workload_problems(table))
    yield from broken
    if broken:
        return  # what rules may quote follows from the workloads
    yield from _values(values)
    yield from _shapes(table)
    for index, rule in enumerate(table.rules):
        at: Path = ("rules", index)
        yield from _rule(table, rule, values, at)
        yield from _quoted(table, rule, values, at)
        yield from _fragment(table, rule, at)


def _duplicates(table: Table) -> Found:
    sections = (("workloads", table.workloads), ("shapes", table.shapes), ("rules", table.rules))
    for section, row_names in ((section, [row.name for row in rows]) for section, rows in sections):
        counts = Counter(row_names)
        for index, name in enumerate(row_names):
            if counts[name] > 1:
                yield (section, index, "name"), f"{name!r} is the name of {counts[name]} rows"
    seen: dict[str, str] = {}
    for index, rule in enumerate(table.rules):
        content = repr((rule.match, rule.add, rule.warn, rule.deny))
        if seen.get(content, rule.name) != rule.name:
            yield ("rules", index), f"says the same as rule {seen[content]!r}; remove one"
        seen.setdefault(content, rule.name)


def _values(values: Mapping[str, str]) -> Found:
    for name, text in values.items():
        for quoted in names(text):
            if quoted.startswith("value."):
                yield ("values", name), f"a value cannot quote another value, $({quoted})"


def _shapes(table: Table) -> Found:
    for index, shape in enumerate(table.shapes):
        at: Path = ("shapes", index)
        earlier = [row for row in table.shapes[:index] if row.node_config == shape.node_config]
        if all(any(n in row.workers for row in earlier) for n in _counts(shape)):
            names_ = ", ".join(row.name for row in earlier)
            yield (
                (*at, "workers"),
                f"unreachable: {names_} with the same node config fits every such count and is tried first",
            )
        yield from _sizes(shape, at)
        yield from _strictness(table, shape, at)
        for part in ("warn", "deny"):
            for quoted in names(getattr(shape, part)):
                if quoted not in JOB or (quoted == "shape.topologyKey" and not shape.topology_key):
                    yield (*at, part), f"unknown placeholder $({quoted}); known are {_list(JOB)}"


def _sizes(shape: Shape, at: Path) -> Found:
    if shape.workers.number % shape.node_config:
        yield (
            (*at, "workers"),
            f"{shape.workers} is not made of units of {shape.node_config} (nodeConfig)",
        )
    several = shape.workers.multiple or shape.workers.number > shape.node_config
    # With node config 1 there is no unit: a table may keep such workers together by a topology of its own.
    if shape.together == "required" and shape.node_config > 1 and several:
        yield (
            (*at, "together"),
            f"one unit of {shape.node_config} cannot hold {shape.workers}: use preferred",
        )


def _strictness(table: Table, shape: Shape, at: Path) -> Found:
    for strictness in ("together", "apart"):
        if getattr(shape, strictness) != "none" and not shape.topology_key:
            yield (*at, strictness), f"{strictness} needs a topologyKey"
        elif not _acted_on(table, shape, strictness):
            wanted = getattr(shape, strictness)
            yield (
                (*at, strictness),
                f"no rule of the table acts on {strictness}: {wanted}; add one that matches it",
            )


def _loose(shape: Shape) -> bool:
    return shape.together == shape.apart == "none"


def _acted_on(table: Table, shape: Shape, strictness: str) -> bool:
    """Whether a rule matches on this fact of the shape, or the fact says that nothing is to be done."""
    value = getattr(shape, strictness)
    return value == "none" or any(value in rule.match.shape.get(strictness, ()) for rule in table.rules)


def _counts(shape: Shape) -> Iterable[int]:
    return (n for n in {*COUNTS, shape.workers.number} if n in shape.workers)


def _rule(table: Table, rule: Rule, values: Mapping[str, str], at: Path) -> Found:
    if not (rule.add or rule.warn or rule.deny):
        yield at, "does nothing: give it add, warn or deny"
    known = {workload.name for workload in table.workloads}
    for name in rule.match.workloads:
        if name not in known:
            yield (*at, "match", "workload"), f"unknown workload {name!r}; known are {_list(known)}"
    if known.issuperset(rule.match.workloads) and not _workloads(table, rule):
        yield (*at, "match", "role"), f"unreachable: no workload it matches has a group {rule.match.role!r}"
    shapeless = not any(row.takes_nodes for row in _workloads(table, rule))
    if not matching_shapes(table, rule) or (rule.match.shape and shapeless):
        yield (*at, "match", "shape"), "unreachable: no shape of the table is like that"
    yield from _fields(table, rule, at)
    yield from _needs(table, rule, at)
    yield from _empty_values(table, rule, values)
    if rule.replaces:
        yield from _replaces(table, rule, (*at, "replaces"))


def _needs(table: Table, rule: Rule, at: Path) -> Found:
    # A rule is applied in the place of the one it replaces.
    places = {row.name: index for index, row in enumerate(table.rules)}
    place = {row.name: places.get(row.replaces or row.name, places[row.name]) for row in table.rules}
    for name in rule.needs:
        if place.get(name, len(place)) >= place[rule.name]:
            yield (*at, "needs"), f"must name rules that come before this one, not {name!r}"


def _empty_values(table: Table, rule: Rule, values: Mapping[str, str]) -> Found:
    """A rule that would be left out for want of a value although nothing stands in its place."""
    others = [row for row in table.rules if row.replaces == rule.name]
    if rule.mode is Mode.OFF or any(row.mode is Mode.ENFORCE for row in others):
        return
    why = "".join(f" where {row.name} is {row.mode}" for row in others)
    quoted = dict.fromkeys(name for _, text in _texts(rule.add, ()) for name in names(text))
    for name in quoted:
        if name.startswith("value.") and values.get(name[6:]) == "":
            yield ("values", name[6:]), f"must be given, as rule {rule.name} quotes it{why}"


def _fields(table: Table, rule: Rule, at: Path) -> Found:
    for name in rule.match.fields:
        for workload in _workloads(table, rule):
            if name not in workload.fields:
                yield (*at, "match", "fields", name), f"workload {workload.name} has no field {name!r}"


def _replaces(table: Table, rule: Rule, path: Path) -> Found:
    other = next((row for row in table.rules if row.name == rule.replaces and row is not rule), None)
    if other is None:
        yield path, f"must be the name of another rule, not {rule.replaces!r}"
    elif other.match.role != rule.match.role:
        yield path, f"{other.name} speaks about another role"
    elif other.replaces:
        yield path, f"{other.name} itself replaces {other.replaces}"


def matching_shapes(table: Table, rule: Rule) -> list[Shape]:
    """The shapes that a rule's match allows."""
    wanted = rule.match.shape.items()
    return [shape for shape in table.shapes if all(shape.facts()[key] in allowed for key, allowed in wanted)]


def _workloads(table: Table, rule: Rule) -> list[Workload]:
    named = rule.match.workloads
    return [
        row for row in table.workloads if rule.match.role in row.roles() and (not named or row.name in named)
    ]


def _quoted(table: Table, rule: Rule, values: Mapping[str, str], at: Path) -> Found:
    workloads = _workloads(table, rule)
    of_job = JOB if all(row.takes_nodes for row in workloads) else ("job.namespace",)
    allowed = {*of_job, *SCRIPTS, *(f"value.{name}" for name in values)}
    if workloads:
        shared = (
            {f"{role}.{name}" for role in row.roles() for name in (*ROLE, *ROLE_MAPS)}
            | {f"field.{name}" for name in row.fields}
            for row in workloads
        )
        allowed |= set.intersection(*shared)
    parts: tuple[tuple[Path, Json], ...] = (
        (("match", "mountTaken"), rule.match.mount_taken),
        (("add",), rule.add),
        (("warn",), rule.warn),
        (("deny",), rule.deny),
    )
    for path, text in (found for part, node in parts for found in _texts(node, (*at, *part))):
        inner = [name for quoted in names(text) for name in (quoted, *names(values.get(quoted[6:], "")))]
        for quoted in inner:
            if quoted not in allowed:
                yield path, f"unknown placeholder $({quoted}); known here are {_list(allowed)}"
            elif quoted == "job.name" and rule.match.named is not True:
                yield path, "$(job.name) is empty for generateName jobs: match `named: true` as well"
            elif quoted == "shape.topologyKey":
                # A shape that is itself wrong for want of a key is told there, and once.
                bare = [
                    row.name for row in matching_shapes(table, rule) if not row.topology_key and _loose(row)
                ]
                if bare:
                    yield path, f"shape {bare[0]} has no topologyKey: match `shape` more narrowly"


def _nodes(node: Json, path: Path) -> Iterator[tuple[Path, Json]]:
    """A tree's every node with its path, parents first."""
    yield path, node
    parts: Iterable[tuple[str | int, Json]] = ()
    if isinstance(node, Mapping):
        parts = node.items()
    elif isinstance(node, list):
        parts = enumerate(node)
    for key, value in parts:
        yield from _nodes(value, (*path, key))


def _texts(node: Json, path: Path) -> Iterator[tuple[Path, str]]:
    return ((at, text) for at, text in _nodes(node, path) if isinstance(text, str))


def _maps(node: Json, path: Path) -> Iterator[tuple[Path, Mapping[str, Json]]]:
    return ((at, part) for at, part in _nodes(node, path) if isinstance(part, Mapping))


def _labels(rule: Rule) -> Mapping[str, Json]:
    return (rule.add.get("metadata") or {}).get("labels") or {}


def _labels_the_job(table: Table, rule: Rule) -> bool:
    """Whether a job that the rule fires for has the job label: from this rule, or from each that it needs."""
    by_name = {row.name: row for row in table.rules}
    needed = [by_name[name] for name in rule.needs if name in by_name]
    return keys.JOB in _labels(rule) or (bool(needed) and all(keys.JOB in _labels(row) for row in needed))


def _fragment(table: Table, rule: Rule, at: Path) -> Found:
    for path, node in _maps(rule.add, (*at, "add")):
        for key in node:
            if PATTERN.search(key):
                yield (*path, key), "a key cannot be a placeholder"
        if keys.ADDED in node:
            yield (*path, keys.ADDED), "this annotation is the webhook's own record"
        for item in (node.get("namespaceSelector") or {}).get("matchExpressions") or ():
            if item.get("operator") in {"NotIn", "DoesNotExist"}:
                yield (*path, "namespaceSelector"), _NEGATIVE.format(item["operator"])
        terms = node.get("nodeSelectorTerms")
        if terms is not None and len(terms) != 1:
            yield (*path, "nodeSelectorTerms"), "terms are alternatives, so a rule can require only one"
        if _selects_job(node) and not _labels_the_job(table, rule):
            yield path, f"selects by {keys.JOB}: it needs job-label, or a job repels itself"
    if _labels(rule).get(keys.JOB, "$(job.id)") != "$(job.id)":
        yield (*at, "add", "metadata", "labels", keys.JOB), "the value of this label must be $(job.id)"


def _selects_job(node: Mapping[str, Json]) -> bool:
    selector = node.get("labelSelector")
    if not isinstance(selector, Mapping):
        return False
    expressions = selector.get("matchExpressions") or ()
    return keys.JOB in (selector.get("matchLabels") or {}) or any(
        e.get("key") == keys.JOB for e in expressions
    )


def _list(known: Iterable[str]) -> str:
    return ", ".join(sorted(known))
