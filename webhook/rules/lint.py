"""Checks across rows: contradictions between rows, or with Kubernetes, and rows that can never fire."""

import re
from collections import Counter
from collections.abc import Mapping
from itertools import chain
from math import inf
from typing import Any

from common.quantities import thousandths
from contract import keys
from contract.place import Placer
from webhook.objects.templates import is_glob
from webhook.objects.tree import Path
from webhook.rows.families import Family, Unit
from webhook.rows.placeholders import JOB, MARKS, names
from webhook.rows.shapes import Shape
from webhook.rows.table import Rule, Table
from webhook.rows.workloads import DEVICES, LEAST, MIN, WORKER, Workload
from webhook.rules.draft import ROWS
from webhook.rules.lint_policies import guarantee_problems, policy_problems
from webhook.rules.lint_rules import listed, rule_problems, supported
from webhook.rules.problems import Found

IN_SHAPES = frozenset(JOB) - {"job.name", "job.peers", "job.groupLabels", "job.place", *MARKS}
"""Placeholders in messages of shapes: every job with a shape has them."""

LISTED = 5
"""Numbers of workers that a note names."""


def problems_of(table: Table) -> Found:
    """Yields every problem of a table whose fragments still have the placeholders of its own values."""
    yield from _duplicates(table)
    yield from _families(table)
    broken = list(_workloads(table))
    yield from broken
    if not broken:  # the placeholders of rules depend on the workloads
        yield from _shapes(table)
        yield from rule_problems(table)
    yield from policy_problems(table)
    yield from guarantee_problems(table)


def doubtful(table: Table) -> Found:
    """Yields rows that are valid and probably not meant, such as a family without a shape for some sizes."""
    for index, rule in enumerate(table.rules):
        yield from _doubtful_rule(rule, ("rules", index))
    for index, family in enumerate(table.families):
        if family in table.on:
            yield from _sharing_and_apart(family, ("families", index))
            yield from _doubtful_family(family, ("families", index))
    for index, workload in enumerate(table.workloads):
        for number, group in enumerate(workload.groups):
            if group.takes_nodes and not group.number:
                lost = "nothing keeps blocks of a larger job whole, and whole-job admission does not place it"
                yield ("workloads", index, "groups", number), f"its Pods have no `number`, so {lost}"


def _doubtful_rule(rule: Rule, at: Path) -> Found:
    if rule.placer is Placer.WHOLE_JOB and not (rule.match.numbered and rule.match.numbered.value):
        why = "whole-job admission cannot admit Pods without numbers, and they would wait forever"
        yield (*at, "placer"), f"{why}: add `numbered: true` to match"
    if rule.match.workers and "job.nodes" not in rule.quotes:
        for key in ("warn", "deny"):
            if "job.workers" in names(getattr(rule, key)):
                why = "`workers` counts a launcher that runs ranks, too, and $(job.workers) does not"
                yield (*at, key), f"{why}: quote $(job.nodes) in its place"


def _sharing_and_apart(family: Family, at: Path) -> Found:
    """Yields shapes that share units in a family that does not, or that pin workers in one that does."""
    sharing = [row for row in family.shapes if family.unit(row) and row.apart != "required"]
    apart = any(row.apart == "required" for row in family.shapes)
    for index, shape in enumerate(family.shapes if sharing else ()):
        if shape.deny:
            continue
        if apart and shape in sharing:
            why = f"shape {shape.name} shares its units, and other shapes of {family.name} do not"
            way_out = "write `apart: required`, or other jobs get the rest of a unit"
            yield (*at, "shapes", index), f"{why}: {way_out}"
        elif shape.node_config.most == 1 and not apart:
            why = f"pins workers to nodes, which a job of shape {sharing[0].name} on the same unit may get"
            way_out = f"use a range such as 1 to {sharing[0].node_config.most}"
            yield (*at, "shapes", index, "nodeConfig"), f"{why}; {way_out}"


def _doubtful_family(family: Family, at: Path) -> Found:
    most = int(max(shape.node_config.most for shape in family.shapes))
    sizes = [size for size in range(1, 2 * most + 2) if not any(shape.size(size) for shape in family.shapes)]
    if sizes:
        few = ", ".join(map(str, sizes[:LISTED])) + (" and more" if len(sizes) > LISTED else "")
        own = "a last shape with `workers: multiple of 1` and `deny` gives your own message"
        yield (*at, "shapes"), f"no shape fits these numbers of workers, which are refused: {few}; {own}"
    for name, amount in family.whole_node.items():
        if name.endswith("/gpu") and amount.at_least and amount.at_most == inf:
            exactly = f"write {{atLeast: {amount.at_least}, atMost: {amount.at_least}}}"
            why = f"a job that requests more than {amount.at_least} is in this family, too, and waits forever"
            yield (*at, "wholeNode", name), f"{why}; if other nodes of the cluster have more, {exactly}"


