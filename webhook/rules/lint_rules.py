"""Checks of rules across rows: conflicts with other rows of the table, or with Kubernetes."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Final

from pydantic.alias_generators import to_camel

from common.texts import did_you_mean
from contract import keys
from webhook.objects.templates import matches
from webhook.objects.tree import Json, Path, map_at, maps_at, walk
from webhook.rows.conditions import Reach
from webhook.rows.families import Family
from webhook.rows.placeholders import (
    CANDIDATES,
    DEVICES,
    FAULT,
    JOB,
    PATTERN,
    PLACE,
    ROLE,
    ROLE_MAPS,
    SCRIPTS,
    UNITS,
    names,
    quoting,
)
from webhook.rows.policies import Mode
from webhook.rows.shapes import NODE_CONFIG, Count, Shape
from webhook.rows.table import Rule, Table
from webhook.rows.workloads import ANY, Workload
from webhook.rules.problems import Found

NODE_CONFIGS: Final = ("1", "2", "4")
"""Those that the init script supports."""


def rule_problems(table: Table) -> Found:
    """Yields every problem of a table's rules."""
    rows = Rows(table)
    for index, rule in enumerate(table.rules):
        at: Path = ("rules", index)
        yield from _rule(rows, rule, at)
        yield from _quoted(rows, rule, at)
        yield from _lists(rows, rule, at)
        yield from _fragment(rows, rule, at)
    yield from ((path, message) for path, message, of_aws in node_configs(table) if of_aws)


def node_configs(table: Table) -> Iterator[tuple[Path, str, bool]]:
    """Yields shapes that the init script does not support, if a rule runs it for them.

    Only those with units of AWS, for which the last value is true, keep a table from loading: converted
    tables of 0.2.0 may have others.
    """
    running = [rule for rule in table.rules if rule.mode is not Mode.OFF and NODE_CONFIG in str(rule.add)]
    for number, family in enumerate(table.families):
        for index, shape in enumerate(family.shapes if family in table.on else ()):
            run = next((rule.name for rule in running if rule.match.allows(family, shape)), None)
            unit = family.unit(shape)
            if run and shape.node_config and str(shape.node_config) not in NODE_CONFIGS:
                at: Path = ("families", number, "shapes", index, "nodeConfig")
                unsupported = "is not a node config of the init script, which rule"
                way_out = f"use {supported(shape.workers)}, or another family"
                message = f"{shape.node_config} {unsupported} {run} runs: {way_out}"
                yield at, message, unit is None or unit.label in keys.NODE_IDS


def supported(workers: Count) -> str:
    """Returns the node configs of the init script with which the workers form whole blocks."""
    fitting = [config for config in NODE_CONFIGS if workers.least % int(config) == 0]
    return " or ".join(", ".join(fitting).rsplit(", ", 1))


class Rows:
    """Indexes of rows, so that checking a table takes time in proportion to its length.

    Attributes:
        table: The rows.
        named: Each rule by name.
        places: The position of each rule by name.
        instead: Names of rules that take the place of others.
    """

    def __init__(self, table: Table) -> None:
        self.table = table
        self.named = {rule.name: rule for rule in table.rules}
        self.places = {row.name: index for index, row in enumerate(table.rules)}
        self.instead = frozenset(name for row in table.rules for name in row.unless)

    def workloads(self, rule: Rule) -> list[Workload]:
        """Returns the workloads that a rule matches."""
        return [row for row in self.table.workloads if rule.match.is_for(row)]

    def shapes(self, rule: Rule) -> list[tuple[Family, Shape]]:
        """Returns the shapes that a rule's match permits."""
        every = ((family, shape) for family in self.table.on for shape in family.shapes)
        return [(family, shape) for family, shape in every if rule.match.allows(family, shape)]


def listed(known: Iterable[str]) -> str:
    """Returns names for a message."""
    return ", ".join(sorted(known))


def _effects(rows: Rows, rule: Rule, at: Path) -> Found:
    effects = (rule.add, rule.warn, rule.deny, rule.unplaced, rule.placer)
    if not any(effects) and rule.name not in rows.instead:
        yield at, "does nothing: give it add, warn, deny, unplaced or placer"
    if rule.placer and rule.match.placer:
        yield (*at, "match", "placer"), "has no value yet when a rule with `placer` is evaluated"
    if rule.placer and rule.unless:
        yield (
            (*at, "unless"),
            "has no effect in a rule with `placer`: of these rules, the first one that matches decides",
        )


