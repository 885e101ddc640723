"""Checks policies and guarantees: finds problems, policies that ended, and rules that can never fire."""

from collections.abc import Iterator
from fnmatch import fnmatchcase
from itertools import chain
from math import inf

from common.texts import did_you_mean
from common.times import stamp
from webhook.objects.templates import is_glob
from webhook.rows.policies import Mode, ModeSet, Policy
from webhook.rows.table import Table
from webhook.rules import messages
from webhook.rules.draft import Draft
from webhook.rules.problems import PathMessages, Problem


def policy_problems(table: Table) -> PathMessages:
    """Yields every problem of a table's policies."""
    names = [rule.name for rule in table.rules]
    for index, policy in enumerate(table.policies):
        path = ("policies", index)
        if policy.mode is None and not policy.rules:
            yield path, messages.does_nothing("`mode` or `rules`")
        for glob in policy.rules:
            if not any(fnmatchcase(name, glob) for name in names):
                yield (*path, "rules", glob), messages.no_rule(glob, did_you_mean(glob, names))
        for key in policy.labels:
            if setter := next((rule.name for rule in table.rules if key in rule.labels), None):
                yield (*path, "labels", key), messages.label_of_rule(setter)
        hiding = next((number for number in range(index) if _hides(table.policies[number], policy)), None)
        if hiding is not None:
            yield path, messages.hidden_policy(hiding, _scope(table.policies[hiding]))


def guarantee_problems(table: Table) -> PathMessages:
    """Yields every problem of a table's guarantees."""
    label_lists = [[unit.label for unit in family.units if unit.label] for family in table.enabled_families]
    labels = [*chain(*label_lists)]
    for index, row in enumerate(table.guarantees):
        path = ("guarantees", index)
        if not (row.count or row.preempts):
            yield path, messages.does_nothing("`count` or `preempts`")
        if row.unit not in labels:
            yield (*path, "unit"), messages.no_unit(row.unit, did_you_mean(row.unit, labels))
        family_labels = next((items for items in label_lists if row.unit in items), ())
        other_labels = {other.unit for other in table.guarantees if other.unit in family_labels} - {row.unit}
        if other_labels:
            yield (*path, "unit"), messages.other_unit(min(other_labels))
        earlier_rows = [other for other in table.guarantees[:index] if other.unit == row.unit]
        globs = [glob for other in earlier_rows for glob in other.namespaces]
        if all(any(_covers(glob, namespace) for glob in globs) for namespace in row.namespaces):
            yield path, messages.HIDDEN_GUARANTEE


def policy_notes(draft: Draft, table: Table, now: float) -> Iterator[Problem]:
    """Yields notes on policies that ended or match labels, and on rules that can never fire."""
    table_notes = _idle_rules(table, table.modes)
    pairs = [(("rules", position), text) for position, text in table_notes]
    for index, ruling in enumerate(table.rulings):
        path, policy = ("policies", index), ruling.policy
        if policy.until is not None and policy.has_ended(now):
            pairs.append((path, messages.has_ended(stamp(policy.until))))
            continue
        pairs += [(path, messages.BY_LABEL)] if policy.labels else []
        pairs += [(path, note[1]) for note in _idle_rules(table, ruling.modes) if note not in table_notes]
    return (draft.problem(path, text) for path, text in pairs)


def _idle_rules(table: Table, modes: ModeSet) -> list[tuple[int, str]]:
    """Returns the enforced rules whose needed rules are all off or in shadow: position and note of each rule.

    A rule is left out if only packaged files set the modes of its needed rules.
    """
    rule_modes, idle_rules = dict(modes.rules), list[tuple[int, str]]()
    for index, rule in enumerate(table.rules if modes.table is Mode.ENFORCE else ()):
        is_enforced = rule_modes[rule.name] is Mode.ENFORCE
        if rule.needs and is_enforced and all(rule_modes[name] is not Mode.ENFORCE for name in rule.needs):
            origins = [table.find_origin(name, "mode") for name in rule.needs]
            if not all(origin and origin.file.startswith("packaged ") for origin in origins):
                reasons = ", and ".join(messages.NEEDED[rule_modes[name]](name) for name in rule.needs)
                idle_rules.append((index, messages.idle_rule(rule.name, reasons)))
            rule_modes[rule.name] = Mode.OFF
    return idle_rules


def _hides(earlier: Policy, later: Policy) -> bool:
    """Returns whether the earlier row applies to all objects of the later row, until the later row ends."""
    globs, later_globs = earlier.namespaces, later.namespaces
    if any(text.startswith("!") for text in (*globs, *later_globs)):
        is_covered = set(globs) in (set(), set(later_globs))
    else:
        is_covered = not globs or (
            bool(later_globs) and all(any(_covers(glob, other) for glob in globs) for other in later_globs)
        )
    has_labels = all(values == later.labels.get(key) for key, values in earlier.labels.items())
    return is_covered and has_labels and (earlier.until or inf) >= (later.until or inf)


def _covers(glob: str, other: str) -> bool:
    """Returns whether a glob matches all names that another glob matches; false if that is hard to tell."""
    if glob in {other, "*"}:
        return True
    if not is_glob(other):
        return fnmatchcase(other, glob)
    prefix = glob.removesuffix("*")
    return glob != prefix and not is_glob(prefix) and other.startswith(prefix)


def _scope(policy: Policy) -> str:
    """Returns the namespaces and labels of a policy in words."""
    labels = [f"{key}={'|'.join(values)}" for key, values in policy.labels.items()]
    return " and ".join(["|".join(policy.namespaces) or "every namespace", *labels])
