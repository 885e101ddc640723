"""Tests of policies, which set modes by namespace, label and time, and of guarantees."""

from math import inf
from typing import Any

import pytest

from common.tablefiles import merge_texts
from placement.observe.model import units_of
from testbed.mpijob import mpijob
from tests.rules.tables import EXTENDS, extend_table, outcome, problems
from webhook.admission import handlers
from webhook.admission.review import Review
from webhook.engine import Outcome, Request, evaluate
from webhook.engine.outcome import RuleState
from webhook.objects.tree import Json
from webhook.rows import messages as row_messages
from webhook.rows.policies import Mode
from webhook.rows.table import MOST_NAMESPACES, Table
from webhook.rules import messages
from webhook.rules.lint_policies import policy_notes
from webhook.rules.load import build, draft_of, load_texts
from webhook.rules.show import overview


def labelled_job(**labels: str) -> Any:
    job = mpijob()
    return {**job, "metadata": {**job["metadata"], "labels": labels}}


JOB = labelled_job(team="vision")
END = 1_800_000_000.0
"""The time 2027-01-15T08:00:00Z, at which policies end."""
END_TEXT = "2027-01-15T08:00:00Z"


def table_with_policies(*rows: str, rest: str = "") -> Table:
    return extend_table(rest + "policies:\n" + "".join(f"  - {{{row}, reason: r}}\n" for row in rows))


def outcome_of(table: Table, namespace: str = "default", now: float = 0, obj: Any = JOB) -> Outcome:
    return evaluate(table, Request(obj, namespace=namespace, uid="u", now=now))


def effective_mode(outcome: Outcome) -> Mode:
    """Returns the mode in which a table handled a candidate."""
    if outcome.operations:
        return Mode.ENFORCE
    return Mode.SHADOW if outcome.enforced and outcome.enforced.operations else Mode.OFF


@pytest.mark.parametrize("table_mode", Mode)
@pytest.mark.parametrize("policy_mode", [*Mode, None])
@pytest.mark.parametrize("rule_mode", [*Mode])
@pytest.mark.parametrize("policy_rule_mode", [*Mode, None])
@pytest.mark.parametrize("inject", [True, False])
def test_the_weaker_of_two_modes_applies_and_a_policy_replaces_each_mode(
    table_mode: Mode,
    policy_mode: Mode | None,
    rule_mode: Mode,
    policy_rule_mode: Mode | None,
    *,
    inject: bool,
) -> None:
    """Tries all combinations of modes that docs/rule-table.md describes, for opted-in and opted-out jobs."""
    row = [
        f"mode: {policy_mode}" if policy_mode else "",
        f"rules: {{x: {policy_rule_mode}}}" if policy_rule_mode else "",
    ]
    row = [part for part in row if part] or ["mode: " + table_mode]
    rule = f"{{name: x, reason: r, match: {{role: worker}}, mode: {rule_mode}, warn: w}}"
    text = f"mode: {table_mode}\nrules:\n  - {rule}\n"
    job = mpijob(annotations={} if inject else {"ultraserver-webhook.io/inject": "false"})
    result = outcome_of(table_with_policies(", ".join(row), rest=text), obj=job)
    for_table, for_rule = policy_mode or table_mode, policy_rule_mode or rule_mode
    modes = {for_table, for_rule}
    weaker = Mode.OFF if Mode.OFF in modes else Mode.SHADOW if Mode.SHADOW in modes else for_rule
    states = [row.state for row in result.rules if row.name == "x"]
    expected = {
        Mode.ENFORCE: [RuleState.FIRED],
        Mode.SHADOW: [RuleState.SHADOWED],
        Mode.OFF: [RuleState.SKIPPED],
    }
    if inject and for_table is not Mode.OFF:
        assert states == expected[weaker]
    else:
        assert RuleState.FIRED not in states
        assert RuleState.SHADOWED not in states
    assert ("w" in result.warnings) == (inject and weaker is Mode.ENFORCE)
    assert effective_mode(result) is (for_table if inject else Mode.OFF)


def test_the_first_policy_that_matches_an_object_applies() -> None:
    table = table_with_policies(
        "namespaces: [a-*, b], labels: {team: vision}, mode: shadow",
        "namespaces: a-*, mode: off",
        "mode: enforce",
    )
    modes = {
        (namespace, team): effective_mode(outcome_of(table, namespace, obj=labelled_job(team=team)))
        for namespace in ("a-1", "b", "c")
        for team in ("vision", "speech")
    }
    assert modes == {
        ("a-1", "vision"): Mode.SHADOW,
        ("a-1", "speech"): Mode.OFF,
        ("b", "vision"): Mode.SHADOW,
        ("b", "speech"): Mode.ENFORCE,
        ("c", "vision"): Mode.ENFORCE,
        ("c", "speech"): Mode.ENFORCE,
    }


