"""Tests of the texts that explain why a job waits, and of the states of units."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest

from contract.keys import SERVER_2, SERVER_4
from contract.placement import Placement, Placer
from placement.decide.allocate import Allocator
from placement.decide.jobs import Job
from placement.decide.plan import LONGEST_REASON, Admission, Memory, Tuning
from placement.decide.topology import Topology
from placement.messages import Reason
from placement.observe.model import UNITS, Node, Pod, UnitKind, UnitSettings
from tests.placement.world import (
    HOUR,
    NOW,
    bind_pods,
    changed_nodes,
    decide,
    foreign_pod,
    job,
    select_nodes,
    servers,
    waiting_reasons,
)

FORTY_SERVERS = servers(40)


def waiting_reason(nodes: Iterable[Node], pods: Iterable[Pod], name: str = "a") -> str:
    """Returns why a job waits."""
    return waiting_reasons(
        decide(Topology(nodes), pods, NOW, Tuning(units=UNITS | UnitSettings({"rack": UnitKind(8)})))
    )[name]


def running_job(name: str, *numbers: int) -> list[Pod]:
    """Returns the pods of a job that runs on the UltraServers with the given numbers."""
    nodes = select_nodes(FORTY_SERVERS, *(f"n{number}-{index}" for number in numbers for index in range(4)))
    return bind_pods(job(name, len(nodes)), nodes, started=True)


def test_a_reason_names_few_units_one_by_one() -> None:
    nodes = list(changed_nodes(servers(3), n1_2={"cordoned": True}))
    pods = [*running_job("train", 2), *job("a", 8, namespace="team")]
    assert waiting_reason(nodes, pods) == (
        "needs 2 whole UltraServers; 1 free; us-01: node n1-2 is cordoned; us-02: held by team/train"
    )


def test_a_reason_counts_many_units_by_cause() -> None:
    nodes = changed_nodes(
        FORTY_SERVERS,
        n1_0={"ready": False},
        n2_0={"cordoned": True},
        n3_0={"cordoned": True},
        n4_0={"cordoned": True},
    )
    pods = [
        *running_job("large", *range(5, 30)),
        *running_job("b", 30, 31),
        *running_job("c", 32),
        *job("a", 36),
    ]
    assert waiting_reason(nodes, pods) == (
        "needs 9 whole UltraServers; 8 free; 1 not ready: us-01: node n1-0 is not ready; "
        "3 cordoned: us-02: node n2-0 is cordoned, us-03: node n3-0 is cordoned and 1 more; "
        "28 held: held by team/large (25), held by team/b (2) and 1 more"
    )


def test_the_reason_does_not_depend_on_the_order_of_nodes_and_pods() -> None:
    pods = [foreign_pod(f"x{name}", name) for name in FORTY_SERVERS] + job("a", 4)
    assert waiting_reason(FORTY_SERVERS.values(), pods) == waiting_reason(
        reversed(FORTY_SERVERS.values()), list(reversed(pods))
    )


@pytest.mark.parametrize("workers", [1, 2, 4, 64])
def test_a_reason_fits_into_an_event_for_any_names(workers: int) -> None:
    nodes = [replace(node, name=f"{name}-{'x' * 240}", cordoned=True) for name, node in FORTY_SERVERS.items()]
    text = waiting_reason(nodes, job("a" * 200, workers), name="a" * 200)
    assert len(text.encode()) <= 1024
    assert len(text) <= LONGEST_REASON


def test_reasons_name_the_job_that_units_are_reserved_for() -> None:
    pods = [*running_job("train", 1), *job("a", 8, age=HOUR), *job("b", 4)]
    nodes = select_nodes(FORTY_SERVERS, *(f"n{number}-{index}" for number in (1, 2) for index in range(4)))
    assert waiting_reason(nodes, pods) == (
        "needs 2 whole UltraServers; 1 free; what becomes free is reserved for it; us-01: held by team/train"
    )
    assert waiting_reason(nodes, pods, "b") == (
        "needs 1 whole UltraServer; 1 free, reserved for team/a; us-02: reserved for team/a; "
        "us-01: held by team/train"
    )


def test_a_reason_tells_if_no_node_is_in_a_unit_of_the_jobs_size() -> None:
    pods = [replace(pod, placement=Placement(Placer.WHOLE_JOB, 8, 8, "rack")) for pod in job("a", 8)]
    assert waiting_reason(FORTY_SERVERS.values(), pods) == (
        "needs 1 free unit of 8 nodes; 0 free; at most 0 can become free"
    )


def test_each_waiting_job_has_the_reason_code_of_its_case(monkeypatch: pytest.MonkeyPatch) -> None:
    nodes = servers(3)
    running_pods = [
        replace(pod, admitted_at=NOW - HOUR, limit=2 * HOUR)
        for pod in bind_pods(job("r", 4), select_nodes(nodes, "n1-0", "n1-1", "n1-2", "n1-3"), started=True)
    ]
    pods = [
        *running_pods,
        *job("first", 12, age=2 * HOUR),
        *job("behind", 8, age=HOUR),
        *job("parts", 4)[:3],
        *job("huge", 16),
        *job("refused", 4),
        *job("odd", 4),
    ]
    memory = Memory().with_refusal(("team", "team.refused"), "a quota", NOW)
    original_admit = Allocator.admit

    def admit_with_bug(allocator: Allocator, one_job: Job, *rest: Any) -> Admission:
        assert one_job.key[1] != "team.odd"
        return original_admit(allocator, one_job, *rest)

    monkeypatch.setattr(Allocator, "admit", admit_with_bug)
    decision = decide(Topology(nodes.values()), pods, NOW, memory=memory)
    assert {
        waiting_job.job.key[1].removeprefix("team."): waiting_job.reason for waiting_job in decision.waiting
    } == {
        "first": Reason.UNITS,
        "behind": Reason.RESERVED,
        "parts": Reason.PODS,
        "huge": Reason.NODES,
        "refused": Reason.BACKOFF,
        "odd": Reason.BUG,
    }
    # Without the reservation for the first job, too few units would be free for the second job, too.
    pods_with_larger_job = [*running_pods, *job("first", 12, age=2 * HOUR), *job("behind", 12, age=HOUR)]
    second_decision = decide(Topology(nodes.values()), pods_with_larger_job, NOW)
    assert [waiting_job.reason for waiting_job in second_decision.waiting] == [Reason.UNITS, Reason.UNITS]


def test_each_unit_is_counted_in_exactly_one_state() -> None:
    nodes = {node.name: node for node in changed_nodes(servers(6), n1_0={"cordoned": True}, n2_0=None)}
    running_pods = bind_pods(
        job("r", 4), select_nodes(nodes, *(f"n3-{index}" for index in range(4))), started=True
    )
    running_pods = [replace(pod, admitted_at=NOW - HOUR, limit=2 * HOUR) for pod in running_pods]
    running_pair = bind_pods(job("p", 2), select_nodes(nodes, "n4-0", "n4-1"), started=True)
    cluster = decide(Topology(nodes.values()), [*running_pods, *running_pair], NOW).cluster
    assert cluster.count_states(SERVER_4) == {"sick": 2, "used": 1, "part": 1, "free": 2, "reserved": 0}
    assert cluster.count_states(SERVER_2) == {"sick": 2, "used": 3, "part": 0, "free": 7, "reserved": 0}
    cluster = decide(
        Topology(nodes.values()), [*running_pods, *running_pair, *job("first", 12, age=HOUR)], NOW
    ).cluster
    assert cluster.count_states(SERVER_4) == {"sick": 2, "used": 0, "part": 1, "free": 0, "reserved": 3}
