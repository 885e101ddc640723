"""Checks rows against each other: finds contradictions between rows, and rows that are never used."""

import re
from collections import Counter
from collections.abc import Mapping
from itertools import chain
from math import inf
from typing import Any

from common.quantities import thousandths
from contract import keys
from contract.placement import Placer
from webhook.objects.templates import is_glob
from webhook.objects.tree import Path, get_map
from webhook.rows.families import Family, Unit
from webhook.rows.placeholders import OF_ANNOTATIONS, OF_JOB, placeholders_in
from webhook.rows.shapes import Shape
from webhook.rows.table import Rule, Table
from webhook.rows.workloads import BY_DEVICES, LEAST, MIN, WORKER, Workload
from webhook.rules import messages
from webhook.rules.draft import NAMED_SECTIONS
from webhook.rules.lint_policies import guarantee_problems, policy_problems
from webhook.rules.lint_rules import rule_problems, supported_configs
from webhook.rules.problems import PathMessages

PLACEHOLDERS_OF_SHAPES = frozenset(OF_JOB).difference(
    ("job.name", "job.peers", "job.groupLabels", "job.place", "job.clusterLabels", "job.contradiction"),
    OF_ANNOTATIONS,
)
"""The placeholders that messages of shapes can contain: every job with a shape has values for them."""

MOST_SIZES = 5
"""Maximum number of job sizes that a note names."""


def problems_of(table: Table) -> PathMessages:
    """Yields the problems of a table that still has the placeholders of its `values`.

    If workloads have problems, shapes and rules are not checked.
    """
    yield from _check_duplicates(table)
    yield from _check_families(table)
    workload_problems = list(_check_workloads(table))
    yield from workload_problems
    if not workload_problems:  # the placeholders of rules depend on the workloads
        yield from _check_shapes(table)
        yield from rule_problems(table)
    yield from policy_problems(table)
    yield from guarantee_problems(table)


def notes_on(table: Table) -> PathMessages:
    """Yields notes on valid rows that probably are mistakes, such as a family without a shape for a job."""
    for index, rule in enumerate(table.rules):
        yield from _rule_notes(rule, ("rules", index))
    for index, family in enumerate(table.families):
        if family in table.enabled_families:
            yield from _sharing_notes(family, ("families", index))
            yield from _family_notes(family, ("families", index))
    for index, workload in enumerate(table.workloads):
        for number, group in enumerate(workload.groups):
            if group.takes_nodes and not group.number:
                yield ("workloads", index, "groups", number), messages.NO_NUMBER


def _rule_notes(rule: Rule, path: Path) -> PathMessages:
    on_failure = get_map(rule.add, ("metadata", "annotations")).get(keys.ON_NODE_FAILURE)
    if on_failure in {"move", "restart"} and not (rule.unless or rule.match.fields):
        yield (*path, "add"), messages.MAY_FAIL
    if rule.placer is Placer.WHOLE_JOB and not (rule.match.numbered and rule.match.numbered.value):
        yield (*path, "placer"), messages.NOT_ALL_NUMBERED
    if rule.match.requests and "*" in "".join(rule.match.requests.value):
        yield (*path, "match", "requests"), messages.NO_GLOBS
    if rule.deny and "job.name" in rule.placeholders:
        yield (*path, "deny"), messages.NO_NAME_YET
    if rule.match.workers and "job.nodes" not in rule.placeholders:
        for key in ("warn", "deny"):
            if "job.workers" in placeholders_in(getattr(rule, key)):
                yield (*path, key), messages.COUNTS_LAUNCHER


def _sharing_notes(family: Family, path: Path) -> PathMessages:
    """Yields notes on shapes that share units, or pin workers to nodes, unlike other shapes of the family."""
    sharing_shapes = [shape for shape in family.shapes if family.unit_of(shape) and shape.apart != "required"]
    is_apart = any(shape.apart == "required" for shape in family.shapes)
    for index, shape in enumerate(family.shapes if sharing_shapes else ()):
        if shape.deny:
            continue
        if is_apart and shape in sharing_shapes:
            yield (*path, "shapes", index), messages.shares_units(shape.name, family.name)
        elif shape.node_config.maximum == 1 and not is_apart:
            message = messages.pins_workers(sharing_shapes[0].name, sharing_shapes[0].node_config.maximum)
            yield (*path, "shapes", index, "nodeConfig"), message