def test_the_cache_of_policies_by_namespace_has_a_maximum_size() -> None:
    table = table_with_policies("namespaces: n1, mode: off")
    for number in range(2 * MOST_NAMESPACES):
        table.find_ruling(JOB, f"n{number}", 0)
    assert len(table._policy_indices) <= MOST_NAMESPACES  # noqa: SLF001
    assert effective_mode(outcome_of(table, "n1")) is Mode.OFF


def test_an_outcome_has_the_reason_of_its_policy() -> None:
    table = table_with_policies("mode: shadow, namespaces: default", "mode: off")
    assert outcome_of(table).facts["policy"] == "r"
    assert effective_mode(outcome_of(table)) is Mode.SHADOW


def test_an_object_that_a_rule_in_shadow_cannot_read_gets_the_other_rules() -> None:
    add = "add: {spec: {tolerations: [{key: a, operator: Exists}]}}"
    table = extend_table(f"rules: [{{name: x, reason: r, match: {{role: worker}}, mode: shadow, {add}}}]\n")
    job = mpijob(worker_spec={"tolerations": {"a": 1}})
    result, packaged = outcome_of(table, obj=job), outcome_of(extend_table(""), obj=job)
    assert (result.fired(), result.operations != ()) == (packaged.fired(), True)
    assert result.enforced
    assert result.enforced.denials


def test_the_mode_of_a_rules_name_precedes_globs_and_the_longest_glob_applies() -> None:
    """Protects users who switch off all rules, except a rule of their own."""
    rule = "rules:\n  - {name: mine, reason: r, match: {role: worker}, deny: refused}\n"
    result = outcome_of(table_with_policies('rules: {"*": off, mine: enforce}', rest=rule))
    assert result.denials == ("refused",)
    assert result.fired() == ("mine",)
    result = outcome_of(table_with_policies('rules: {"*": off, "m*": enforce}', rest=rule))
    assert result.fired() == ("mine",)


def test_a_job_that_a_policy_left_unchanged_is_refused_only_a_minute_after_the_policy_ends() -> None:
    table = table_with_policies(f"mode: off, until: '{END_TEXT}'")
    assert effective_mode(outcome_of(table, now=END - 1)) is Mode.OFF
    assert effective_mode(outcome_of(table, now=END)) is Mode.ENFORCE

    def refused(now: float) -> bool:
        review = Review("u", Request(JOB, uid="u", now=now), "CREATE", "MPIJob", "train")
        answer = handlers.require(table, review)
        assert answer
        return bool(answer.denials)

    assert [refused(END + seconds) for seconds in (-1, 1, 59, 61)] == [False, False, False, True]


def test_an_update_is_mutated_only_if_the_policy_enforces_the_table() -> None:
    stored = outcome(extend_table(""), JOB).after
    update = {**JOB, "metadata": {**JOB["metadata"], "generation": 2}}

    def is_mutated(table: Table) -> bool:
        review = Review("u", Request(update, uid="u", now=0), "UPDATE", "MPIJob", "train", stored)
        answer = handlers.mutate(table, review)
        return bool(answer and answer.operations)

    assert [is_mutated(table_with_policies(f"mode: {mode}")) for mode in Mode] == [True, False, False]


TYPE = "node.kubernetes.io/instance-type"

DENY_CONDITIONS: list[tuple[str, list[Json], list[Json]]] = [
    ("workers: {atLeast: 8}", [mpijob(8), mpijob(16)], [mpijob(4)]),
    ("workers: {atMost: 4}", [mpijob(4), mpijob(1)], [mpijob(8)]),
    ("workers: {atLeast: 2, atMost: 4}", [mpijob(2)], [mpijob(1), mpijob(8)]),
    ("workers: 3", [mpijob(3)], [mpijob(2), mpijob(4)]),
    ("workers: 2 to 4", [mpijob(2), mpijob(4)], [mpijob(1), mpijob(8)]),
    ("workers: [3, 8 to 9, {atLeast: 16}]", [mpijob(3), mpijob(8), mpijob(20)], [mpijob(2), mpijob(10)]),
    ("workers: multiple of 4", [mpijob(4), mpijob(8)], [mpijob(2)]),
    ("requests: {aws.amazon.com/neuron: {atMost: 16}}", [mpijob()], []),
    ("requests: {aws.amazon.com/neuron: {atLeast: 17}}", [], [mpijob()]),
    ('image: ["!registry.example/*"]', [mpijob()], []),
    ("image: example.invalid/*", [], [mpijob()]),
    (
        "instanceType: '!trn2u.*'",
        [
            mpijob(worker_spec={"nodeSelector": {"node.kubernetes.io/instance-type": "ml.trn2u.48xlarge"}}),
            mpijob(),
        ],
        [mpijob(worker_spec={"nodeSelector": {TYPE: "trn2u.48xlarge"}})],
    ),
    (
        "template: {/spec/priorityClassName: '!low'}",
        [mpijob(), mpijob(worker_spec={"priorityClassName": "high"})],
        [mpijob(worker_spec={"priorityClassName": "low"})],
    ),
    ("labels: {queue: ''}", [mpijob()], [labelled_job(queue="q")]),
]


