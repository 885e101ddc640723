"""Checks rules: finds conflicts with other rows of the table, and fields that Kubernetes refuses."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final

from pydantic.alias_generators import to_camel

from common.texts import did_you_mean
from contract import keys
from webhook.objects.templates import matches
from webhook.objects.tree import Json, Path, get_map, get_maps, walk
from webhook.rows import messages as row_messages
from webhook.rows.conditions import Scope
from webhook.rows.families import Family
from webhook.rows.placeholders import (
    OF_CANDIDATE,
    OF_FAULT,
    OF_JOB,
    OF_POD,
    OF_REQUEST,
    OF_ROLE,
    OF_UNITS,
    PATTERN,
    ROLE_MAPS,
    SCRIPTS,
    placeholders_in,
    substitute,
)
from webhook.rows.policies import Mode
from webhook.rows.shapes import NODE_CONFIG_VARIABLE, NumberSet, Shape
from webhook.rows.table import Rule, Table
from webhook.rows.workloads import ANY, Workload
from webhook.rules import messages
from webhook.rules.problems import PathMessages

NODE_CONFIGS: Final = ("1", "2", "4")
"""The node configs that the init script supports."""


def rule_problems(table: Table) -> PathMessages:
    """Yields every problem of a table's rules, and of shapes whose node config the init script refuses."""
    rows = RowIndex(table)
    for index, rule in enumerate(table.rules):
        path: Path = ("rules", index)
        yield from _check_rule(rows, rule, path)
        yield from _check_placeholders(rows, rule, path)
        yield from _check_lists(rows, rule, path)
        yield from _check_fragment(rows, rule, path)
    yield from ((path, message) for path, message, is_aws in unsupported_configs(table) if is_aws)


def unsupported_configs(table: Table) -> Iterator[tuple[Path, str, bool]]:
    """Yields path and message for shapes whose node config the init script of a rule does not support.

    The third value is true if the shape has units of AWS or no units. Only these shapes prevent loading: a
    converted table of 0.2.0 can have other units with such a node config.
    """
    script_rules = [
        rule for rule in table.rules if rule.mode is not Mode.OFF and NODE_CONFIG_VARIABLE in str(rule.add)
    ]
    for number, family in enumerate(table.families):
        for index, shape in enumerate(family.shapes if family in table.enabled_families else ()):
            name = next((rule.name for rule in script_rules if rule.match.allows(family, shape)), None)
            unit, config = family.unit_of(shape), shape.node_config
            if name and config and str(config) not in NODE_CONFIGS:
                path: Path = ("families", number, "shapes", index, "nodeConfig")
                message = messages.unsupported_config(name, config, supported_configs(shape.workers))
                yield path, message, unit is None or unit.label in keys.NODE_IDS


def supported_configs(workers: NumberSet) -> str:
    """Returns the node configs of the init script that divide the workers into whole blocks, as words."""
    return messages.join_or(config for config in NODE_CONFIGS if workers.minimum % int(config) == 0)


class RowIndex:
    """Indexes of a table's rules, so that checking a table takes time in proportion to its length.

    Attributes:
        table: The table with the rules.
        rules: Each rule by its name.
        positions: The position of each rule by its name.
        referenced_names: The names of rules that are in `needs` or `unless` of another rule.
    """

    def __init__(self, table: Table) -> None:
        self.table = table
        self.rules = {rule.name: rule for rule in table.rules}
        self.positions = {row.name: index for index, row in enumerate(table.rules)}
        self.referenced_names = frozenset(name for row in table.rules for name in row.needs + row.unless)

    def workloads_of(self, rule: Rule) -> list[Workload]:
        """Returns the workloads that a rule matches."""
        return [row for row in self.table.workloads if rule.match.is_for(row)]

    def shapes_of(self, rule: Rule) -> list[tuple[Family, Shape]]:
        """Returns the shapes that a rule's match permits, with their families that are on."""
        pairs = ((family, shape) for family in self.table.enabled_families for shape in family.shapes)
        return [(family, shape) for family, shape in pairs if rule.match.allows(family, shape)]


def _check_effects(rows: RowIndex, rule: Rule, path: Path) -> PathMessages:
    effects = (rule.add, rule.warn, rule.deny, rule.unplaced, rule.placer)
    if not any(effects) and rule.name not in rows.referenced_names:
        yield path, messages.does_nothing("`add`, `warn`, `deny`, `unplaced` or `placer`")
    if rule.placer and rule.match.placer:
        yield (*path, "match", "placer"), messages.NO_PLACER_YET
    if rule.placer and rule.unless:
        yield (*path, "unless"), messages.UNLESS_OF_PLACER