def _family_notes(family: Family, path: Path) -> PathMessages:
    largest = int(max(shape.node_config.maximum for shape in family.shapes))
    shapes, numbers = family.shapes, range(1, 2 * largest + 2)
    sizes = [size for size in numbers if not any(shape.find_config(size) for shape in shapes)]
    if sizes:
        text = ", ".join(map(str, sizes[:MOST_SIZES])) + (" and more" if len(sizes) > MOST_SIZES else "")
        yield (*path, "shapes"), messages.no_shape(text)
    for name, amount in family.whole_node.items():
        if name.endswith("/gpu") and amount.at_least and amount.at_most == inf:
            yield (*path, "wholeNode", name), messages.no_maximum(amount.at_least)


def _check_duplicates(table: Table) -> PathMessages:
    sections: dict[Path, Any] = {(section,): getattr(table, section) for section in NAMED_SECTIONS}
    sections |= {("families", at, "shapes"): row.shapes for at, row in enumerate(table.families)}
    for path, rows in sections.items():
        counts = Counter(row.name for row in rows)
        for index, row in enumerate(rows):
            if counts[row.name] > 1:
                yield (*path, index, "name"), messages.same_name(row.name, counts[row.name])
    names_by_content: dict[str, str] = {}
    for index, rule in enumerate(table.rules):
        content = repr((rule.match, rule.add, rule.warn, rule.deny, rule.unplaced, rule.unless, rule.placer))
        name = names_by_content.setdefault(content, rule.name)
        if name != rule.name:
            yield ("rules", index), messages.same_rule(name)


def _check_families(table: Table) -> PathMessages:
    for index, family in enumerate(table.families):
        path: Path = ("families", index)
        yield from _check_claims(family, path)
        if is_glob(family.instance_types[0]):
            yield (*path, "instanceTypes"), messages.FIRST_TYPE_IS_GLOB
        for number, unit in enumerate(family.units):
            if unit.capacity > unit.nodes:
                yield (*path, "units", number, "usable"), messages.too_many_usable(unit.nodes)
            if not unit.label and family in table.enabled_families:
                yield (*path, "units", number, "label"), messages.NO_UNIT_LABEL


def _check_claims(family: Family, path: Path) -> PathMessages:
    """Yields problems of claims that match every name, or whose node config no job can have."""
    configs = sorted({str(shape.node_config) for shape in family.shapes if shape.node_config})
    for name, claim in family.claims.items():
        if not name.strip("*"):
            yield (*path, "claims", name), messages.every_claim(name)
        config = claim.node_config
        if config and not any(config in shape.node_config for shape in family.shapes):
            yield (*path, "claims", name, "nodeConfig"), messages.no_config(config, ", ".join(configs))


def _check_workloads(table: Table) -> PathMessages:
    names_by_kind: dict[str, str] = {}
    for index, workload in enumerate(table.workloads):
        path: Path = ("workloads", index)
        for kind in () if workload.when else workload.kinds:
            if kind in names_by_kind:
                yield (*path, "kinds"), messages.hidden_workload(names_by_kind[kind], kind)
            names_by_kind.setdefault(kind, workload.name)
        yield from _check_groups(workload, path)
        yield from _check_defaults(workload, table.values, path)
        for name in workload.when:
            if name not in workload.fields:
                known = messages.join_names(workload.fields) or "none"
                yield (*path, "when", name), messages.no_field(name, known)


def _check_defaults(workload: Workload, values: Mapping[str, str], path: Path) -> PathMessages:
    """Yields problems of defaults that have unknown placeholders, or that their function cannot read."""
    texts = {f"value.{name}": text for name, text in values.items()}
    for name, row in workload.fields.items():
        default_path: Path = (*path, "fields", name, "default")
        default = row.default
        for placeholder in placeholders_in(default):
            if placeholder not in texts:
                yield default_path, messages.unknown_placeholder(placeholder, texts)
            default = texts.get(placeholder, default)
        if row.function == LEAST and not re.fullmatch("[0-9]{1,18}", default):
            yield default_path, messages.not_a_number(default)
        if row.function == MIN and not thousandths(default):
            yield default_path, messages.not_a_quantity(default)


