"""Tests of the experiment's judge, which decides whether jobs are whole, straddle or only hold nodes."""

import pytest

from testbed.experiment.judge import JobPlacement, job_placements, overlooked, wholly_free
from testbed.experiment.stage import POLICIES, table
from testbed.plane import nodes
from tests.helpers import load_text

LABELS = {node["metadata"]["name"]: node["metadata"]["labels"] for node in nodes.ultraserver_nodes(3)}
NAMES = list(LABELS)


def pods(*node_names: str) -> list[dict[str, object]]:
    """Returns a worker pod on each of these nodes; an empty name is a pod without a node."""
    return [
        {
            "metadata": {"namespace": "team", "labels": {"training.kubeflow.org/job-name": "a"}},
            "spec": {"nodeName": name} if name else {},
        }
        for name in node_names
    ]


@pytest.mark.parametrize(
    ("workers", "node_names", "expected"),
    [
        (4, NAMES[:4], "whole"),
        (4, NAMES[2:6], "straddles"),
        (4, [*NAMES[:3], ""], "holds 3"),
        (4, [], "waits"),
        (8, NAMES[:8], "whole"),
        (8, NAMES[2:10], "straddles"),
        (2, NAMES[:2], "whole"),
        (2, NAMES[1:3], "straddles"),
        (3, [NAMES[0], NAMES[5], NAMES[9]], "whole"),
    ],
)
def test_the_judge_finds_whether_a_job_is_whole(workers: int, node_names: list[str], expected: str) -> None:
    result = job_placements({("team", "a"): workers}, pods(*node_names), LABELS)["team", "a"]
    state = "whole" if result.whole else "straddles" if result.straddles else f"holds {result.held}"
    assert state == expected or (expected == "waits" and not result.nodes)
    assert result.whole + result.straddles + (not result.placed) == 1


def test_pods_that_are_being_deleted_hold_no_node() -> None:
    result = pods(*NAMES[:4])
    result[0]["metadata"]["deletionTimestamp"] = "2026-11-21T12:00:00Z"  # type: ignore[index]
    assert job_placements({("team", "a"): 4}, result, LABELS)["team", "a"].held == 3


@pytest.mark.parametrize(
    ("workers", "taken", "room"),
    [(12, [], True), (12, NAMES[:1], False), (8, NAMES[:1], True), (11, NAMES[:1], True)],
)
def test_the_judge_finds_room_for_a_job_in_whole_units(workers: int, taken: list[str], room: bool) -> None:  # noqa: FBT001
    assert wholly_free(workers, NAMES, taken, LABELS) is room


@pytest.mark.parametrize(
    ("workers", "node_names", "expected"),
    [(8, [], True), (12, [], False), (12, NAMES[4:6], True), (8, NAMES[4:], False)],
)
def test_a_job_is_overlooked_if_it_has_room_and_is_not_placed(
    workers: int,
    node_names: list[str],
    expected: bool,  # noqa: FBT001
) -> None:
    result = {
        ("team", "placed"): JobPlacement(4, tuple(NAMES[:4]), 1),
        ("team", "waiting"): JobPlacement(workers, tuple(node_names), 2),
    }
    assert overlooked(result, NAMES, LABELS) == ([("team", "waiting")] if expected else [])


@pytest.mark.parametrize("policy", POLICIES)
def test_the_table_of_every_policy_is_sound(policy: str) -> None:
    assert load_text(table(policy), policy).rules
