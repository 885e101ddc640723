"""What was begun is finished: after a leader's end (more in test_properties.py), a deletion, a failure."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from contract.keys import SERVER_4
from placement.decide.topology import Topology
from placement.observe.model import EndedWorker
from tests.placement.world import (
    NOW,
    admitted,
    bound,
    changed,
    decide,
    job,
    on,
    pinned,
    placed,
    servers,
    waiting,
)

NODES = servers(5)
TOPOLOGY = Topology(NODES.values())


def test_a_job_that_was_begun_is_finished_before_an_older_and_more_important_one() -> None:
    nodes = servers(2)
    begun = job("a", 8)
    begun[0] = pinned(begun[0], SERVER_4, "us-01")
    pods = [*begun, *job("b", 8, priority=9)]
    assert placed(decide(Topology(nodes.values()), pods, NOW)) == {"a": "us-01 us-02"}


@pytest.mark.parametrize(
    ("changes", "units"),
    [
        ({}, "us-01 us-04 us-05"),
        ({"admitted_at": NOW - timedelta(minutes=3)}, "us-01 us-02 us-03"),
        ({"plan": "1=us-04 two=us-05 2=gone"}, "a-worker-10 needs a node in gone, where its block is"),
        ({"plan": f"9=us-02 2={'x' * 64}"}, "us-01 us-02 us-03"),
    ],
    ids=["as written", "too old", "a unit that is gone", "words of no block"],
)
def test_the_next_leader_continues_the_stored_plan(changes: dict[str, Any], units: str) -> None:
    """It may see other nodes, and the one before may write on: both give each block the same unit."""
    pods = job("a", 12)
    first = replace(pinned(pods[0], SERVER_4, "us-01", plan="1=us-04 2=us-05"), **changes)
    decision = decide(TOPOLOGY, [first, *pods[1:]], NOW)
    assert (placed(decision) or waiting(decision))["a"].startswith(units)


def test_what_a_plan_names_is_held_for_its_job() -> None:
    pods = job("a", 8)[:7]
    begun = [pinned(pods[0], SERVER_4, "us-01", plan="1=us-02"), *pods[1:]]
    decision = decide(Topology(servers(2).values()), [*begun, *job("b", 4, priority=9)], NOW)
    assert waiting(decision)["b"].endswith("us-01: held by team/a; us-02: held by team/a")


@pytest.mark.parametrize("workers", [8, 3])
def test_a_plan_does_not_count_for_workers_that_came_later(workers: int) -> None:
    """Their unit may be why they are created again."""
    pods = job("a", workers)
    place, nodes = pods[0].place, servers(3)
    assert place
    plan = "1=us-02" if place.size > 1 else "1=n1-1 2=n1-2"
    there = bound(pods[: place.size], list(nodes.values())[: place.size], started=True)
    there[0] = replace(there[0], plan=plan)
    anew = [replace(pod, created=NOW + timedelta(seconds=1)) for pod in pods[place.size :]]
    sick = changed(nodes, n2_0={"ready": False}, n1_1={"ready": False})
    decision = decide(Topology(sick), [*there, *anew], NOW + timedelta(seconds=2))
    assert placed(decision) == {"a": "us-03" if place.size > 1 else "n2-1 n1-2"}


def test_a_plan_does_not_count_for_a_block_on_another_unit() -> None:
    pods = job("a", 8)
    first = pinned(pods[0], SERVER_4, "us-01", plan="1=us-02")
    (there,) = bound([pods[4]], on(NODES, "n3-0"))
    assert placed(decide(TOPOLOGY, [first, *pods[1:4], there, *pods[5:]], NOW)) == {"a": "us-01 us-03"}


def test_a_worker_deleted_in_the_middle_of_an_opening_comes_back_into_its_block() -> None:
    nodes = servers(2)
    pods = [admitted(pinned(pod, SERVER_4, "us-02")) for pod in job("a", 4)]
    without = decide(Topology(nodes.values()), pods[1:], NOW)
    assert not without.admissions
    anew = replace(job("a", 4)[0], uid="another")
    assert placed(decide(Topology(nodes.values()), [anew, *pods[1:]], NOW)) == {"a": "us-02"}


@pytest.mark.parametrize(("running", "onto"), [((2, 3), "us-02"), ((), "us-01")])
def test_a_worker_that_failed_comes_back_although_others_have_ended(
    running: tuple[int, ...], onto: str
) -> None:
    """A Job replaces what failed and not what succeeded, so its pods are never all there again."""
    pods = job("a", 8, age=timedelta(minutes=2))
    there = bound(
        [pods[number] for number in running], on(NODES, *(f"n2-{number}" for number in running)), started=True
    )
    ended = [EndedWorker(pods[0].key, number) for number in range(1, 8) if number not in running]
    assert placed(decide(TOPOLOGY, [pods[0], *there, *ended], NOW)) == {"a": onto}
    of_another = ended[0]._replace(number=8)
    for known in (ended[1:], [of_another, *ended[1:]]):
        # Next to one at work it goes back to its unit, with any other Pods there: that one's Pod may be
        # gone.
        waits = {} if running else {"a": "7 of 8 workers exist"}
        assert waiting(decide(TOPOLOGY, [pods[0], *there, *known], NOW)) == waits


def test_a_recreated_job_waits_until_the_old_pods_are_gone() -> None:
    """All failed, or the job was deleted and created: its pods come one by one, after those from before."""
    pods = job("a", 8, age=timedelta(seconds=119))
    ended = [EndedWorker(pods[0].key, number) for number in range(8)]
    assert waiting(decide(TOPOLOGY, [*pods[:4], *ended], NOW)) == {"a": "4 of 8 workers exist"}
    assert placed(decide(TOPOLOGY, [*pods, *ended], NOW)) == {"a": "us-01 us-02"}
    # For good they do not wait: one of a Job may have failed for the last time.
    assert placed(decide(TOPOLOGY, [*pods[:4], *ended], NOW + timedelta(seconds=1))) == {"a": "us-01"}


def test_a_worker_returns_to_a_running_job_although_another_succeeded_and_its_pod_is_gone() -> None:
    pods = job("a", 4)
    there = bound(pods[2:], on(NODES, "n1-2", "n1-3"), started=True)
    assert placed(decide(TOPOLOGY, [pods[1], *there], NOW)) == {"a": "us-01"}
    single = job("b", 4, config=1)
    started = bound(single[3:], on(NODES, "n1-3"), started=True)
    # A node of its own is another one perhaps: two jobs could each take one of what is left.
    assert waiting(decide(TOPOLOGY, [single[1], *started], NOW)) == {"b": "2 of 4 workers exist"}
    # One of which nothing runs waits for all.
    assert waiting(decide(TOPOLOGY, job("c", 4)[1:], NOW)) == {"c": "3 of 4 workers exist"}