@pytest.mark.parametrize(("condition", "refused", "allowed"), DENY_CONDITIONS)
def test_a_rule_denies_the_jobs_that_meet_its_condition(
    condition: str, refused: list[Json], allowed: list[Json]
) -> None:
    table = extend_table(
        f"rules:\n  - {{name: x, reason: r, match: {{role: worker, {condition}}}, deny: refused}}\n"
    )
    assert [outcome(table, job).denials for job in refused] == [("refused",)] * len(refused)
    assert [outcome(table, job).denials for job in allowed] == [()] * len(allowed)


@pytest.mark.parametrize(
    ("row", "key", "message"),
    [
        ("{mode: shadw, reason: r}", ".mode", 'must be enforce, shadow or off, not "shadw"; did you mean'),
        (
            "{rules: {ultraserver-nodes: of}, reason: r}",
            ".rules[ultraserver-nodes]",
            "must be enforce, shadow or off, not",
        ),
        (
            "{rules: {ultraserver-node: off}, reason: r}",
            ".rules[ultraserver-node]",
            messages.no_rule("ultraserver-node", "; did you mean 'ultraserver-nodes'?"),
        ),
        ("{mode: off}", "", messages.missing("reason")),
        ("{mode: off, reason: ''}", ".reason", "must be a reason in words, not"),
        ("{mode: off, reason: r, namespaces: ''}", ".namespaces", "must be the name of a namespace"),
        ("{namespaces: a, reason: r}", "", messages.does_nothing("`mode` or `rules`")),
        ("{mode: off, reason: r, until: 2027-01-15T08:00:00}", ".until", '"2027-01-15T08:00:00" has no'),
        ("{mode: off, reason: r, until: 2027-01-15}", ".until", '"2027-01-15" has no time zone'),
        ("{mode: off, reason: r, until: 1800000000}", ".until", row_messages.not_a_time(1800000000)),
        ("{mode: off, reason: r, until: tomorrow}", ".until", '"tomorrow" is not a date with a time'),
        (
            "{mode: off, reason: r, until: 0001-01-01T00:00:00+14:00}",
            ".until",
            row_messages.too_early("0001-01-01T00:00:00+14:00", 2000),
        ),
        (
            "{mode: off, reason: r, labels: {ultraserver-webhook.io/job: x}}",
            ".labels[ultraserver-webhook.io/job]",
            messages.label_of_rule("job-label"),
        ),
        ("{mode: off, reason: r, untl: x}", ".untl", messages.unknown_key("untl", ["until"])),
    ],
)
def test_an_invalid_policy_is_refused(row: str, key: str, message: str) -> None:
    (problem,) = problems(f"{EXTENDS}policies:\n  - {row}\n")
    assert problem[:3] == ("mine.yaml", 5, f"policies[0]{key}")
    assert problem[3].startswith(message)


@pytest.mark.parametrize(
    ("first", "second", "hidden"),
    [
        ("mode: off", "namespaces: a, mode: shadow", True),
        ("namespaces: a-*, mode: off", "namespaces: [a-b, a-c*], mode: shadow", True),
        ("namespaces: a-*, mode: off", "namespaces: [a-b, b], mode: shadow", False),
        ("namespaces: a?, mode: off", "namespaces: a*, mode: shadow", False),
        ("namespaces: '*a*', mode: off", "namespaces: '[abc]-test', mode: shadow", False),
        ("namespaces: a, mode: off", "mode: shadow", False),
        ("namespaces: [a-*, '!a-b'], mode: off", "namespaces: a-b, mode: shadow", False),
        ("namespaces: '!a-*', mode: off", "namespaces: '!a-b', mode: shadow", False),
        ("namespaces: '!a', mode: off", "namespaces: '!a', mode: shadow", True),
        ("labels: {a: b}, mode: off", "labels: {a: b, c: d}, mode: shadow", True),
        ("labels: {a: b}, mode: off", "mode: shadow", False),
        (f"mode: off, until: '{END_TEXT}'", "mode: shadow", False),
        (f"mode: off, until: '{END_TEXT}'", "mode: shadow, until: '2027-01-01T00:00:00+01:00'", True),
    ],
)
def test_a_policy_that_an_earlier_policy_hides_is_refused(first: str, second: str, *, hidden: bool) -> None:
    if not hidden:
        assert table_with_policies(first, second)
        return
    (problem,) = problems(f"{EXTENDS}policies:\n  - {{{first}, reason: r}}\n  - {{{second}, reason: r}}\n")
    assert problem[1:3] == (6, "policies[1]")
    assert problem[3].startswith(messages.hidden_policy(0, "SCOPE").partition("SCOPE")[0])