def _check_rule(rows: RowIndex, rule: Rule, path: Path) -> PathMessages:
    yield from _check_effects(rows, rule, path)
    workload_names, match_path = {workload.name for workload in rows.table.workloads}, (*path, "match")
    unknown_names = [
        name
        for name in rule.match.workload
        if not any(matches(workload, (name.lstrip("!"),)) for workload in workload_names)
    ]
    for name in unknown_names:
        yield (*match_path, "workload"), messages.unknown_workload(name, messages.join_names(workload_names))
    if not unknown_names and not rows.workloads_of(rule):
        match = replace(rule.match, role=ANY)
        roles = [role for row in rows.table.workloads if match.is_for(row) for role in row.roles]
        yield (*match_path, "role"), messages.no_group(rule.match.role, did_you_mean(rule.match.role, roles))
    is_shapeless = not any(row.takes_nodes for row in rows.workloads_of(rule))
    shapes = [shape for family in rows.table.families for shape in family.shapes]
    scope = Scope(rows.workloads_of(rule), rows.table.families, shapes, rows.table.device_counts)
    for name, condition in rule.match.all_conditions.items():
        for inner_path, reason in condition.explain_unreachable(scope):
            yield (*match_path, to_camel(name), *inner_path), reason
    if rule.match.shape and rows.shapes_of(rule) and not (rule.match.candidate or is_shapeless):
        yield (*match_path, "candidate"), messages.NO_CANDIDATE
    if rule.match.candidate is False and rows.workloads_of(rule) and is_shapeless:
        kinds = messages.join_names(row.name for row in rows.workloads_of(rule))
        yield (*match_path, "candidate"), messages.takes_no_nodes(kinds)
    yield from _check_references(rows, rule, path)


def _check_references(rows: RowIndex, rule: Rule, path: Path) -> PathMessages:
    positions = rows.positions
    for key in ("needs", "unless"):
        for name in getattr(rule, key):
            if positions.get(name, len(positions)) >= positions[rule.name]:
                yield (*path, key), messages.not_earlier(name)


def _check_placeholders(rows: RowIndex, rule: Rule, path: Path) -> PathMessages:
    """Yields problems of placeholders in the texts of a rule."""
    values = rows.table.values
    workloads = rows.workloads_of(rule)
    job_names = set(OF_JOB) if all(row.takes_nodes for row in workloads) else {"job.namespace"}
    rule_names = {
        *(OF_REQUEST if rule.match.unsupported_count else ()),
        *(OF_FAULT if rule.match.fault else ()),
        *(OF_POD if any(str(group.template) == "" for row in workloads for group in row.groups) else ()),
        *(job_names if rule.match.candidate else job_names - OF_CANDIDATE),
        *SCRIPTS,
        *(f"value.{name}" for name in values),
    }
    # If only some workloads have a role or field, the rule is skipped, with a reason, for other workloads.
    for row in workloads:
        rule_names |= {f"{role}.{name}" for role in row.roles for name in (*OF_ROLE, *ROLE_MAPS)}
        rule_names |= {f"field.{name}" for name in row.fields}
    mount, template = rule.match.mount_free, rule.match.template
    match = {"mountFree": mount.mount if mount else {}, "template": template.texts if template else []}
    texts = {"warn": rule.warn, "deny": rule.deny, "unplaced": rule.unplaced}
    parts = {"match": match, "add": rule.add, **texts}
    prefixes = ("shape.", "family.", "value.")
    template_names = {*OF_UNITS, *(name for name in rule_names if name.startswith(prefixes))}
    for text_path, text in walk(parts, path):
        outer_names = [*placeholders_in(text)] if isinstance(text, str) else []
        inner_names = [inner for name in outer_names for inner in placeholders_in(values.get(name[6:], ""))]
        for name in (*outer_names, *inner_names):
            known = template_names if text_path[2:4] == ("match", "template") else rule_names
            if name not in known:
                add = messages.add_to_values(name[6:]) if name.startswith("value.") else ""
                hint = did_you_mean(name, sorted(known)) or add
                yield text_path, messages.unknown_placeholder(name, known, hint)
            elif name == "shape.topologyKey":
                # `lint._check_strictness` reports a shape that needs a unit and has none.
                shapes = [
                    row.name
                    for family, row in rows.shapes_of(rule)
                    if not family.unit_of(row) and row.together == row.apart == "none"
                ]
                if shapes:
                    yield text_path, messages.no_topology_key(shapes[0])


