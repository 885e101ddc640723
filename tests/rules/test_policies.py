"""Policies: which objects a table is for, how strictly and for how long, and what is refused of them."""

from math import inf
from typing import Any

import pytest

from common.tablefiles import merge_texts
from placement.observe.model import units_of
from testbed.mpijob import mpijob
from tests.rules.tables import EXTENDS, extended, outcome, problems
from webhook.admission import handlers
from webhook.admission.review import Review
from webhook.engine import Outcome, Request, evaluate
from webhook.engine.outcome import RuleState
from webhook.objects.tree import Json
from webhook.rows.policies import Mode
from webhook.rows.table import MOST_NAMESPACES, Table
from webhook.rules.lint_policies import policy_notes
from webhook.rules.load import build, draft_of, load_texts
from webhook.rules.show import overview


def labelled(**labels: str) -> Any:
    job = mpijob()
    return {**job, "metadata": {**job["metadata"], "labels": labels}}


JOB = labelled(team="vision")
NOON = 1_800_000_000.0
"""2027-01-15T08:00:00Z."""
UNTIL = "2027-01-15T08:00:00Z"


def policies(*rows: str, rest: str = "") -> Table:
    return extended(rest + "policies:\n" + "".join(f"  - {{{row}, reason: r}}\n" for row in rows))


def outcome_of(table: Table, namespace: str = "default", now: float = 0, obj: Any = JOB) -> Outcome:
    return evaluate(table, Request(obj, namespace=namespace, uid="u", now=now))


def served(outcome: Outcome) -> Mode:
    """Returns what the table as a whole did to a candidate."""
    if outcome.operations:
        return Mode.ENFORCE
    return Mode.SHADOW if outcome.enforced and outcome.enforced.operations else Mode.OFF


@pytest.mark.parametrize("table", Mode)
@pytest.mark.parametrize("policy", [*Mode, None])
@pytest.mark.parametrize("rule", [*Mode])
@pytest.mark.parametrize("for_rule", [*Mode, None])
@pytest.mark.parametrize("inject", [True, False])
def test_the_order_of_authority(
    table: Mode, policy: Mode | None, rule: Mode, for_rule: Mode | None, *, inject: bool
) -> None:
    """Every pair of the table in docs/rule-table.md: job, policy, rule, table."""
    row = [f"mode: {policy}" if policy else "", f"rules: {{x: {for_rule}}}" if for_rule else ""]
    row = [part for part in row if part] or ["mode: " + table]
    text = (
        f"mode: {table}\nrules:\n  - {{name: x, reason: r, match: {{role: worker}}, mode: {rule}, warn: w}}\n"
    )
    job = mpijob(annotations={} if inject else {"ultraserver-webhook.io/inject": "false"})
    done = outcome_of(policies(", ".join(row), rest=text), obj=job)
    whole, each = policy or table, for_rule or rule
    weaker = Mode.OFF if Mode.OFF in {whole, each} else Mode.SHADOW if Mode.SHADOW in {whole, each} else each
    states = [row.state for row in done.rules if row.name == "x"]
    expected = {
        Mode.ENFORCE: [RuleState.FIRED],
        Mode.SHADOW: [RuleState.SHADOWED],
        Mode.OFF: [RuleState.SKIPPED],
    }
    if inject and whole is not Mode.OFF:
        assert states == expected[weaker]
    else:
        assert RuleState.FIRED not in states
        assert RuleState.SHADOWED not in states
    assert ("w" in done.warnings) == (inject and weaker is Mode.ENFORCE)
    assert served(done) is (whole if inject else Mode.OFF)


