"""What the schema cannot see: rows that contradict each other, or Kubernetes, or can never fire."""

from collections import Counter
from collections.abc import Iterator, Mapping

from contract.place import Placer
from webhook.documents import Path
from webhook.rows.placeholders import CANDIDATES, DEVICES, JOB, PLACE, ROLE, ROLE_MAPS, SCRIPTS, names
from webhook.rows.table import Mode, Rule, Table
from webhook.rules.draft import ROWS
from webhook.rules.lint_fragments import fragment_problems, texts
from webhook.rules.lint_shapes import shape_problems
from webhook.rules.lint_workloads import workload_problems
from webhook.rules.rows import Rows, listed

Found = Iterator[tuple[Path, str]]


def problems_of(table: Table, values: Mapping[str, str]) -> Found:
    """Every problem of a table whose fragments still quote the table's own values."""
    rows = Rows(table)
    yield from _duplicates(table)
    broken = list(workload_problems(table, values))
    yield from broken
    if broken:
        return  # what rules may quote follows from the workloads
    yield from _values(values)
    yield from _counts(table)
    yield from shape_problems(rows)
    for index, rule in enumerate(table.rules):
        at: Path = ("rules", index)
        yield from _rule(rows, rule, values, at)
        yield from _quoted(rows, rule, values, at)
        yield from fragment_problems(rows, rule, at)


def _duplicates(table: Table) -> Found:
    for section in ROWS:
        counts = Counter(row.name for row in getattr(table, section))
        for index, row in enumerate(getattr(table, section)):
            if counts[row.name] > 1:
                yield (section, index, "name"), f"{row.name!r} is the name of {counts[row.name]} rows"
    seen: dict[str, str] = {}
    for index, rule in enumerate(table.rules):
        content = repr((rule.match, rule.add, rule.warn, rule.deny, rule.replaces, rule.placer))
        if seen.get(content, rule.name) != rule.name:
            yield ("rules", index), f"says the same as rule {seen[content]!r}; remove one"
        seen.setdefault(content, rule.name)


def _values(values: Mapping[str, str]) -> Found:
    for name, text in values.items():
        for quoted in names(text):
            if quoted.startswith("value."):
                yield ("values", name), f"a value cannot quote another value, $({quoted})"


def _counts(table: Table) -> Found:
    for name, counts in table.device_counts.items():
        if 1 not in counts:
            yield ("deviceCounts", name), "one device is valid on every instance type: add 1"


def _rule(rows: Rows, rule: Rule, values: Mapping[str, str], at: Path) -> Found:
    if not (rule.add or rule.warn or rule.deny or rule.replaces or rule.placer):
        yield at, "does nothing: give it add, warn, deny, placer or replaces"
    yield from _placers(rule, (*at, "match", "placer"))
    known = rows.workload_names
    for name in rule.match.workload:
        if name not in known:
            yield (*at, "match", "workload"), f"unknown workload {name!r}; known are {listed(known)}"
    if known.issuperset(rule.match.workload) and not rows.workloads(rule):
        yield (*at, "match", "role"), f"unreachable: no workload it matches has a group {rule.match.role!r}"
    shapeless = not any(row.takes_nodes for row in rows.workloads(rule))
    if not rows.shapes(rule) or (rule.match.shape and shapeless):
        yield (*at, "match", "shape"), "unreachable: no shape of the table is like that"
    elif rule.match.shape and not rule.match.candidate:
        yield (*at, "match", "candidate"), "only candidates have a shape: take candidate out"
    if rule.match.candidate is False and rows.workloads(rule) and shapeless:
        kinds = listed(row.name for row in rows.workloads(rule))
        yield (
            (*at, "match", "candidate"),
            f"unreachable: {kinds} takes no nodes, so each is a candidate: say any",
        )
    if rule.match.unsupported_count and not rows.table.device_counts:
        yield (*at, "match", "unsupportedCount"), "unreachable: the table has no deviceCounts"
    yield from _fields(rows, rule, at)
    yield from _needs(rows, rule, at)
    yield from _empty_values(rows, rule, values)
    yield from _replaces(rows, rule, (*at, "replaces"))


