"""The judge of the experiment, without a cluster: what whole, straddling and held mean."""

import pytest

from testbed.experiment.judge import Standing, overlooked, standings, wholly_free
from testbed.experiment.stage import POLICIES, table
from testbed.plane import nodes
from tests.helpers import load_text

LABELS = {node["metadata"]["name"]: node["metadata"]["labels"] for node in nodes.ultraserver_nodes(3)}
NAMES = list(LABELS)


def pods(*on: str) -> list[dict[str, object]]:
    return [
        {
            "metadata": {"namespace": "team", "labels": {"training.kubeflow.org/job-name": "a"}},
            "spec": {"nodeName": name} if name else {},
        }
        for name in on
    ]


@pytest.mark.parametrize(
    ("workers", "on", "verdict"),
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
def test_where_a_job_stands(workers: int, on: list[str], verdict: str) -> None:
    result = standings({("team", "a"): workers}, pods(*on), LABELS)["team", "a"]
    message = "whole" if result.whole else "straddles" if result.straddles else f"holds {result.held}"
    assert message == verdict or (verdict == "waits" and not result.nodes)
    assert result.whole + result.straddles + (not result.placed) == 1


def test_pods_that_are_being_deleted_hold_no_unit() -> None:
    result = pods(*NAMES[:4])
    result[0]["metadata"]["deletionTimestamp"] = "2026-11-21T12:00:00Z"  # type: ignore[index]
    assert standings({("team", "a"): 4}, result, LABELS)["team", "a"].held == 3


@pytest.mark.parametrize(
    ("workers", "taken", "room"),
    [(12, [], True), (12, NAMES[:1], False), (8, NAMES[:1], True), (11, NAMES[:1], True)],
)
def test_whether_there_is_room(workers: int, taken: list[str], room: bool) -> None:  # noqa: FBT001
    assert wholly_free(workers, NAMES, taken, LABELS) is room


@pytest.mark.parametrize(
    ("workers", "on", "room"), [(8, [], True), (12, [], False), (12, NAMES[4:6], True), (8, NAMES[4:], False)]
)
def test_whether_a_job_was_overlooked(workers: int, on: list[str], room: bool) -> None:  # noqa: FBT001
    result = {
        ("team", "there"): Standing(4, tuple(NAMES[:4]), 1),
        ("team", "it"): Standing(workers, tuple(on), 2),
    }
    assert overlooked(result, NAMES, LABELS) == ([("team", "it")] if room else [])


@pytest.mark.parametrize("policy", POLICIES)
def test_the_table_of_every_policy_is_sound(policy: str) -> None:
    assert load_text(table(policy), policy).rules
