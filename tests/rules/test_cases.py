"""The cases of the packaged table and its components pass, and notice every change of a rule."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import fields, replace
from typing import Any

import pytest

import webhook.ruletests.run
from tests.rules.packaged import TABLES, cases, components, documented
from webhook.objects.tree import put, walk
from webhook.rows.conditions import Condition
from webhook.rows.table import Match, Rule
from webhook.rows.written import Range
from webhook.ruletests import expected
from webhook.ruletests.run import run


@pytest.mark.parametrize("folder", TABLES)
def test_every_case_passes(folder: str) -> None:
    """A change of a rule's behaviour shows as the difference of a case."""
    failed = [
        f"{result.case.source}\n{result}"
        for result in run(TABLES[folder](), cases(folder))
        if result.differences
    ]
    assert not failed, "\n".join(failed)


def in_state(state: str) -> set[str]:
    """Returns the rules that some case expects in this state."""
    return {
        name
        for folder in TABLES
        for case in cases(folder)
        for name, expected in case.expect.rules.items()
        if expected == state
    }


OF_DOCUMENT = {f"{rule.name} of the document": rule for rule in documented().rules}
RULES = {rule.name: rule for rule in components().rules} | OF_DOCUMENT


@pytest.mark.parametrize("state", ["fired", "skipped"])
def test_every_rule_has_a_case_that_fires_and_one_that_does_not(state: str) -> None:
    """A new rule comes with its cases."""
    assert {rule.name for rule in RULES.values()} <= in_state(state)


def changed(value: Any) -> Iterator[tuple[str, Any]]:
    """Yields the values of a condition with one alternative or key less, or another."""
    if isinstance(value, Condition):
        yield from ((what, type(value)(new)) for what, new in changed(value.value))
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            rest = {k: v for k, v in value.items() if k != key}
            yield from [(f"{key}", rest)] if rest else []
            yield from ((f"{key} {what}", {**value, key: new}) for what, new in changed(inner))
    elif isinstance(value, tuple):
        for at, each in enumerate(value):
            rest = (*value[:at], *value[at + 1 :])
            yield from [(f"without {each!r}", rest)] if rest else []
            others = [(f"{each!r}", "none-such")] if isinstance(each, str) else changed(each)
            yield from ((what, (*value[:at], new, *value[at + 1 :])) for what, new in others)
    elif isinstance(value, Range):
        yield "from more", replace(value, at_least=value.at_least + 100)
    elif isinstance(value, bool):
        yield "negated", not value
    elif isinstance(value, int):
        yield "more", value + 100


def matches(match: Match) -> Iterator[tuple[str, Match]]:
    """Yields a rule's `match` with a condition less, or another."""
    for each in fields(Match):
        value = getattr(match, each.name)
        default = each.default_factory() if callable(each.default_factory) else each.default
        if value == default:
            continue
        if each.name == "role":
            yield "role", replace(match, role="none-such")
            continue
        yield f"without {each.name}", replace(match, **{each.name: default})
        if each.name == "mount_free":
            keys = ["mount_path", "name"] + ["container"] * bool(value.container)
            parts = [(key, replace(value, **{key: "none-such"})) for key in keys]
            parts += [("no container", replace(value, container=None))] if value.container else []
        else:
            parts = list(changed(value))
        yield from ((f"{each.name}: {what}", replace(match, **{each.name: new})) for what, new in parts)


IMPLIED = {
    **dict.fromkeys(
        [
            (f"kueue-level-unset{which}", what)
            for which in ("", "-in-job")
            for what in ("without placer", "shape: together")
        ],
        "what it needs is for Kueue and for such shapes only",
    ),
    ("groups-apart", "without placer"): "Kueue places MPIJobs only",
    ("whole-job-workers", "without workload"): "Pods of the other kinds have no numbers",
    ("selects-other-processors", "without family"): "the packaged table has one family",
    ("whole-job-launcher", "without workload"): "such a launcher's workers do not wait either",
}
"""Conditions that others of the rule, or of a row that it needs, hold with: there is no object to tell by."""


def implied(rule: Rule, what: str) -> bool:
    """Returns whether a rule without its condition is skipped anyway, for lack of a quoted value."""
    conditions = rule.match.fields.value[0] if rule.match.fields else {}
    fields = {*conditions, *(name.removeprefix("field.") for name in rule.placeholders)}
    others = [row for row in components().workloads if row.name not in rule.match.workload]
    known = {name for row in components().workloads for name in row.fields}
    return (rule.name, what) in IMPLIED or {
        "without shape": "shape.topologyKey" in rule.placeholders,
        "without named": "job.name" in rule.placeholders,
        "without workload": any(
            name in known and not any(name in row.fields for row in others) for name in fields
        ),
    }.get(what, False)


def mutants(rule: Rule) -> Iterator[tuple[str, Rule]]:
    yield from ((what, replace(rule, match=match)) for what, match in matches(rule.match))
    if rule.add:
        yield "adds nothing", replace(rule, add={})
    for path, value in walk(rule.add):
        if not isinstance(value, dict | list):
            new = "changed" if isinstance(value, str) else value + 1
            yield f"add {'/'.join(map(str, path))}", replace(rule, add=put(rule.add, path, new))


def survives(mutant: Rule, folders: Collection[str]) -> bool:
    """Returns whether every case passes by a table with the changed rule; those that name it come first."""
    trials = []
    for folder, table in ((folder, TABLES[folder]) for folder in folders):
        mode = {rule.name: rule.mode for rule in table().rules}.get(mutant.name)
        if mode:
            rules = (
                replace(mutant, mode=mode) if rule.name == mutant.name else rule for rule in table().rules
            )
            other = replace(table(), rules=tuple(rules))
            trials += [(case.expect.rules.get(mutant.name, "x"), other, case) for case in cases(folder)]
    trials.sort(key=lambda trial: trial[0])
    return not any(run(table, [case])[0].differences for _, table, case in trials)


@pytest.mark.limit(4, "a rule has up to fifty changes, and a change up to eighty cases")
@pytest.mark.parametrize("name", RULES)
def test_every_change_of_a_rule_fails_a_case(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of `match` each condition and each alternative counts, and of `add` each value."""
    monkeypatch.setattr(webhook.ruletests.run, "check_patch", lambda *_: None)
    monkeypatch.setattr(expected, "diff_as_yaml", lambda *_: "differs")  # making it legible costs the most
    rule, folders = RULES[name], {"documented"} if name in OF_DOCUMENT else TABLES.keys() - {"documented"}
    left = [what for what, one in mutants(rule) if not implied(rule, what) and survives(one, folders)]
    assert left == []
