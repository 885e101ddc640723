"""Tests of jobs that get a part of a unit: of 4 nodes, of 18 nodes with 16 usable, and of 36 nodes."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import product
from typing import Any

import pytest

from contract.keys import GATE, HOSTNAME, SERVER_4
from contract.placement import Placement, Placer
from placement.decide.plan import Decision, Tuning
from placement.decide.topology import Topology
from placement.observe.model import (
    UNITS,
    Apart,
    Demand,
    Expression,
    Node,
    Pod,
    UnitKind,
    UnitSettings,
    units_of,
)
from tests.placement.world import (
    HOUR,
    NOW,
    bind_pods,
    carry_out,
    decide,
    placed_jobs,
    run_scheduler,
    waiting_reasons,
)

LABEL, CHIP = "example.com/rack", "example.com/chip"
DEMAND = Demand({"type": "chips"}, None, (), {CHIP: 4_000})
KINDS = {
    "4": UnitKind(4, 4, shared=True),
    "18 with 16 usable": UnitKind(18, 16, shared=True),
    "36": UnitKind(36, 36, shared=True),
}


def rack(name: str, nodes: int, sick: int = 0) -> list[Node]:
    labels = {"type": "chips", LABEL: name}
    return [
        Node(
            f"{name}-{at:02}",
            {**labels, HOSTNAME: f"{name}-{at:02}"},
            allocatable={CHIP: 4_000, "cpu": 100_000},
            cordoned=at < sick,
        )
        for at in range(nodes)
    ]


def job(name: str, workers: int, size: int = 0, demand: Demand = DEMAND, **changes: Any) -> list[Pod]:
    placement = Placement(Placer.WHOLE_JOB, workers, size or workers, LABEL)
    common: dict[str, Any] = {"job": f"team.{name}", "gates": (GATE,), "created": NOW, "demand": demand}
    return [
        Pod("team", f"{name}-{at}", f"{name}/{at}", placement=placement, number=at, **(common | changes))
        for at in range(workers)
    ]


def tuning_for(kind: UnitKind) -> Tuning:
    return Tuning(units=UNITS | UnitSettings({LABEL: kind}, frozenset({CHIP})))


def decision_about(kind: UnitKind, nodes: Iterable[Node], *jobs: list[Pod]) -> Decision:
    return decide(Topology(nodes), [pod for pods in jobs for pod in pods], NOW, tuning_for(kind))


def running_jobs(racks: Mapping[str, list[Node]], taken: Mapping[str, int]) -> list[Pod]:
    """Returns a running job for each rack, on the last nodes of the rack."""
    running_pods = []
    for name, count in taken.items():
        nodes = racks[name][len(racks[name]) - count :]
        running_pods += bind_pods(job(f"runs-{name}", count), nodes, started=True) if count else []
    return running_pods


def used_counts(kind: UnitKind) -> Iterable[tuple[int, int]]:
    """Returns pairs of numbers of used nodes in two units, from none to all nodes that a job can have."""
    return product(sorted({0, 1, kind.nodes // 2, kind.max_nodes - 1, kind.max_nodes}), repeat=2)


def job_sizes(kind: UnitKind) -> list[int]:
    """Returns sizes of jobs: all sizes for small units, and sizes near the limits for other units."""
    limit_sizes = {1, 2, 5, kind.max_nodes // 2, kind.max_nodes // 2 + 1, kind.max_nodes - 1, kind.max_nodes}
    return [*range(1, kind.max_nodes + 1)] if kind.nodes < 36 else sorted(limit_sizes)


@pytest.mark.limit(10, "each job size with each number of used nodes")
@pytest.mark.parametrize("name", KINDS)
def test_a_job_gets_a_part_of_the_fullest_unit_with_enough_free_nodes(name: str) -> None:
    kind = KINDS[name]
    racks = {rack_name: rack(rack_name, kind.nodes) for rack_name in ("a", "b", "c")}
    nodes = [node for rack_nodes in racks.values() for node in rack_nodes]
    topology, tuning = Topology(nodes), tuning_for(kind)
    for used_in_a, used_in_b in used_counts(kind):
        running_pods = running_jobs(racks, {"a": used_in_a, "b": used_in_b})
        free_counts = {"a": kind.nodes - used_in_a, "b": kind.nodes - used_in_b, "c": kind.nodes}
        for size in job_sizes(kind):
            decision = decide(topology, [*running_pods, *job("new", size)], NOW, tuning)
            fits = {rack_name: free for rack_name, free in free_counts.items() if free >= size}
            partly_used = {rack_name: free for rack_name, free in fits.items() if free < kind.max_nodes}
            fewest_free = min(fits.values()) if not partly_used else min(partly_used.values())
            assert free_counts[placed_jobs(decision)["new"]] == fewest_free, (used_in_a, used_in_b, size)


@pytest.mark.limit(10, "each pair of job sizes with each number of sick nodes")
@pytest.mark.parametrize("name", KINDS)
def test_two_jobs_share_a_unit_only_if_it_has_enough_usable_nodes(name: str) -> None:
    kind = KINDS[name]
    for sick in (0, 1, 3):
        topology = Topology(rack("a", kind.nodes, sick))
        usable_count = kind.nodes - sick
        for first, second in product(job_sizes(kind), repeat=2):
            pods = [*job("first", first), *job("second", second, created=NOW.replace(second=1))]
            decision = decide(topology, pods, NOW, tuning_for(kind))
            fits = [
                first <= usable_count,
                first + second <= usable_count if first <= usable_count else second <= usable_count,
            ]
            assert [name_of_job in placed_jobs(decision) for name_of_job in ("first", "second")] == fits, (
                sick,
                first,
                second,
            )
            if all(fits):
                scheduled_pods = run_scheduler(carry_out(pods, decision), topology)
                assert len({pod.node for pod in scheduled_pods} - {""}) == first + second


def test_each_block_of_a_job_has_its_own_unit() -> None:
    kind = KINDS["18 with 16 usable"]
    nodes = [*rack("a", 18, sick=2), *rack("b", 18, sick=3), *rack("c", 18)]
    assert placed_jobs(decision_about(kind, nodes, job("large", 24, 12))) == {"large": "b a"}
    assert placed_jobs(decision_about(kind, nodes, job("large", 32, 16))) == {"large": "a c"}
    assert (
        "needs 3 free units of 16 nodes; 2 free"
        in waiting_reasons(decision_about(kind, nodes, job("x", 48, 16)))["x"]
    )


def test_the_node_of_a_recreated_worker_stays_free_in_a_full_unit() -> None:
    """Protects a running job from waiting jobs that would take the node of its recreated worker."""
    kind, nodes = KINDS["18 with 16 usable"], rack("a", 18)
    running_pods = bind_pods(job("runs", 10), nodes[:10], started=True)
    pods_with_new_worker = [*running_pods[:-1], job("runs", 10)[-1]]
    decision = decision_about(kind, nodes, pods_with_new_worker, job("waits", 9))
    assert placed_jobs(decision) == {"runs": "a"}
    assert "a: only 8 nodes are free, the others are held by team/runs" in waiting_reasons(decision)["waits"]
    assert placed_jobs(decision_about(kind, nodes, pods_with_new_worker, job("fits", 8))) == {
        "fits": "a",
        "runs": "a",
    }


def test_admitted_pods_without_nodes_keep_enough_suitable_nodes_free() -> None:
    """Protects an admitted job that only few nodes suit from a job that would take these nodes."""
    kind, nodes = KINDS["18 with 16 usable"], rack("a", 18)
    fast_demand = Demand({"type": "chips", "fast": "yes"}, None, (), {CHIP: 4_000})
    fast_nodes = [replace(node, labels={**node.labels, "fast": "yes"}) for node in nodes[:6]]
    nodes = [*fast_nodes, *nodes[6:]]
    pods = job("picky", 4, demand=fast_demand)
    admitted_pods = carry_out(pods, decision_about(kind, nodes, pods))
    assert placed_jobs(decision_about(kind, nodes, admitted_pods, job("two", 2))) == {"two": "a"}
    assert placed_jobs(decision_about(kind, nodes, admitted_pods, job("three", 3))) == {}
    scheduled_pods = run_scheduler(admitted_pods, Topology(fast_nodes))
    assert placed_jobs(decision_about(kind, nodes, scheduled_pods, job("three", 3))) == {"three": "a"}


def test_a_pod_without_a_job_holds_its_node_only_if_it_requests_devices() -> None:
    kind, nodes = KINDS["18 with 16 usable"], rack("a", 18)
    idle_pods = [
        Pod("other", f"cpu-{at}", f"cpu/{at}", demand=Demand(requests={"cpu": 1_000}), node=node.name)
        for at, node in enumerate(nodes)
    ]
    assert placed_jobs(decision_about(kind, nodes, idle_pods, job("all", 16))) == {"all": "a"}
    device_pod = Pod("other", "chip", "chip", demand=Demand(requests={CHIP: 1_000}), node="a-00")
    assert placed_jobs(decision_about(kind, nodes, [device_pod], job("all", 16))) == {"all": "a"}
    assert placed_jobs(decision_about(kind, nodes, [device_pod], job("most", 16), job("rest", 2))) == {
        "most": "a"
    }


@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_a_job_may_use_only_some_nodes_of_a_unit_that_it_does_not_share(size: int) -> None:
    kind = UnitKind(4, 4)
    nodes = [*rack("a", 4, sick=1), *rack("b", 4)]
    other_job = job("other", 1, created=NOW.replace(second=1))
    units_by_job = placed_jobs(decision_about(kind, nodes, job("mine", size), other_job))
    assert units_by_job == ({"mine": "a", "other": "b"} if size < 4 else {"mine": "b", "other": "a"})
    running_pods = bind_pods(job("runs", size), nodes[4 : 4 + size], started=True)
    assert placed_jobs(decision_about(kind, nodes[4:], running_pods, other_job)) == {}


NVL72 = {
    "name": "nvl72",
    "wholeNode": {"nvidia.com/gpu": 4},
    "units": [{"label": LABEL, "nodes": 18, "usable": 16}],
    "shapes": [
        {"name": "one", "workers": "1 to 16", "nodeConfig": "1 to 16", "together": "required"},
        {"name": "blocks", "workers": "multiple of 1", "nodeConfig": "8 to 16", "together": "preferred"},
        {"name": "alone", "workers": "multiple of 1", "nodeConfig": 1, "deny": "no"},
    ],
}


def test_a_reservation_of_a_part_begins_when_enough_nodes_of_the_unit_are_free() -> None:
    nodes = rack("a", 4)
    running_pods = [
        replace(pod, admitted_at=NOW)
        for at in range(3)
        for pod in bind_pods(job(f"runs-{at}", 1, limit=(at + 1) * HOUR), [nodes[at]], started=True)
    ]
    old_job = job("old", 2, created=NOW - HOUR)
    decision = decision_about(KINDS["4"], nodes, running_pods, old_job)
    assert decision.cluster.reservations
    # One node is free now, and another node in an hour.
    assert decision.cluster.reservations[0].begin == NOW + HOUR
    for limit, is_admitted in ((HOUR / 2, True), (2 * HOUR, False)):
        assert placed_jobs(
            decision_about(KINDS["4"], nodes, running_pods, old_job, job("a", 1, limit=limit))
        ) == ({"a": "a"} if is_admitted else {})


def test_anti_affinity_of_a_running_job_keeps_other_jobs_off_a_shared_unit() -> None:
    """The scheduler would never bind the new job there, although the unit has enough free nodes."""
    nodes = [*rack("a", 18), *rack("b", 18)]
    term = Apart(LABEL, (Expression("app", "In", ("x",)),))
    running_pods = bind_pods(job("runs", 2, apart=(term,)), nodes[:2], started=True)
    new_pods = job("new", 2, labels={"app": "x"})
    decision = decision_about(KINDS["18 with 16 usable"], nodes, running_pods, new_pods)
    assert placed_jobs(decision) == {"new": "b"}


def test_the_kind_of_a_unit_is_read_from_the_rows_of_the_table() -> None:
    settings = units_of([NVL72])
    assert settings.kinds[LABEL] == UnitKind(18, 16, shared=True, resource="nvidia.com/gpu")
    assert "nvidia.com/gpu" in settings.devices
    separate_shapes = [{**shape, "apart": "required"} for shape in NVL72["shapes"]]
    assert units_of([{**NVL72, "shapes": separate_shapes}]).kinds[LABEL] == settings.kinds[LABEL]._replace(
        shared=False
    )
    assert units_of([{**NVL72, "mode": False}]) == UNITS
    with pytest.raises(ValueError, match="a row of the rule table is invalid: KeyError: 'nodes'"):
        units_of([{"name": "broken", "units": [{"label": LABEL}]}])


def test_a_job_does_not_get_a_unit_of_which_another_job_gets_a_node_in_the_same_decision() -> None:
    """Protects a unit from two jobs in one decision if only some of its nodes are in a larger unit."""
    larger_unit_labels = {"a": {SERVER_4: "us-01"}, "b": {}}
    nodes = [
        Node(
            zone,
            {"zone": zone, LABEL: "x", HOSTNAME: zone, **larger_unit_labels[zone]},
            allocatable={CHIP: 4_000},
        )
        for zone in larger_unit_labels
    ]
    kinds = {LABEL: UnitKind(2, 2), SERVER_4: UnitKind(4), HOSTNAME: UnitKind(1)}
    demands = {zone: Demand({"zone": zone}, None, (), {CHIP: 4_000}) for zone in larger_unit_labels}
    first_job = job("first", 1, 1, demands["b"], created=NOW - 2 * HOUR)
    pods = [
        *job("large", 2, 1, demands["a"], created=NOW - 3 * HOUR),
        *(replace(pod, placement=Placement(Placer.WHOLE_JOB, 1, 1, HOSTNAME)) for pod in first_job),
        *job("second", 1, 1, demands["a"], created=NOW - HOUR),
    ]
    tuning = Tuning(units=UnitSettings(kinds, frozenset({CHIP})))
    assert placed_jobs(decide(Topology(nodes), pods, NOW, tuning)) == {"first": "b"}