def _check_lists(rows: RowIndex, rule: Rule, path: Path) -> PathMessages:
    """Yields problems of `match.template`: other text around a placeholder whose value is a list."""
    values = {f"value.{name}": text for name, text in rows.table.values.items()}
    for template_text in rule.match.template.texts if rule.match.template else ():
        text = substitute(template_text, values)
        name = next(filter(OF_UNITS.get, placeholders_in(text)), "")
        if name and not PATTERN.fullmatch(text.removeprefix("!")):
            yield (*path, "match", "template"), messages.is_list(name, template_text)


def _is_label_known(rows: RowIndex, rule: Rule, key: str) -> bool:
    """Returns whether a rule's objects all have a label of the webhook, or are all Pods without it."""
    matched_values = rule.match.labels.value.get(key) if rule.match.labels else None
    needed_rules = [rows.rules[name] for name in rule.needs if name in rows.rules]
    if key in rule.labels or (needed_rules and all(key in row.labels for row in needed_rules)):
        return True
    if matched_values == ("",):
        return all(not str(group.template) for row in rows.workloads_of(rule) for group in row.groups)
    return matched_values is not None and "" not in matched_values


def _check_fragment(rows: RowIndex, rule: Rule, path: Path) -> PathMessages:
    for node_path, node in walk(rule.add, (*path, "add")):
        if isinstance(node, dict):
            yield from _check_map(node, node_path)
            for key, message in messages.OWN_LABELS.items():
                if _selects(node, key) and not _is_label_known(rows, rule, key):
                    yield node_path, message
    if rule.labels.get(keys.JOB, "$(job.id)") != "$(job.id)":
        yield (*path, "add", "metadata", "labels", keys.JOB), messages.OTHER_JOB_LABEL


def _check_map(node: Mapping[str, Json], path: Path) -> PathMessages:
    if problem := _explain_operator(node, path) or _explain_sources(node, path):
        yield path, problem
    yield from (((*path, key), messages.KEY_IS_PLACEHOLDER) for key in node if PATTERN.search(key))
    if keys.ADDED in node:
        yield (*path, keys.ADDED), messages.RECORD
    for item in get_maps(node, ("namespaceSelector", "matchExpressions")):
        if item.get("operator") in {"NotIn", "DoesNotExist"}:
            yield (*path, "namespaceSelector"), messages.negative_operator(item["operator"])
    terms = node.get("nodeSelectorTerms")
    if terms is not None and len(terms) != 1:
        yield (*path, "nodeSelectorTerms"), messages.SEVERAL_TERMS


def _explain_operator(node: Mapping[str, Json], path: Path) -> str | None:
    """Returns why the API server would refuse an operator with the other fields of its map."""
    operator, values = node.get("operator") or "Equal", node.get("values")
    if "tolerations" in path[-2:-1]:
        if "tolerationSeconds" in node and node.get("effect") != "NoExecute":
            return messages.NEEDS_EFFECT
        if operator == "Exists" and node.get("value"):
            return messages.EXISTS_WITH_VALUE
        return None if node.get("key") or operator == "Exists" else messages.TOLERATES_ALL
    if operator in {"In", "NotIn", "Gt", "Lt"} and not values:
        return row_messages.needs_values(operator)
    is_needless = operator in {"Exists", "DoesNotExist"} and values
    return messages.needless_values(operator) if is_needless else None


def _explain_sources(node: Mapping[str, Json], path: Path) -> str | None:
    """Returns why the API server would refuse several sources of a variable or a volume."""
    if path[-2:-1] == ("env",) and node.get("value") and "valueFrom" in node:
        return messages.VALUE_AND_SOURCE
    is_volume = path[-2] == "volumes"
    sources = [key for key in node if path[-1] == "valueFrom" or (is_volume and key != "name")]
    return messages.several_sources(messages.join_names(sources)) if len(sources) > 1 else None


def _selects(node: Mapping[str, Json], key: str) -> bool:
    labels = get_map(node, ("labelSelector", "matchLabels"))
    expressions = get_maps(node, ("labelSelector", "matchExpressions"))
    return key in labels or any(item.get("key") == key for item in expressions)
