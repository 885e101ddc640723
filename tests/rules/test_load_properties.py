"""Property tests that any text of a rule table is loaded, or refused with a list of problems."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.helpers import examples, load_text
from tests.rules.tables import (
    EXTENDS,
    PUBLISHED_VALIDATOR,
    SOURCE,
    STANDALONE,
    assert_schema_agrees,
    parse_yaml,
)
from webhook.rules.problems import Problem, TableError
from webhook.rules.schema import published_schema, violations

SMALL, SMALL_LINES = parse_yaml(STANDALONE), STANDALONE.splitlines(keepends=True)

MAXIMAL = """
mode: off
values: {a: b}
candidates:
  elsewhere: {labels: {a: b}, tolerations: {a: b}, owners: {a: b}}
deviceCounts: {a: [1, 2], b: up to 16}
workloads:
  - name: gang
    kinds: [v1/Gang]
    when: {f: a}
    fields: {f: {path: /f, default: "1", function: dirname}}
    peers: {app: $(job.name)}
    group: g
    place: placer=gate workers=8 size=4 unit=u
    updates: {suspend: /a, keeps: launcher}
    groups:
      - role: worker
        template: ""
        replicas: [2, /n, {path: "/l[a=b]/n", default: 1}]
        takesNodes: devices
        number:
          podName: true
          times: 2
          plus: [{label: a}, {env: B}]
          continues: true
          count: /n
          completionMode: {path: /m, default: NonIndexed}
families:
  - name: racks
    mode: off
    instanceTypes: [a, b-*]
    wholeNode: {x: 1, z: {atLeast: 4, atMost: 4}}
    claims: {a: {takes: node, nodeConfig: 4}}
    nodeLabels: {a: [b, c]}
    units: [{label: k, nodes: 18, usable: 16, names: [rack, racks]}]
    shapes:
      - {name: s, workers: 4, nodeConfig: 4, together: required, apart: none, warn: w, deny: d}
      - {name: t, workers: multiple of 1, nodeConfig: 8 to 16}
rules:
  - name: x
    reason: r
    onConflict: deny
    mode: shadow
    quiet: true
    placer: whole-job
    unless: a
    needs: [a, b]
    match:
      role: any
      candidate: any
      workload: a
      shape: {name: s, nodeConfig: [4, 2], together: required, apart: [none]}
      placer: [whole-job, kueue]
      numbered: true
      requests: {a: 1}
      template: {/spec/x: ["", a]}
      every: true
      unsupportedCount: a
      mountFree: {mountPath: /m, name: v}
      fields: {f: a}
      labels: {f: a}
      labelSelector:
        matchLabels: {a: b}
        matchExpressions: [{key: a, operator: In, values: [b]}, {key: c, operator: DoesNotExist}]
      namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: a}}
      annotations: {f: [a]}
      namespace: a*
