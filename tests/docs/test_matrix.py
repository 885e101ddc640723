"""The support matrices, tests/SUPPORT.md: that of the kinds is complete, and every named test exists."""

import ast
import re

import pytest

from tests.docs.blocks import REPOSITORY, text_of
from webhook.rules.load import load_default

WHAT = ["one UltraServer", "several UltraServers", "its own controller", "updates", "waits whole"]
ROW = re.compile(r"^\| `([^`]+/[A-Za-z]+)` \| ([^|`]+) \| ([^|]+) \|$", re.MULTILINE)
MADE_INTO_ANOTHER = {"trainer.kubeflow.org/v1alpha1/TrainJob"}
"""Kinds without a row of their own: what they are made into is sent."""
MATRICES = text_of("tests/SUPPORT.md")
ROWS = ROW.findall(MATRICES)
HELD = re.compile(r"^\| ([^|]+) \| (`tests/[^`]+`|cannot be: [^|]+|not yet: [^|]+) \|$", re.MULTILINE)
OTHERS = [("nodes of every sort", *row) for row in HELD.findall(MATRICES)]


def test_every_kind_of_the_packaged_table_has_every_row_once() -> None:
    kinds = {kind for workload in load_default().workloads for kind in workload.kinds if kind != "v1/Pod"}
    expected = [(kind, what) for kind in kinds | MADE_INTO_ANOTHER for what in WHAT]
    assert sorted((kind, what) for kind, what, _ in ROWS) == sorted(expected)


def test_each_sort_of_node_has_a_matrix() -> None:
    assert len(OTHERS) > 10


@pytest.mark.parametrize(("kind", "what", "held"), [*ROWS, *OTHERS])
def test_a_row_names_an_existing_test_or_gives_the_reason_for_none(kind: str, what: str, held: str) -> None:
    named = re.fullmatch(r"`(tests/[a-z0-9_/]+\.py)::(test_[a-z0-9_]+)`", held)
    if not named:
        assert re.match("cannot be: .{10,}", held), (kind, what)
        return
    module = ast.parse((REPOSITORY / named[1]).read_text(encoding="utf-8"))
    functions = [node for node in module.body if isinstance(node, ast.FunctionDef) and node.name == named[2]]
    assert len(functions) == 1
    skipped = [ast.unparse(mark) for mark in functions[0].decorator_list]
    assert not any("skip" in mark or "xfail" in mark for mark in skipped)
