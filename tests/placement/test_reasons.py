"""Why a job waits, in a text that fits into an Event."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest

from contract.keys import SERVER_2, SERVER_4
from contract.place import Place, Placer
from placement.decide.allocate import Allocator
from placement.decide.jobs import Job
from placement.decide.plan import LONGEST_REASON, Admission, Memory, Tuning
from placement.decide.topology import Topology
from placement.messages import Reason
from placement.observe.model import UNITS, Node, Pod, UnitKind, UnitSettings
from tests.placement.world import HOUR, NOW, bound, changed, decide, foreign, job, on, servers, waiting

MANY = servers(40)


def why(nodes: Iterable[Node], pods: Iterable[Pod], name: str = "a") -> str:
    return waiting(
        decide(Topology(nodes), pods, NOW, Tuning(units=UNITS | UnitSettings({"rack": UnitKind(8)})))
    )[name]


def running(name: str, *numbers: int) -> list[Pod]:
    nodes = on(MANY, *(f"n{number}-{index}" for number in numbers for index in range(4)))
    return bound(job(name, len(nodes)), nodes, started=True)


def test_few_units_are_named_one_by_one() -> None:
    nodes = list(changed(servers(3), n1_2={"cordoned": True}))
    pods = [*running("train", 2), *job("a", 8, namespace="team")]
    assert why(nodes, pods) == (
        "needs 2 whole UltraServers; 1 free; us-01: node n1-2 is cordoned; us-02: held by team/train"
    )


def test_many_are_counted_by_their_cause() -> None:
    nodes = changed(
        MANY, n1_0={"ready": False}, n2_0={"cordoned": True}, n3_0={"cordoned": True}, n4_0={"cordoned": True}
    )
    pods = [*running("large", *range(5, 30)), *running("b", 30, 31), *running("c", 32), *job("a", 36)]
    assert why(nodes, pods) == (
        "needs 9 whole UltraServers; 8 free; 1 not ready: us-01: node n1-0 is not ready; "
        "3 cordoned: us-02: node n2-0 is cordoned, us-03: node n3-0 is cordoned and 1 more; "
        "28 held: held by team/large (25), held by team/b (2) and 1 more"
    )


def test_the_result_does_not_depend_on_the_order_of_nodes_and_pods() -> None:
    pods = [foreign(f"x{name}", name) for name in MANY] + job("a", 4)
    assert why(MANY.values(), pods) == why(reversed(MANY.values()), list(reversed(pods)))


@pytest.mark.parametrize("workers", [1, 2, 4, 64])
def test_a_reason_fits_into_an_event_for_any_names(workers: int) -> None:
    nodes = [replace(each, name=f"{name}-{'x' * 240}", cordoned=True) for name, each in MANY.items()]
    text = why(nodes, job("a" * 200, workers), name="a" * 200)
    assert len(text.encode()) <= 1024
    assert len(text) <= LONGEST_REASON


def test_reasons_name_the_job_that_units_are_reserved_for() -> None:
    pods = [*running("train", 1), *job("a", 8, age=HOUR), *job("b", 4)]
    nodes = on(MANY, *(f"n{number}-{index}" for number in (1, 2) for index in range(4)))
    assert why(nodes, pods) == (
        "needs 2 whole UltraServers; 1 free; what becomes free is reserved for it; us-01: held by team/train"
    )
    assert why(nodes, pods, "b") == (
        "needs 1 whole UltraServer; 1 free, reserved for team/a; us-02: reserved for team/a; "
        "us-01: held by team/train"
    )


def test_a_size_that_no_unit_has_is_reported() -> None:
    pods = [replace(pod, place=Place(Placer.WHOLE_JOB, 8, 8, "rack")) for pod in job("a", 8)]
    assert why(MANY.values(), pods) == ("needs 1 free unit of 8 nodes; 0 free; at most 0 can become free")


def test_a_job_waits_for_one_of_a_closed_set_of_reasons(monkeypatch: pytest.MonkeyPatch) -> None:
    nodes = servers(3)
    busy = [
        replace(pod, admitted_at=NOW - HOUR, limit=2 * HOUR)
        for pod in bound(job("r", 4), on(nodes, "n1-0", "n1-1", "n1-2", "n1-3"), started=True)
    ]
    pods = [
        *busy,
        *job("first", 12, age=2 * HOUR),
        *job("behind", 8, age=HOUR),
        *job("parts", 4)[:3],
        *job("huge", 16),
        *job("refused", 4),
        *job("odd", 4),
    ]
    memory = Memory().with_refusal(("team", "team.refused"), "a quota", NOW)
    honest = Allocator.admit

    def broken(allocator: Allocator, one_job: Job, *rest: Any) -> Admission:
        assert one_job.key[1] != "team.odd"
        return honest(allocator, one_job, *rest)

    monkeypatch.setattr(Allocator, "admit", broken)
    decision = decide(Topology(nodes.values()), pods, NOW, memory=memory)
    assert {each.job.key[1].removeprefix("team."): each.reason for each in decision.waiting} == {
        "first": Reason.UNITS,
        "behind": Reason.RESERVED,
        "parts": Reason.PODS,
        "huge": Reason.NODES,
        "refused": Reason.BACKOFF,
        "odd": Reason.BUG,
    }
    # Without the reservation, too few units would be free as well.
    larger = [*busy, *job("first", 12, age=2 * HOUR), *job("behind", 12, age=HOUR)]
    later = decide(Topology(nodes.values()), larger, NOW)
    assert [each.reason for each in later.waiting] == [Reason.UNITS, Reason.UNITS]


def test_a_unit_is_in_one_state() -> None:
    nodes = {node.name: node for node in changed(servers(6), n1_0={"cordoned": True}, n2_0=None)}
    there = bound(job("r", 4), on(nodes, *(f"n3-{index}" for index in range(4))), started=True)
    there = [replace(pod, admitted_at=NOW - HOUR, limit=2 * HOUR) for pod in there]
    pair = bound(job("p", 2), on(nodes, "n4-0", "n4-1"), started=True)
    units = decide(Topology(nodes.values()), [*there, *pair], NOW).cluster
    assert units.count_states(SERVER_4) == {"sick": 2, "used": 1, "part": 1, "free": 2, "reserved": 0}
    assert units.count_states(SERVER_2) == {"sick": 2, "used": 3, "part": 0, "free": 7, "reserved": 0}
    units = decide(Topology(nodes.values()), [*there, *pair, *job("first", 12, age=HOUR)], NOW).cluster
    assert units.count_states(SERVER_4) == {"sick": 2, "used": 0, "part": 1, "free": 0, "reserved": 3}