def _check_groups(workload: Workload, path: Path) -> PathMessages:
    roles = [group.role for group in workload.groups]
    templates = [str(group.template) for group in workload.groups]
    for index, group in enumerate(workload.groups):
        group_path: Path = (*path, "groups", index)
        if roles.index(group.role) < index:
            yield (*group_path, "role"), messages.same_role(group.role)
        if templates.index(str(group.template)) < index:
            other_role = roles[templates.index(str(group.template))]
            yield (*group_path, "template"), messages.same_template(other_role)
        if "" in templates and len(templates) > 1 and not str(group.template):
            yield (*group_path, "template"), messages.SEVERAL_GROUPS
        if group.role == WORKER and group.takes_nodes not in {True, BY_DEVICES}:
            yield (*group_path, "takesNodes"), messages.takes_nodes(WORKER)
        number = group.number
        summands = (number, *number.plus) if number else ()
        if any(len(summand.sources) != 1 for summand in summands):
            yield (*group_path, "number"), messages.NOT_ONE_SOURCE
        if number and number.completion_mode and [*placeholders_in(number.completion_mode.default)]:
            yield (*group_path, "number", "completionMode", "default"), messages.NO_PLACEHOLDER
        factors = [*(number.count if number else ()), *chain.from_iterable(row.times for row in summands)]
        for factor in (*group.replicas, *factors):
            if factor.path and factor.path.list_path not in {None, group.template.list_path}:
                yield group_path, messages.selects_all(factor.path)


def _check_shapes(table: Table) -> PathMessages:
    facts = chain.from_iterable(rule.match.shape.value.items() for rule in table.rules if rule.match.shape)
    matched: set[tuple[str, str]] = {(name, value) for name, values in facts for value in values}
    for number, family in enumerate(table.families):
        for index, shape in enumerate(family.shapes):
            path: Path = ("families", number, "shapes", index)
            unit = family.unit_of(shape)
            rows = (row for row in family.shapes[:index] if row.node_config == shape.node_config)
            if earlier := next((row.name for row in rows if row.workers.covers(shape.workers)), None):
                yield (*path, "workers"), messages.hidden_by(earlier)
            if shape.node_config:
                yield from _check_sizes(shape, unit, path)
            elif not shape.deny:
                yield path, messages.missing("nodeConfig")
            if family in table.enabled_families:
                yield from _check_strictness(matched, shape, family, path)
            for key in ("warn", "deny"):
                for placeholder in placeholders_in(getattr(shape, key)):
                    is_known = placeholder in PLACEHOLDERS_OF_SHAPES
                    if not is_known or (placeholder == "shape.topologyKey" and not unit):
                        reason = messages.unknown_placeholder(placeholder, PLACEHOLDERS_OF_SHAPES)
                        yield (*path, key), reason


def _check_sizes(shape: Shape, unit: Unit | None, path: Path) -> PathMessages:
    workers, config = shape.workers, shape.node_config
    if config.minimum == config.maximum and workers.minimum % config.minimum:
        is_aws, configs = unit and unit.label in keys.NODE_IDS, supported_configs(workers)
        way_out = messages.use_config(configs) if is_aws else messages.range_as_config(workers)
        way_out = way_out if workers.maximum < inf else ""
        yield (*path, "workers"), messages.parts_of_blocks(workers, config, way_out)
    elif shape.together == "required" and config.maximum > 1 and workers.maximum > config.maximum:
        yield (*path, "together"), messages.small_unit(config, workers)


def _check_strictness(pairs: set[tuple[str, str]], shape: Shape, family: Family, path: Path) -> PathMessages:
    """Yields problems of `together` and `apart`; ``pairs`` has the keys and values that rules match."""
    for key, value in (("together", shape.together), ("apart", shape.apart)):
        if value != "none" and not family.unit_of(shape):
            yield (*path, key), _explain_no_unit(shape, family, key)
        elif value != "none" and (key, value) not in pairs:
            yield (*path, key), messages.no_rule_matches(key, value)


def _explain_no_unit(shape: Shape, family: Family, key: str) -> str:
    """Returns why a family has no unit for a shape whose key needs a unit."""
    config = shape.node_config.maximum
    if config == 1:
        return messages.no_unit_of_one(key)
    if unit := next((unit for unit in family.units if unit.nodes >= config), None):
        return messages.few_usable(config, unit.label, unit.capacity, unit.nodes)
    return messages.needs_unit(key, shape.node_config)