def _duplicates(table: Table) -> Found:
    sections: dict[Path, Any] = {(section,): getattr(table, section) for section in ROWS}
    sections |= {("families", at, "shapes"): row.shapes for at, row in enumerate(table.families)}
    for path, rows in sections.items():
        counts = Counter(row.name for row in rows)
        for index, row in enumerate(rows):
            if counts[row.name] > 1:
                yield (*path, index, "name"), f"{row.name!r} is the name of {counts[row.name]} rows"
    seen: dict[str, str] = {}
    for index, rule in enumerate(table.rules):
        content = repr((rule.match, rule.add, rule.warn, rule.deny, rule.unplaced, rule.unless, rule.placer))
        if seen.get(content, rule.name) != rule.name:
            yield ("rules", index), f"is the same as rule {seen[content]!r}; remove one"
        seen.setdefault(content, rule.name)


def _families(table: Table) -> Found:
    for index, family in enumerate(table.families):
        at: Path = ("families", index)
        yield from _claims(family, at)
        if is_glob(family.instance_types[0]):
            yield (
                (*at, "instanceTypes"),
                "the first is chosen for jobs that name none: it must have no * or ?",
            )
        for number, unit in enumerate(family.units):
            if unit.most > unit.nodes:
                yield (*at, "units", number, "usable"), f"must be at most its {unit.nodes} nodes"
            if not unit.label and family in table.on:
                yield (*at, "units", number, "label"), "is empty: set the node label that your nodes have"


def _claims(family: Family, at: Path) -> Found:
    """Yields claims for every name, or of a node config that no job can have."""
    known = sorted({str(shape.node_config) for shape in family.shapes if shape.node_config})
    for name, claimed in family.claims.items():
        if not name.strip("*"):
            yield (
                (*at, "claims", name),
                f"{name!r} does not name a template: it would match every claim of a job",
            )
        config = claimed.node_config
        if config and not any(config in shape.node_config for shape in family.shapes):
            yield (
                (*at, "claims", name, "nodeConfig"),
                f"no shape has node config {config}; the known ones are {', '.join(known)}",
            )


def _workloads(table: Table) -> Found:
    taken: dict[str, str] = {}
    for index, workload in enumerate(table.workloads):
        at: Path = ("workloads", index)
        yield from _shared_kinds(taken, workload, at)
        yield from _groups(workload, at)
        yield from _defaults(workload, table.values, at)
        for name in workload.when:
            if name not in workload.fields:
                known = listed(workload.fields) or "none"
                yield (*at, "when", name), f"the workload has no field {name!r}; the known ones are {known}"


def _shared_kinds(taken: dict[str, str], workload: Workload, at: Path) -> Found:
    """Yields kinds of two workloads without ``when``; ``taken`` has the first one for each kind."""
    for kind in () if workload.when else workload.kinds:
        if kind in taken:
            first = f"{taken[kind]} already reads every {kind}"
            yield (*at, "kinds"), f"unreachable: {first}; give one of the two a `when`"
        else:
            taken[kind] = workload.name


def _defaults(workload: Workload, values: Mapping[str, str], at: Path) -> Found:
    """Yields defaults with unknown placeholders, and texts that are not quantities where one is needed."""
    known = {f"value.{name}": text for name, text in values.items()}
    for name, row in workload.fields.items():
        path: Path = (*at, "fields", name)
        default = row.default
        for quoted in names(default):
            if quoted not in known:
                why = f"unknown placeholder $({quoted}); the known ones are {listed(known)}"
                yield (*path, "default"), why
            default = known.get(quoted, default)
        if row.function == LEAST and not re.fullmatch("[0-9]{1,18}", default):
            yield (*path, "default"), f"must be a number, such as 0, not {default!r}"
        if row.function == MIN and not thousandths(default):
            yield (*path, "default"), f"must be a quantity above 0, such as 1Gi, not {default!r}"