"""
"""A table with most of the keys."""

ROWS = {
    "Candidates",
    "Elsewhere",
    "Workload",
    "Group",
    "Number",
    "Summand",
    "Factor",
    "Field",
    "Suspending",
    "Shape",
    "Match",
    "Rule",
}

PLACEHOLDERS = [
    f"$({name})" for name in ("job.name", "value.waitSeconds", "value.x", "nope.x", "shape.topologyKey")
]
NAMES = [
    "required",
    "worker",
    "mpijob",
    "four-node",
    "multiple of 3",
    "/spec/x",
    "rules",
    "default",
    "NotIn",
    "",
]
WORDS = st.sampled_from([*PLACEHOLDERS, *NAMES])
TEXTS = WORDS | st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=5)
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-5, 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=10,
)


def _loads_or_refuses(text: str | bytes) -> None:
    problems: tuple[Problem, ...] | None = None
    try:
        load_text(text, SOURCE)
    except TableError as error:
        problems = error.problems
    if problems is not None:
        assert problems
        assert all(problem.line >= 1 and problem.message for problem in problems)
        assert not any("\n" in str(problem) for problem in problems)


def _paths(node: Any, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    children: list[tuple[str | int, Any]] = []
    if isinstance(node, dict):
        children = list(node.items())
    elif isinstance(node, list):
        children = list(enumerate(node))
    return [path, *(inner for key, value in children for inner in _paths(value, (*path, key)))]


def _replace_at(node: Any, path: tuple[str | int, ...], value: Any) -> Any:
    if not path:
        return value
    if isinstance(node, list):
        return [_replace_at(item, path[1:], value) if i == path[0] else item for i, item in enumerate(node)]
    return {key: _replace_at(item, path[1:], value) if key == path[0] else item for key, item in node.items()}


@given(VALUES)
def test_an_arbitrary_value_is_loaded_or_refused(value: Any) -> None:
    _loads_or_refuses(json.dumps(value))


@examples(60)
@given(st.sampled_from(_paths(SMALL)), VALUES)
def test_a_table_with_an_arbitrary_value_at_any_path_is_loaded_or_refused(
    path: tuple[str | int, ...], value: Any
) -> None:
    _loads_or_refuses(json.dumps(_replace_at(SMALL, path, value)))


@examples(40)
@given(
    st.dictionaries(
        st.sampled_from(["values", "candidates", "workloads", "families", "rules", "mode"]),
        VALUES
        | st.lists(
            st.dictionaries(
                st.sampled_from(["name", "match", "add", "warn", "unless", "shapes", "units", "kinds"]),
                VALUES
                | st.sampled_from(
                    ["ultraserver-nodes", "trn2u", "mpijob", {"role": "worker"}, [{"name": "four-node"}]]
                ),
            ),
            max_size=3,
        ),
        max_size=3,
    )
)
def test_the_packaged_table_with_arbitrary_sections_is_loaded_or_refused(sections: dict[str, Any]) -> None:
    head = {"apiVersion": "ultraserver-webhook.io/v1alpha2", "kind": "RuleTable", "extends": "default"}
    _loads_or_refuses(json.dumps({**head, **sections}))


ACCEPTED = [
    MAXIMAL,
    "workloads: []\nfamilies: []\n",
    "candidates: {otherLabels: [a]}\n",
    "families: [{name: f, shapes: [{name: s, workers: 4.0}]}]\n",
    "values: {a-B_1: $(job.name)}\n",
]
REFUSED = [
    "values: {a b: c}\n",
    "families: [{name: f, instanceTypes: [a, a]}]\n",
    "rules: [{name: x, needs: []}]\n",
    "rules: [{name: x, warn: null}]\n",
    'rules: [{name: x, quiet: "yes"}]\n',
    "rules: [{name: x, match: {role: worker, numbered: 1}}]\n",
    "rules: [{name: x, match: {role: worker, mountFree: {name: v}}}]\n",
    "families: [{name: f, shapes: [{name: s, workers: true}]}]\n",
    "families: [{name: f, shapes: [{name: s, nodeConfig: 1001}]}]\n",
    "families: [{name: f, mode: shadow}]\n",
    "mode: 0\n",
    "rules: [{name: x, match: {role: worker, candidate: 1}}]\n",
    "deviceCounts: {'': [1]}\n",
]


@pytest.mark.parametrize("text", ACCEPTED)
def test_loading_and_the_published_schema_accept_a_valid_table(text: str) -> None:
    assert list(violations(parse_yaml(EXTENDS + text))) == []
    PUBLISHED_VALIDATOR.validate(parse_yaml(EXTENDS + text))


@pytest.mark.parametrize("section", ["workloads", "families"])
def test_a_table_without_extends_needs_workloads_and_families(section: str) -> None:
    raw = {**SMALL, section: []}
    assert [path for path, _ in violations(raw)] == [(section,)]
    assert not PUBLISHED_VALIDATOR.is_valid(raw)


@pytest.mark.parametrize("text", REFUSED)
def test_loading_and_the_published_schema_refuse_an_invalid_table(text: str) -> None:
    assert list(violations(parse_yaml(EXTENDS + text))) != []
    assert not PUBLISHED_VALIDATOR.is_valid(parse_yaml(EXTENDS + text))


LARGE = parse_yaml(EXTENDS + MAXIMAL)
CHANGES = [(table, path) for table in (SMALL, LARGE) for path in _paths(table)]


@examples(100)
@given(st.sampled_from(CHANGES), VALUES)
def test_loading_and_the_published_schema_agree_about_an_arbitrary_value_at_any_path(
    change: tuple[dict[str, Any], tuple[str | int, ...]], value: Any
) -> None:
    table, path = change
    assert_schema_agrees(_replace_at(table, path, value))


def test_every_key_has_a_description_in_the_schema_and_is_in_the_reference() -> None:
    rows = [published_schema(), *(row for name, row in published_schema()["$defs"].items() if name in ROWS)]
    keys = [(row["description"], name, key) for row in rows for name, key in row["properties"].items()]
    assert len(rows) == 1 + len(ROWS)
    assert [(row, name) for row, name, key in keys if len(key.get("description", "")) < 5] == [
        (published_schema()["description"], "kind")
    ]
    reference = (Path(__file__).parents[2] / "docs" / "reference.md").read_text(encoding="utf-8")
    missing = [name for _, name, _ in keys if f"`{name}`" not in reference]
    assert set(missing) <= {"kind"}


TYPOS = st.sampled_from(["", " ", "\t", "- ", "x: ", "? ", "&a "])


@examples(60)
@given(st.integers(0, len(SMALL_LINES) - 1), st.integers(0, 20), TYPOS)
def test_a_table_with_a_typo_is_loaded_or_refused(line: int, column: int, typo: str) -> None:
    lines, text = [*SMALL_LINES], SMALL_LINES[line]
    lines[line] = text[:column] + typo + text[column + (not typo) :]
    _loads_or_refuses("".join(lines))


@examples(60)
@given(st.binary(max_size=60))
def test_arbitrary_bytes_behind_the_head_of_a_table_are_loaded_or_refused(tail: bytes) -> None:
    _loads_or_refuses(EXTENDS.encode() + tail)