def test_the_first_policy_that_is_for_an_object_counts() -> None:
    table = policies(
        "namespaces: [a-*, b], labels: {team: vision}, mode: shadow",
        "namespaces: a-*, mode: off",
        "mode: enforce",
    )
    modes = {
        (namespace, team): served(outcome_of(table, namespace, obj=labelled(team=team)))
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


def test_what_is_known_of_namespaces_is_bounded() -> None:
    table = policies("namespaces: n1, mode: off")
    for number in range(2 * MOST_NAMESPACES):
        table.find_ruling(JOB, f"n{number}", 0)
    assert len(table._policy_indices) <= MOST_NAMESPACES  # noqa: SLF001
    assert served(outcome_of(table, "n1")) is Mode.OFF


def test_a_policy_of_a_later_file_comes_before_one_of_an_earlier_file() -> None:
    table = policies("mode: shadow, namespaces: default", "mode: off")
    assert outcome_of(table).facts["policy"] == "r"
    assert served(outcome_of(table)) is Mode.SHADOW


def test_an_object_that_only_a_shadow_rule_cannot_read_is_served_without_that_rule() -> None:
    add = "add: {spec: {tolerations: [{key: a, operator: Exists}]}}"
    table = extended(f"rules: [{{name: x, reason: r, match: {{role: worker}}, mode: shadow, {add}}}]\n")
    job = mpijob(worker_spec={"tolerations": {"a": 1}})
    done, plain = outcome_of(table, obj=job), outcome_of(extended(""), obj=job)
    assert (done.fired(), done.operations != ()) == (plain.fired(), True)
    assert done.enforced
    assert done.enforced.denials


def test_a_whole_name_counts_before_globs_and_the_longest_of_these() -> None:
    """A table that only refuses: all rules off but one's own."""
    mine = "rules:\n  - {name: mine, reason: r, match: {role: worker}, deny: refused}\n"
    done = outcome_of(policies('rules: {"*": off, mine: enforce}', rest=mine))
    assert done.denials == ("refused",)
    assert done.fired() == ("mine",)
    done = outcome_of(policies('rules: {"*": off, "m*": enforce}', rest=mine))
    assert done.fired() == ("mine",)


def test_an_exemption_ends_and_what_was_mutated_just_before_is_not_refused_just_after() -> None:
    table = policies(f"mode: off, until: '{UNTIL}'")
    assert served(outcome_of(table, now=NOON - 1)) is Mode.OFF
    assert served(outcome_of(table, now=NOON)) is Mode.ENFORCE

    def refused(now: float) -> bool:
        review = Review("u", Request(JOB, uid="u", now=now), "CREATE", "MPIJob", "train")
        answer = handlers.require(table, review)
        assert answer
        return bool(answer.denials)

    assert [refused(NOON + after) for after in (-1, 1, 59, 61)] == [False, False, False, True]


def test_an_update_follows_the_policy_of_its_object() -> None:
    stored = outcome(extended(""), JOB).after
    update = {**JOB, "metadata": {**JOB["metadata"], "generation": 2}}

    def kept(table: Table) -> bool:
        review = Review("u", Request(update, uid="u", now=0), "UPDATE", "MPIJob", "train", stored)
        answer = handlers.mutate(table, review)
        return bool(answer and answer.operations)

    assert [kept(policies(f"mode: {mode}")) for mode in Mode] == [True, False, False]


TYPE = "node.kubernetes.io/instance-type"

SELECTIVE: list[tuple[str, list[Json], list[Json]]] = [
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
    ("labels: {queue: ''}", [mpijob()], [labelled(queue="q")]),
]


@pytest.mark.parametrize(("condition", "refused", "allowed"), SELECTIVE)
def test_what_a_verdict_may_look_at(condition: str, refused: list[Json], allowed: list[Json]) -> None:
    table = extended(
        f"rules:\n  - {{name: x, reason: r, match: {{role: worker, {condition}}}, deny: refused}}\n"
    )
    assert [outcome(table, job).denials for job in refused] == [("refused",)] * len(refused)
    assert [outcome(table, job).denials for job in allowed] == [()] * len(allowed)


@pytest.mark.parametrize(
    ("row", "at", "message"),
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
            "no rule is called 'ultraserver-node'; did you mean 'ultraserver-nodes'?",
        ),
        ("{mode: off}", "", "reason is missing: add it"),
        ("{mode: off, reason: ''}", ".reason", "must be words that say why, not"),
        ("{mode: off, reason: r, namespaces: ''}", ".namespaces", "must be the name of a namespace"),
        ("{namespaces: a, reason: r}", "", "does nothing: add `mode` or `rules`"),
        ("{mode: off, reason: r, until: 2027-01-15T08:00:00}", ".until", '"2027-01-15T08:00:00" has no'),
        ("{mode: off, reason: r, until: 2027-01-15}", ".until", '"2027-01-15" has no time zone'),
        ("{mode: off, reason: r, until: 1800000000}", ".until", "1800000000 is not a string: write it as"),
        ("{mode: off, reason: r, until: tomorrow}", ".until", '"tomorrow" is not a date with a time'),
        (
            "{mode: off, reason: r, until: 0001-01-01T00:00:00+14:00}",
            ".until",
            "0001-01-01T00:00:00+14:00 is long",
        ),
        (
            "{mode: off, reason: r, labels: {ultraserver-webhook.io/job: x}}",
            ".labels[ultraserver-webhook.io/job]",
            "rule job-label sets this label",
        ),
        ("{mode: off, reason: r, untl: x}", ".untl", "unknown key 'untl'; did you mean 'until'?"),
    ],
)
def test_a_policy_that_cannot_be_meant_is_refused(row: str, at: str, message: str) -> None:
    (problem,) = problems(f"{EXTENDS}policies:\n  - {row}\n")
    assert problem[:3] == ("mine.yaml", 5, f"policies[0]{at}")
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
        (f"mode: off, until: '{UNTIL}'", "mode: shadow", False),
        (f"mode: off, until: '{UNTIL}'", "mode: shadow, until: '2027-01-01T00:00:00+01:00'", True),
    ],
)
def test_a_policy_that_another_hides_is_refused(first: str, second: str, *, hidden: bool) -> None:
    if not hidden:
        assert policies(first, second)
        return
    (problem,) = problems(f"{EXTENDS}policies:\n  - {{{first}, reason: r}}\n  - {{{second}, reason: r}}\n")
    assert problem[1:3] == (6, "policies[1]")
    assert problem[3].startswith("unreachable: policies[0] for ")