def test_a_policy_without_until_never_ends() -> None:
    assert effective_mode(outcome_of(table_with_policies("mode: off"), now=inf)) is Mode.OFF


RULES_AND_POLICIES = """
rules:
  - {name: first, reason: r, match: {role: worker}, mode: MODE, warn: w1}
  - {name: second, reason: r, match: {role: worker}, needs: first, warn: w2}
  - {name: third, reason: r, match: {role: worker}, needs: [second, job-label], warn: w3}
  - {name: fourth, reason: r, match: {role: worker}, needs: second, warn: w4}
policies:
  - {namespaces: a, rules: {job-label: shadow}, reason: r}
  - {namespaces: b, mode: shadow, reason: r, until: 2027-01-15T08:00:00Z}
"""


@pytest.mark.parametrize(("mode", "text"), [("shadow", "in shadow"), ("off", "off")])
def test_lint_notes_rules_without_effect_and_policies_that_ended(mode: str, text: str) -> None:
    draft = draft_of([("mine.yaml", EXTENDS + RULES_AND_POLICIES.replace("MODE", mode))], "mine.yaml")
    table = build(draft)
    notes = [(note.line, note.message) for note in policy_notes(draft, table, END - 1)]
    assert notes[:2] == [
        (7, messages.idle_rule("second", f"first, which is {text}")),
        (9, messages.idle_rule("fourth", "second, which is off")),
    ]
    third = messages.idle_rule("third", "second, which is off, and job-label, which is in shadow")
    assert (11, third) in notes
    assert {line for line, _ in notes[2:]} == {11}
    notes = [(note.line, note.message) for note in policy_notes(draft, table, END)]
    assert notes[-1] == (12, messages.has_ended("2027-01-15T08:00:00Z"))


def test_the_overview_lists_policies() -> None:
    rows = overview(
        table_with_policies(
            f"namespaces: [a, b], mode: shadow, rules: {{job-label: off}}, until: {END_TEXT}", "mode: off"
        )
    )
    assert " ".join(rows.split()).count(f"a|b any shadow, job-label off {END_TEXT} r every any off - r") == 1
    assert [line for line in rows.splitlines() if line in messages.STAGES] == [*messages.STAGES]


GUARANTEE = "namespaces: vision-*, unit: neuron.amazonaws.com/ultraserver-server-id-4, count: 2"


@pytest.mark.parametrize(
    ("rows", "path", "message"),
    [
        (
            ["namespaces: a, unit: example.com/rack, count: 1"],
            "guarantees[0].unit",
            messages.no_unit("example.com/rack", ""),
        ),
        (
            [GUARANTEE, GUARANTEE.replace("vision-*", "vision-b")],
            "guarantees[1]",
            messages.HIDDEN_GUARANTEE,
        ),
        (
            [GUARANTEE, GUARANTEE.replace("server-id-4", "server-id-2")],
            "guarantees[0].unit",
            messages.other_unit("neuron.amazonaws.com/ultraserver-server-id-2"),
        ),
        ([GUARANTEE.replace("2", "0")], "guarantees[0]", messages.does_nothing("`count` or `preempts`")),
        (
            [GUARANTEE.replace("vision-*", "Vision")],
            "guarantees[0].namespaces",
            "must be the name of a namespace",
        ),
    ],
)
def test_an_invalid_guarantee_is_refused(rows: list[str], path: str, message: str) -> None:
    problem, *_ = problems(EXTENDS + "guarantees:\n" + "".join(f"  - {{{row}}}\n" for row in rows))
    assert problem[2].startswith(path)
    assert message in problem[3]


def test_webhook_and_placement_read_the_same_guarantees_of_several_files() -> None:
    """The first guarantee for a namespace applies, so both programs must have the same order."""
    texts = [f"{EXTENDS}guarantees:\n  - {{{GUARANTEE.replace('vision', team)}}}\n" for team in ("b", "a")]
    table = load_texts([(f"{number}.yaml", text) for number, text in enumerate(texts)], "files")
    rows = merge_texts(texts, "guarantees")["guarantees"].values()
    assert [row.namespaces for row in table.guarantees] == [
        row.namespaces for row in units_of([], rows).guarantees
    ]
    assert [row.namespaces for row in table.guarantees] == [("b-*",), ("a-*",)]
