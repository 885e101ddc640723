"""Tests that admissions are finished after a crash of the leader, a deletion or a failure of workers."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from contract.keys import SERVER_4
from placement.decide.topology import Topology
from placement.observe.model import EndedWorker
from tests.placement.world import (
    NOW,
    bind_pods,
    changed_nodes,
    decide,
    job,
    pin_pod,
    placed_jobs,
    select_nodes,
    servers,
    ungate_pod,
    waiting_reasons,
)

NODES = servers(5)
TOPOLOGY = Topology(NODES.values())


def test_a_begun_admission_is_finished_before_a_job_of_higher_priority_is_admitted() -> None:
    nodes = servers(2)
    pods_of_a = job("a", 8)
    pods_of_a[0] = pin_pod(pods_of_a[0], SERVER_4, "us-01")
    pods = [*pods_of_a, *job("b", 8, priority=9)]
    assert placed_jobs(decide(Topology(nodes.values()), pods, NOW)) == {"a": "us-01 us-02"}


@pytest.mark.parametrize(
    ("changes", "units"),
    [
        ({}, "us-01 us-04 us-05"),
        ({"admitted_at": NOW - timedelta(minutes=3)}, "us-01 us-02 us-03"),
        ({"plan": "1=us-04 two=us-05 2=gone"}, "a-worker-10 needs a node in gone, where its block is"),
        ({"plan": f"9=us-02 2={'x' * 64}"}, "us-01 us-02 us-03"),
    ],
    ids=["a valid plan", "an old plan", "a unit that is gone", "invalid entries"],
)
def test_the_next_leader_continues_the_stored_plan(changes: dict[str, Any], units: str) -> None:
    """Both leaders must give each block the same unit, even if they see different nodes."""
    pods = job("a", 12)
    first_worker = replace(pin_pod(pods[0], SERVER_4, "us-01", plan="1=us-04 2=us-05"), **changes)
    decision = decide(TOPOLOGY, [first_worker, *pods[1:]], NOW)
    assert (placed_jobs(decision) or waiting_reasons(decision))["a"].startswith(units)


def test_the_units_of_a_plan_are_held_for_its_job() -> None:
    pods = job("a", 8)[:7]
    pods_of_a = [pin_pod(pods[0], SERVER_4, "us-01", plan="1=us-02"), *pods[1:]]
    decision = decide(Topology(servers(2).values()), [*pods_of_a, *job("b", 4, priority=9)], NOW)
    assert waiting_reasons(decision)["b"].endswith("us-01: held by team/a; us-02: held by team/a")


@pytest.mark.parametrize("workers", [8, 3])
def test_a_plan_is_ignored_for_workers_that_were_created_later(workers: int) -> None:
    """The workers may have been recreated because their planned unit failed."""
    pods = job("a", workers)
    placement, nodes = pods[0].placement, servers(3)
    assert placement
    plan = "1=us-02" if placement.size > 1 else "1=n1-1 2=n1-2"
    running_pods = bind_pods(pods[: placement.size], list(nodes.values())[: placement.size], started=True)
    running_pods[0] = replace(running_pods[0], plan=plan)
    new_pods = [replace(pod, created=NOW + timedelta(seconds=1)) for pod in pods[placement.size :]]
    nodes_with_failures = changed_nodes(nodes, n2_0={"ready": False}, n1_1={"ready": False})
    decision = decide(Topology(nodes_with_failures), [*running_pods, *new_pods], NOW + timedelta(seconds=2))
    assert placed_jobs(decision) == {"a": "us-03" if placement.size > 1 else "n2-1 n1-2"}


def test_a_plan_is_ignored_for_a_block_that_has_a_node() -> None:
    pods = job("a", 8)
    first_worker = pin_pod(pods[0], SERVER_4, "us-01", plan="1=us-02")
    (bound_worker,) = bind_pods([pods[4]], select_nodes(NODES, "n3-0"))
    assert placed_jobs(decide(TOPOLOGY, [first_worker, *pods[1:4], bound_worker, *pods[5:]], NOW)) == {
        "a": "us-01 us-03"
    }


def test_a_worker_that_is_recreated_during_an_admission_gets_the_unit_of_its_block() -> None:
    nodes = servers(2)
    pods = [ungate_pod(pin_pod(pod, SERVER_4, "us-02")) for pod in job("a", 4)]
    decision = decide(Topology(nodes.values()), pods[1:], NOW)
    assert not decision.admissions
    new_pod = replace(job("a", 4)[0], uid="another")
    assert placed_jobs(decide(Topology(nodes.values()), [new_pod, *pods[1:]], NOW)) == {"a": "us-02"}


@pytest.mark.parametrize(("running", "unit"), [((2, 3), "us-02"), ((), "us-01")])
def test_a_recreated_worker_is_admitted_although_other_workers_have_ended(
    running: tuple[int, ...], unit: str
) -> None:
    """A Job recreates failed pods but not succeeded pods, so not all its pods exist again."""
    pods = job("a", 8, age=timedelta(minutes=2))
    running_pods = bind_pods(
        [pods[number] for number in running],
        select_nodes(NODES, *(f"n2-{number}" for number in running)),
        started=True,
    )
    ended = [EndedWorker(pods[0].key, number) for number in range(1, 8) if number not in running]
    assert placed_jobs(decide(TOPOLOGY, [pods[0], *running_pods, *ended], NOW)) == {"a": unit}
    other_ended = ended[0]._replace(number=8)
    for ended_workers in (ended[1:], [other_ended, *ended[1:]]):
        # With a running worker, the new worker returns to its unit: the Pod of an ended worker may be gone.
        waits = {} if running else {"a": "7 of 8 workers exist"}
        assert waiting_reasons(decide(TOPOLOGY, [pods[0], *running_pods, *ended_workers], NOW)) == waits


def test_a_recreated_job_waits_for_all_its_new_pods() -> None:
    """While the operator recreates all pods one by one, the ended pods of the last run still exist."""
    pods = job("a", 8, age=timedelta(seconds=119))
    ended = [EndedWorker(pods[0].key, number) for number in range(8)]
    assert waiting_reasons(decide(TOPOLOGY, [*pods[:4], *ended], NOW)) == {"a": "4 of 8 workers exist"}
    assert placed_jobs(decide(TOPOLOGY, [*pods, *ended], NOW)) == {"a": "us-01 us-02"}
    # They do not wait for ever: a pod of a Job may have failed for the last time.
    assert placed_jobs(decide(TOPOLOGY, [*pods[:4], *ended], NOW + timedelta(seconds=1))) == {"a": "us-01"}


def test_a_worker_returns_to_a_running_job_although_a_succeeded_pod_is_gone() -> None:
    pods = job("a", 4)
    running_pods = bind_pods(pods[2:], select_nodes(NODES, "n1-2", "n1-3"), started=True)
    assert placed_jobs(decide(TOPOLOGY, [pods[1], *running_pods], NOW)) == {"a": "us-01"}
    single_nodes = job("b", 4, config=1)
    running_single = bind_pods(single_nodes[3:], select_nodes(NODES, "n1-3"), started=True)
    # A worker with node config 1 may get another node, so it waits for all workers.
    assert waiting_reasons(decide(TOPOLOGY, [single_nodes[1], *running_single], NOW)) == {
        "b": "2 of 4 workers exist"
    }
    # A job without a running worker waits for all workers.
    assert waiting_reasons(decide(TOPOLOGY, job("c", 4)[1:], NOW)) == {"c": "3 of 4 workers exist"}