def test_a_policy_without_a_time_never_ends() -> None:
    assert served(outcome_of(policies("mode: off"), now=inf)) is Mode.OFF


NOTED = """
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
    draft = draft_of([("mine.yaml", EXTENDS + NOTED.replace("MODE", mode))], "mine.yaml")
    table = build(draft)
    matching = [(note.line, note.message) for note in policy_notes(draft, table, NOON - 1)]
    assert matching[:2] == [
        (7, f"rule second does nothing: it needs first, which is {text}"),
        (9, "rule fourth does nothing: it needs second, which is off"),
    ]
    third = "rule third does nothing: it needs second, which is off, and job-label, which is in shadow"
    assert (11, third) in matching
    assert {line for line, _ in matching[2:]} == {11}
    ended = [(note.line, note.message) for note in policy_notes(draft, table, NOON)]
    assert ended[-1] == (12, "ended at 2027-01-15T08:00:00Z and has no effect: remove it")


def test_policies_are_shown() -> None:
    rows = overview(
        policies(f"namespaces: [a, b], mode: shadow, rules: {{job-label: off}}, until: {UNTIL}", "mode: off")
    )
    assert " ".join(rows.split()).count(f"a|b any shadow, job-label off {UNTIL} r every any off - r") == 1


TEAM = "namespaces: vision-*, unit: neuron.amazonaws.com/ultraserver-server-id-4, count: 2"


@pytest.mark.parametrize(
    ("rows", "path", "message"),
    [
        (["namespaces: a, unit: example.com/rack, count: 1"], "guarantees[0].unit", "no family that is on"),
        ([TEAM, TEAM.replace("vision-*", "vision-b")], "guarantees[1]", "unreachable: earlier guarantees"),
        (
            [TEAM, TEAM.replace("server-id-4", "server-id-2")],
            "guarantees[0].unit",
            "must be the same in all guarantees of a family",
        ),
        ([TEAM.replace("2", "0")], "guarantees[0]", "does nothing: add `count` or `preempts`"),
        ([TEAM.replace("vision-*", "Vision")], "guarantees[0].namespaces", "must be the name of a namespace"),
    ],
)
def test_what_is_wrong_with_guarantees(rows: list[str], path: str, message: str) -> None:
    problem, *_ = problems(EXTENDS + "guarantees:\n" + "".join(f"  - {{{row}}}\n" for row in rows))
    assert problem[2].startswith(path)
    assert message in problem[3]


def test_webhook_and_placement_read_the_same_guarantees_of_several_files() -> None:
    """The first that is for a namespace counts, so both must have them in the same order."""
    texts = [f"{EXTENDS}guarantees:\n  - {{{TEAM.replace('vision', team)}}}\n" for team in ("b", "a")]
    table = load_texts([(f"{number}.yaml", text) for number, text in enumerate(texts)], "files")
    rows = merge_texts(texts, "guarantees")["guarantees"].values()
    assert [row.namespaces for row in table.guarantees] == [
        row.namespaces for row in units_of([], rows).guarantees
    ]
    assert [row.namespaces for row in table.guarantees] == [("b-*",), ("a-*",)]