def _placers(rule: Rule, path: Path) -> Found:
    if rule.placer and rule.match.placer:
        yield path, "is not known yet where a rule with `placer` is looked at"
    for name in rule.match.placer:
        if name not in {*Placer}:
            yield path, f"unknown placer {name!r}; known are {listed(Placer)}"


def _needs(rows: Rows, rule: Rule, at: Path) -> Found:
    place = rows.places
    for name in rule.needs:
        if place.get(name, len(place)) >= place[rule.name]:
            yield (*at, "needs"), f"must name rules that come before this one, not {name!r}"


def _empty_values(rows: Rows, rule: Rule, values: Mapping[str, str]) -> Found:
    """A rule that would be left out for want of a value although the rules that replace it are off.

    One that is replaced by none just waits for its value.
    """
    others = rows.replacing.get(rule.name, [])
    if rule.mode is Mode.OFF or not others or any(row.mode is Mode.ENFORCE for row in others):
        return
    why = "".join(f" where {row.name} is {row.mode}" for row in others)
    for name in dict.fromkeys(names(rule.add)):
        if name.startswith("value.") and values.get(name[6:]) == "":
            yield ("values", name[6:]), f"must be given, as rule {rule.name} quotes it{why}"


def _fields(rows: Rows, rule: Rule, at: Path) -> Found:
    workloads = rows.workloads(rule)
    for name in rule.match.fields:
        if workloads and not any(name in workload.fields for workload in workloads):
            shown = listed(workload.name for workload in workloads)
            yield (*at, "match", "fields", name), f"no workload it matches has a field {name!r}: {shown}"


def _replaces(rows: Rows, rule: Rule, path: Path) -> Found:
    for name in rule.replaces:
        other = next((row for row in rows.named.get(name, ()) if row is not rule), None)
        if other is None:
            yield path, f"must be the name of another rule, not {name!r}"
        elif other.match.role != rule.match.role:
            yield path, f"{other.name} speaks about another role"
        elif back := set(other.replaces).difference(rule.replaces):
            # Where this one fires the other does not, and what that one replaces would be back.
            yield path, f"{other.name} itself replaces {listed(back)}: replace that as well"


def _quoted(rows: Rows, rule: Rule, values: Mapping[str, str], at: Path) -> Found:
    workloads = rows.workloads(rule)
    of_job = set(JOB) if all(row.takes_nodes for row in workloads) else {"job.namespace"}
    allowed = {
        *(DEVICES if rule.match.unsupported_count else ()),
        *(PLACE if any(str(group.template) == "" for row in workloads for group in row.groups) else ()),
        *(of_job if rule.match.candidate else of_job - CANDIDATES),
        *SCRIPTS,
        *(f"value.{name}" for name in values),
    }
    if workloads:
        offered = (
            {f"{role}.{name}" for role in row.roles() for name in (*ROLE, *ROLE_MAPS)}
            | {f"field.{name}" for name in row.fields}
            for row in workloads
        )
        # Of kinds that lack what a rule quotes it is skipped, and says so.
        allowed |= set.union(*offered)
    match = {"mountTaken": rule.match.mount_taken}
    for path, text in texts({"match": match, "add": rule.add, "warn": rule.warn, "deny": rule.deny}, at):
        inner = [name for quoted in names(text) for name in (quoted, *names(values.get(quoted[6:], "")))]
        for quoted in inner:
            if quoted not in allowed:
                yield path, f"unknown placeholder $({quoted}); known here are {listed(allowed)}"
            elif quoted == "job.name" and rule.match.named is not True:
                yield path, "$(job.name) is empty for generateName jobs: match `named: true` as well"
            elif quoted == "shape.topologyKey":
                # A shape that is itself wrong for want of a key is told there, and once.
                bare = [
                    row.name
                    for row in rows.shapes(rule)
                    if not row.topology_key and row.together == row.apart == "none"
                ]
                if bare:
                    yield path, f"shape {bare[0]} has no topologyKey: match `shape` more narrowly"
