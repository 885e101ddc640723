"""What the schema cannot see: rows that contradict each other, or Kubernetes, or can never fire."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping

from webhook.documents import Json, Path
from webhook.engine import keys
from webhook.engine.placeholders import JOB, PATTERN, ROLE, ROLE_MAPS, SCRIPTS, names
from webhook.engine.table import Mode, Rule, Shape, Table
from webhook.rules.lint_workloads import workload_problems
from webhook.rules.rows import Rows

Found = Iterator[tuple[Path, str]]

_NEGATIVE = (
    "{} here makes kube-scheduler 1.36 match the job's own namespace too; use an empty namespaceSelector "
    "and tell jobs apart by a label"
)

COUNTS = range(1, 1025)
"""Worker counts that reachability is tried with; shapes repeat long before the end."""


NAMED = 12
"""Most rows that a message names, so that a long table does not make long messages."""


def problems_of(table: Table, values: Mapping[str, str]) -> Found:
    """Every problem of a table whose fragments still quote the table's own values."""
    rows = Rows(table)
    yield from _duplicates(table)
    broken = list(workload_problems(table))
    yield from broken
    if broken:
        return  # what rules may quote follows from the workloads
    yield from _values(values)
    yield from _shapes(rows)
    for index, rule in enumerate(table.rules):
        at: Path = ("rules", index)
        yield from _rule(rows, rule, values, at)
        yield from _quoted(rows, rule, values, at)
        yield from _fragment(rows, rule, at)


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


def _shapes(rows: Rows) -> Found:
    covered: dict[int, set[int]] = defaultdict(set)
    earlier: dict[int, list[str]] = defaultdict(list)
    for index, shape in enumerate(rows.table.shapes):
        at: Path = ("shapes", index)
        counts = set(_counts(shape))
        if counts <= covered[shape.node_config]:
            names_ = ", ".join(earlier[shape.node_config][:NAMED])
            yield (
                (*at, "workers"),
                f"unreachable: {names_} with the same node config fits every such count and is tried first",
            )
        covered[shape.node_config] |= counts
        earlier[shape.node_config].append(shape.name)
        yield from _sizes(shape, at)
        yield from _strictness(rows, shape, at)
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


def _strictness(rows: Rows, shape: Shape, at: Path) -> Found:
    for strictness in ("together", "apart"):
        if getattr(shape, strictness) != "none" and not shape.topology_key:
            yield (*at, strictness), f"{strictness} needs a topologyKey"
        elif (wanted := getattr(shape, strictness)) != "none" and (strictness, wanted) not in rows.acted_on:
            yield (
                (*at, strictness),
                f"no rule of the table acts on {strictness}: {wanted}; add one that matches it",
            )


def _loose(shape: Shape) -> bool:
    return shape.together == shape.apart == "none"


def _counts(shape: Shape) -> Iterable[int]:
    return (n for n in {*COUNTS, shape.workers.number} if n in shape.workers)


def _rule(rows: Rows, rule: Rule, values: Mapping[str, str], at: Path) -> Found:
    if not (rule.add or rule.warn or rule.deny):
        yield at, "does nothing: give it add, warn or deny"
    known = rows.workload_names
    for name in rule.match.workloads:
        if name not in known:
            yield (*at, "match", "workload"), f"unknown workload {name!r}; known are {_list(known)}"
    if known.issuperset(rule.match.workloads) and not rows.workloads(rule):
        yield (*at, "match", "role"), f"unreachable: no workload it matches has a group {rule.match.role!r}"
    shapeless = not any(row.takes_nodes for row in rows.workloads(rule))
    if not rows.shapes(rule) or (rule.match.shape and shapeless):
        yield (*at, "match", "shape"), "unreachable: no shape of the table is like that"
    yield from _fields(rows, rule, at)
    yield from _needs(rows, rule, at)
    yield from _empty_values(rows, rule, values)
    if rule.replaces:
        yield from _replaces(rows, rule, (*at, "replaces"))


def _needs(rows: Rows, rule: Rule, at: Path) -> Found:
    place = rows.places
    for name in rule.needs:
        if place.get(name, len(place)) >= place[rule.name]:
            yield (*at, "needs"), f"must name rules that come before this one, not {name!r}"


def _empty_values(rows: Rows, rule: Rule, values: Mapping[str, str]) -> Found:
    """A rule that would be left out for want of a value although no rule replaces it."""
    others = rows.replacing.get(rule.name, [])
    if rule.mode is Mode.OFF or any(row.mode is Mode.ENFORCE for row in others):
        return
    why = "".join(f" where {row.name} is {row.mode}" for row in others)
    quoted = dict.fromkeys(name for _, text in _texts(rule.add, ()) for name in names(text))
    for name in quoted:
        if name.startswith("value.") and values.get(name[6:]) == "":
            yield ("values", name[6:]), f"must be given, as rule {rule.name} quotes it{why}"


def _fields(rows: Rows, rule: Rule, at: Path) -> Found:
    for name in rule.match.fields:
        for workload in rows.workloads(rule):
            if name not in workload.fields:
                yield (*at, "match", "fields", name), f"workload {workload.name} has no field {name!r}"


def _replaces(rows: Rows, rule: Rule, path: Path) -> Found:
    other = next((row for row in rows.named.get(rule.replaces or "", ()) if row is not rule), None)
    if other is None:
        yield path, f"must be the name of another rule, not {rule.replaces!r}"
    elif other.match.role != rule.match.role:
        yield path, f"{other.name} speaks about another role"
    elif other.replaces:
        yield path, f"{other.name} itself replaces {other.replaces}"


def _quoted(rows: Rows, rule: Rule, values: Mapping[str, str], at: Path) -> Found:
    workloads = rows.workloads(rule)
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
                bare = [row.name for row in rows.shapes(rule) if not row.topology_key and _loose(row)]
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


def _labels_the_job(rows: Rows, rule: Rule) -> bool:
    """Whether a job that the rule fires for has the job label: from this rule, or from each that it needs."""
    needed = [row for name in rule.needs for row in rows.named.get(name, ())]
    return keys.JOB in _labels(rule) or (bool(needed) and all(keys.JOB in _labels(row) for row in needed))


def _fragment(rows: Rows, rule: Rule, at: Path) -> Found:
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
        if _selects_job(node) and not _labels_the_job(rows, rule):
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