def _rule(rows: Rows, rule: Rule, at: Path) -> Found:
    yield from _effects(rows, rule, at)
    known = {workload.name for workload in rows.table.workloads}
    strange = [
        name
        for name in rule.match.workload
        if not any(matches(workload, (name.lstrip("!"),)) for workload in known)
    ]
    for name in strange:
        yield (*at, "match", "workload"), f"unknown workload {name!r}; the known ones are {listed(known)}"
    if not strange and not rows.workloads(rule):
        of_any_role = replace(rule.match, role=ANY)
        roles = [role for row in rows.table.workloads if of_any_role.is_for(row) for role in row.roles]
        lacking = f"unreachable: no workload it matches has a group {rule.match.role!r}"
        yield (*at, "match", "role"), f"{lacking}{did_you_mean(rule.match.role, roles)}"
    shapeless = not any(row.takes_nodes for row in rows.workloads(rule))
    shapes = [shape for family in rows.table.families for shape in family.shapes]
    among = Reach(rows.workloads(rule), rows.table.families, shapes, rows.table.device_counts)
    for name, condition in rule.match.given.items():
        for path, why in condition.unreachable(among):
            yield (*at, "match", to_camel(name), *path), why
    if rule.match.shape and rows.shapes(rule) and not (rule.match.candidate or shapeless):
        yield (*at, "match", "candidate"), "only candidates have a shape: take candidate out"
    if rule.match.candidate is False and rows.workloads(rule) and shapeless:
        kinds = listed(row.name for row in rows.workloads(rule))
        yield (
            (*at, "match", "candidate"),
            f"unreachable: {kinds} takes no nodes, so each object is a candidate: write any",
        )
    yield from _earlier(rows, rule, at)


def _earlier(rows: Rows, rule: Rule, at: Path) -> Found:
    place = rows.places
    for key in ("needs", "unless"):
        for name in getattr(rule, key):
            if place.get(name, len(place)) >= place[rule.name]:
                yield (*at, key), f"must name rules that come before this one, not {name!r}"


def _quoted(rows: Rows, rule: Rule, at: Path) -> Found:
    values = rows.table.values
    workloads = rows.workloads(rule)
    of_job = set(JOB) if all(row.takes_nodes for row in workloads) else {"job.namespace"}
    allowed = {
        *(DEVICES if rule.match.unsupported_count else ()),
        *(FAULT if rule.match.fault else ()),
        *(PLACE if any(str(group.template) == "" for row in workloads for group in row.groups) else ()),
        *(of_job if rule.match.candidate else of_job - CANDIDATES),
        *SCRIPTS,
        *(f"value.{name}" for name in values),
    }
    if workloads:
        offered = (
            {f"{role}.{name}" for role in row.roles for name in (*ROLE, *ROLE_MAPS)}
            | {f"field.{name}" for name in row.fields}
            for row in workloads
        )
        # For kinds that lack a value of a placeholder the rule is skipped, with a reason.
        allowed |= set.union(*offered)
    mount, template = rule.match.mount_free, rule.match.template
    match = {"mountFree": mount.mount if mount else {}, "template": template.texts if template else []}
    messages = {"warn": rule.warn, "deny": rule.deny, "unplaced": rule.unplaced}
    parts = {"match": match, "add": rule.add, **messages}
    in_template = {*UNITS, *(name for name in allowed if name.startswith(("shape.", "family.", "value.")))}
    for path, text in ((path, text) for path, text in walk(parts, at) if isinstance(text, str)):
        inner = [name for quoted in names(text) for name in (quoted, *names(values.get(quoted[6:], "")))]
        for quoted in inner:
            known = in_template if path[2:4] == ("match", "template") else allowed
            if quoted not in known:
                add = quoted.startswith("value.") and f"; add {quoted[6:]} to values"
                near = did_you_mean(quoted, sorted(known)) or add or f"; the known ones are {listed(known)}"
                yield path, f"unknown placeholder $({quoted}){near}"
            elif quoted == "shape.topologyKey":
                # A shape that itself lacks a key is reported once, there.
                bare = [
                    row.name
                    for family, row in rows.shapes(rule)
                    if not family.unit(row) and row.together == row.apart == "none"
                ]
                if bare:
                    yield path, f"shape {bare[0]} has no topologyKey: match `shape` more narrowly"


def _lists(rows: Rows, rule: Rule, at: Path) -> Found:
    """Yields values of `match.template` in which a list is not the whole text."""
    known = {f"value.{name}": text for name, text in rows.table.values.items()}
    for written in rule.match.template.texts if rule.match.template else ():
        text = quoting(written, known)
        quoted = next(filter(UNITS.get, names(text)), "")
        if quoted and not PATTERN.fullmatch(text.removeprefix("!")):
            why = f"$({quoted}) is a list: it must be the whole value, or all of it after !"
            yield (*at, "match", "template"), f"{why}, not a part of {written!r}"


