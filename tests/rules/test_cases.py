"""Tests that the cases of the packaged table pass, and that each change of a rule fails a case."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import fields, replace
from typing import Any

import pytest

import webhook.ruletests.run
from tests.rules.packaged import TABLES, cases, components_table, document_table
from webhook.objects.tree import put, walk
from webhook.rows.conditions import Condition
from webhook.rows.table import Match, Rule
from webhook.rows.written import Range
from webhook.ruletests import expected
from webhook.ruletests.run import run


@pytest.mark.parametrize("folder", TABLES)
def test_every_case_passes(folder: str) -> None:
    """If a rule's behaviour changes, the failing case shows the difference."""
    failed = [
        f"{result.case.source}\n{result}"
        for result in run(TABLES[folder](), cases(folder))
        if result.differences
    ]
    assert not failed, "\n".join(failed)


def rules_in_state(state: str) -> set[str]:
    """Returns the rules that at least one case expects in this state."""
    return {
        name
        for folder in TABLES
        for case in cases(folder)
        for name, expected in case.expect.rules.items()
        if expected == state
    }


DOCUMENT_RULES = {f"{rule.name} of the document": rule for rule in document_table().rules}
RULES = {rule.name: rule for rule in components_table().rules} | DOCUMENT_RULES


@pytest.mark.parametrize("state", ["fired", "skipped"])
def test_every_rule_has_a_case_in_which_it_fires_and_a_case_in_which_it_is_skipped(state: str) -> None:
    """Fails if a new rule has no cases."""
    assert {rule.name for rule in RULES.values()} <= rules_in_state(state)


def changed_values(value: Any) -> Iterator[tuple[str, Any]]:
    """Yields a value with one alternative or key removed or changed, and a description of the change."""
    if isinstance(value, Condition):
        yield from (
            (description, type(value)(changed_value))
            for description, changed_value in changed_values(value.value)
        )
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            rest = {k: v for k, v in value.items() if k != key}
            yield from [(f"{key}", rest)] if rest else []
            yield from (
                (f"{key} {description}", {**value, key: changed_value})
                for description, changed_value in changed_values(inner)
            )
    elif isinstance(value, tuple):
        for index, item in enumerate(value):
            rest = (*value[:index], *value[index + 1 :])
            yield from [(f"without {item!r}", rest)] if rest else []
            changes = [(f"{item!r}", "none-such")] if isinstance(item, str) else changed_values(item)
            yield from (
                (description, (*value[:index], changed_value, *value[index + 1 :]))
                for description, changed_value in changes
            )
    elif isinstance(value, Range):
        yield "from more", replace(value, at_least=value.at_least + 100)
    elif isinstance(value, bool):
        yield "negated", not value
    elif isinstance(value, int):
        yield "more", value + 100


def changed_matches(match: Match) -> Iterator[tuple[str, Match]]:
    """Yields a rule's `match` with one condition removed or changed, and a description of the change."""
    for field in fields(Match):
        value = getattr(match, field.name)
        default = field.default_factory() if callable(field.default_factory) else field.default
        if value == default:
            continue
        if field.name == "role":
            yield "role", replace(match, role="none-such")
            continue
        yield f"without {field.name}", replace(match, **{field.name: default})
        if field.name == "mount_free":
            keys = ["mount_path", "name"] + ["container"] * bool(value.container)
            changes = [(key, replace(value, **{key: "none-such"})) for key in keys]
            changes += [("no container", replace(value, container=None))] if value.container else []
        else:
            changes = list(changed_values(value))
        yield from (
            (f"{field.name}: {description}", replace(match, **{field.name: changed_value}))
            for description, changed_value in changes
        )


IMPLIED = {
    **dict.fromkeys(
        [
            (f"kueue-level-unset{which}", description)
            for which in ("", "-in-job")
            for description in ("without placer", "shape: together")
        ],
        "the rule that it needs is only for Kueue and for these shapes",
    ),
    ("groups-apart", "without placer"): "no case has a LeaderWorkerSet that Kueue places",
    ("whole-job-workers", "without workload"): "Pods of the other kinds have no numbers",
    ("whole-job-launcher", "without workload"): "the workers of this launcher do not wait either",
}
"""Conditions that no case tests, and the reasons: mostly, other conditions of the rules imply them."""


def is_implied(rule: Rule, description: str) -> bool:
    """Returns whether no case can detect a change, for example because a placeholder then has no value."""
    conditions = rule.match.fields.value[0] if rule.match.fields else {}
    fields = {*conditions, *(name.removeprefix("field.") for name in rule.placeholders)}
    other_workloads = [row for row in components_table().workloads if row.name not in rule.match.workload]
    known = {name for row in components_table().workloads for name in row.fields}
    return (rule.name, description) in IMPLIED or {
        "without shape": "shape.topologyKey" in rule.placeholders,
        "without workload": any(
            name in known and not any(name in row.fields for row in other_workloads) for name in fields
        ),
    }.get(description, False)


def changed_rules(rule: Rule) -> Iterator[tuple[str, Rule]]:
    """Yields a rule with one change in `match` or `add`, and a description of the change."""
    yield from (
        (description, replace(rule, match=match)) for description, match in changed_matches(rule.match)
    )
    if rule.add:
        yield "adds nothing", replace(rule, add={})
    for path, value in walk(rule.add):
        if not isinstance(value, dict | list):
            changed_value = "changed" if isinstance(value, str) else value + 1
            yield f"add {'/'.join(map(str, path))}", replace(rule, add=put(rule.add, path, changed_value))


def passes_all_cases(changed_rule: Rule, folders: Collection[str]) -> bool:
    """Returns whether every case passes with a changed rule. Runs the cases that name the rule first."""
    trials = []
    for folder, table in ((folder, TABLES[folder]) for folder in folders):
        mode = {rule.name: rule.mode for rule in table().rules}.get(changed_rule.name)
        if mode:
            rules = (
                replace(changed_rule, mode=mode) if rule.name == changed_rule.name else rule
                for rule in table().rules
            )
            changed_table = replace(table(), rules=tuple(rules))
            trials += [
                (case.expect.rules.get(changed_rule.name, "x"), changed_table, case) for case in cases(folder)
            ]
    trials.sort(key=lambda trial: trial[0])
    return not any(run(table, [case])[0].differences for _, table, case in trials)


@pytest.mark.limit(4, "a rule has up to fifty changes, and a change up to eighty cases")
@pytest.mark.parametrize("name", RULES)
def test_every_change_of_a_rule_fails_a_case(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Covers each condition and each alternative of `match`, and each value of `add`."""
    monkeypatch.setattr(webhook.ruletests.run, "check_patch", lambda *_: None)
    monkeypatch.setattr(expected, "diff_as_yaml", lambda *_: "differs")  # formatting takes most of the time
    rule, folders = RULES[name], {"documented"} if name in DOCUMENT_RULES else TABLES.keys() - {"documented"}
    undetected = [
        description
        for description, changed_rule in changed_rules(rule)
        if not is_implied(rule, description) and passes_all_cases(changed_rule, folders)
    ]
    assert undetected == []