def _groups(workload: Workload, at: Path) -> Found:
    roles = [group.role for group in workload.groups]
    places = [str(group.template) for group in workload.groups]
    for at_group, group in enumerate(workload.groups):
        path: Path = (*at, "groups", at_group)
        if roles.index(group.role) < at_group:
            yield (*path, "role"), f"{group.role!r} is the role of two groups"
        if places.index(str(group.template)) < at_group:
            other = roles[places.index(str(group.template))]
            yield (*path, "template"), f"is the template of {other!r} already"
        if "" in places and len(places) > 1 and not str(group.template):
            yield (*path, "template"), "a Pod is its own template: it has one group and no other"
        if group.role == WORKER and group.takes_nodes not in {True, DEVICES}:
            yield (
                (*path, "takesNodes"),
                f"{WORKER!r} is the role of pods that take nodes: write true or devices, or rename it",
            )
        number = group.number
        terms = (number, *number.plus) if number else ()
        if any(len(term.sources) != 1 for term in terms):
            yield (*path, "number"), "each term needs one of label, env and podName"
        if number and number.completion_mode and [*names(number.completion_mode.default)]:
            yield (*path, "number", "completionMode", "default"), "cannot contain a placeholder"
        factors = [*(number.count if number else ()), *chain.from_iterable(term.times for term in terms)]
        for factor in (*group.replicas, *factors):
            if factor.path and factor.path.list not in {None, group.template.list}:
                yield path, f"{factor.path} selects every element of a list, but `template` does not"


def _shapes(table: Table) -> Found:
    facts = chain.from_iterable(rule.match.shape.value.items() for rule in table.rules if rule.match.shape)
    acted_on: set[tuple[str, str]] = {(name, value) for name, allowed in facts for value in allowed}
    for number, family in enumerate(table.families):
        for index, shape in enumerate(family.shapes):
            at: Path = ("families", number, "shapes", index)
            unit = family.unit(shape)
            same = (row for row in family.shapes[:index] if row.node_config == shape.node_config)
            if earlier := next((row.name for row in same if row.workers.covers(shape.workers)), None):
                why = f"{earlier} has the same node config, fits all these numbers, and is tried first"
                yield (*at, "workers"), f"unreachable: {why}"
            if shape.node_config:
                yield from _sizes(shape, unit, at)
            elif not shape.deny:
                yield at, "nodeConfig is missing: add it"
            if family in table.on:
                yield from _strictness(acted_on, shape, family, at)
            for part in ("warn", "deny"):
                for quoted in names(getattr(shape, part)):
                    if quoted not in IN_SHAPES or (quoted == "shape.topologyKey" and not unit):
                        known = listed(IN_SHAPES)
                        yield (*at, part), f"unknown placeholder $({quoted}); the known ones are {known}"


def _sizes(shape: Shape, unit: Unit | None, at: Path) -> Found:
    workers, config = shape.workers, shape.node_config
    if config.least == config.most and workers.least % config.least:
        part = f"; for jobs on a part of a unit, write nodeConfig: {workers}"
        part = f"; use nodeConfig {supported(workers)}" if unit and unit.label in keys.NODE_IDS else part
        way_out = part if workers.most < inf else ""
        yield (*at, "workers"), f"{workers} workers do not fill blocks of {config} (nodeConfig){way_out}"
    elif shape.together == "required" and config.most > 1 and workers.most > config.most:
        yield (*at, "together"), f"one unit of {config} nodes cannot hold {workers} workers: write preferred"


def _strictness(acted_on: set[tuple[str, str]], shape: Shape, family: Family, at: Path) -> Found:
    for name, wanted in (("together", shape.together), ("apart", shape.apart)):
        if wanted != "none" and not family.unit(shape):
            yield (*at, name), _no_unit(shape, family, name)
        elif wanted != "none" and (name, wanted) not in acted_on:
            yield (*at, name), f"no rule of the table acts on {name}: {wanted}; add one that matches it"


def _no_unit(shape: Shape, family: Family, name: str) -> str:
    """Returns why no unit of a family is for a shape that needs one."""
    config = shape.node_config.most
    if config == 1:
        return f"with nodeConfig 1 each worker works alone, in no unit: remove `{name}`"
    if unit := next((unit for unit in family.units if unit.nodes >= config), None):
        why = f"no unit has {config} usable nodes: {unit.label} has {unit.most} of {unit.nodes} (`usable`)"
        blocks = f"nodeConfig {unit.most} or less, with which larger jobs form blocks on several units"
        return f"{why}; use {blocks}, or remove `usable`"
    return f"{name} needs a unit of {shape.node_config} nodes: add one to `units`"