_NEGATIVE = (
    "{} here makes kube-scheduler 1.36 match the job's own namespace too; use an empty namespaceSelector "
    "and tell jobs apart by a label"
)

_OWN_LABELS = {
    keys.JOB: "it needs job-label, or a job repels itself",
    keys.BLOCK: "it must set the label; otherwise a Pod is not in its own block",
}
"""By the label of the webhook that a rule selects and does not set: what the rule lacks."""


def _label(rule: Rule, key: str) -> tuple[str, ...] | None:
    """Returns the values of a label that a rule matches; None if it matches any."""
    return rule.match.labels.value.get(key) if rule.match.labels else None


def _sets_label(rows: Rows, rule: Rule, key: str) -> bool:
    """Returns whether all objects of a rule have a label of the webhook, from before or from rules."""
    if "" not in (_label(rule, key) or ("",)):
        return True
    needed = [rows.named[name] for name in rule.needs if name in rows.named]
    return key in rule.labels or (bool(needed) and all(key in row.labels for row in needed))


def _is_without(rows: Rows, rule: Rule, key: str) -> bool:
    """Returns whether the rule is only for Pods without a label of ours."""
    pods = all(not str(group.template) for row in rows.workloads(rule) for group in row.groups)
    return pods and _label(rule, key) == ("",)


def _fragment(rows: Rows, rule: Rule, at: Path) -> Found:
    for path, node in walk(rule.add, (*at, "add")):
        if isinstance(node, dict):
            yield from _map_problems(node, path)
            for key, why in _OWN_LABELS.items():
                if _selects(node, key) and not (_sets_label(rows, rule, key) or _is_without(rows, rule, key)):
                    yield path, f"selects by {key}: {why}"
    if rule.labels.get(keys.JOB, "$(job.id)") != "$(job.id)":
        yield (*at, "add", "metadata", "labels", keys.JOB), "the value of this label must be $(job.id)"


def _map_problems(node: Mapping[str, Json], path: Path) -> Found:
    if unfit := _operator_problem(node, path) or _several(node, path):
        yield path, unfit
    for key in node:
        if PATTERN.search(key):
            yield (*path, key), "a key cannot be a placeholder"
    if keys.ADDED in node:
        yield (*path, keys.ADDED), "this annotation is the webhook's own record"
    for item in maps_at(node, ("namespaceSelector", "matchExpressions")):
        if item.get("operator") in {"NotIn", "DoesNotExist"}:
            yield (*path, "namespaceSelector"), _NEGATIVE.format(item["operator"])
    terms = node.get("nodeSelectorTerms")
    if terms is not None and len(terms) != 1:
        yield (*path, "nodeSelectorTerms"), "terms are alternatives, so a rule can require only one"


def _operator_problem(node: Mapping[str, Json], path: Path) -> str | None:
    """Returns what the API server refuses together with an operator."""
    operator, values = node.get("operator") or "Equal", node.get("values")
    if "tolerations" in path[-2:-1]:
        if "tolerationSeconds" in node and node.get("effect") != "NoExecute":
            return "tolerationSeconds needs the effect NoExecute: add that, or remove tolerationSeconds"
        if operator == "Exists" and node.get("value"):
            return "operator Exists takes no value: take it out, or use Equal"
        alone = "a toleration without a key tolerates every taint: its operator must be Exists"
        return None if node.get("key") or operator == "Exists" else alone
    if operator in {"In", "NotIn", "Gt", "Lt"} and not values:
        return f"operator {operator} needs values"
    takes_none = operator in {"Exists", "DoesNotExist"} and values
    return f"operator {operator} takes no values: take them out, or use In or NotIn" if takes_none else None


def _several(node: Mapping[str, Json], path: Path) -> str | None:
    """Returns what the API server refuses next to another one of its kind."""
    if path[-2:-1] == ("env",) and node.get("value") and "valueFrom" in node:
        return "a variable has value or valueFrom: take one of them out"
    sources = (
        node if path[-1] == "valueFrom" else [key for key in node if path[-2] == "volumes" and key != "name"]
    )
    return f"can have one source only, not {listed(sources)}: keep one" if len(sources) > 1 else None


def _selects(node: Mapping[str, Json], key: str) -> bool:
    expressions = maps_at(node, ("labelSelector", "matchExpressions"))
    return key in map_at(node, ("labelSelector", "matchLabels")) or any(
        item.get("key") == key for item in expressions
    )
