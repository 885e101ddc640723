"""Units of which a job may have a part: of 4 nodes, of 18 of which 16 count, and of 36."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import product
from typing import Any

import pytest

from contract.keys import GATE, HOSTNAME, SERVER_4
from contract.place import Place, Placer
from placement.decide.plan import Decision, Tuning
from placement.decide.topology import Topology
from placement.observe.model import UNITS, Demand, Node, Pod, UnitKind, UnitSettings, units_of
from tests.placement.world import HOUR, NOW, bound, carry_out, decide, placed, settled, waiting

LABEL, CHIP = "example.com/rack", "example.com/chip"
DEMAND = Demand({"type": "chips"}, None, (), {CHIP: 4_000})
KINDS = {
    "4": UnitKind(4, 4, shared=True),
    "18 of which 16 count": UnitKind(18, 16, shared=True),
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
    place = Place(Placer.WHOLE_JOB, workers, size or workers, LABEL)
    common: dict[str, Any] = {"job": f"team.{name}", "gates": (GATE,), "created": NOW, "demand": demand}
    return [
        Pod("team", f"{name}-{at}", f"{name}/{at}", place=place, number=at, **(common | changes))
        for at in range(workers)
    ]


def tuned(kind: UnitKind) -> Tuning:
    return Tuning(units=UNITS | UnitSettings({LABEL: kind}, frozenset({CHIP})))


def decided(kind: UnitKind, nodes: Iterable[Node], *jobs: list[Pod]) -> Decision:
    return decide(Topology(nodes), [pod for each in jobs for pod in each], NOW, tuned(kind))


def filled(racks: Mapping[str, list[Node]], taken: Mapping[str, int]) -> list[Pod]:
    """A job that runs on some nodes of each rack, the last ones, which are not sick."""
    runs = []
    for name, count in taken.items():
        there = racks[name][len(racks[name]) - count :]
        runs += bound(job(f"runs-{name}", count), there, started=True) if count else []
    return runs


def fillings(kind: UnitKind) -> Iterable[tuple[int, int]]:
    """How many nodes are taken of two units: none, one, half, and nearly or all of those that count."""
    return product(sorted({0, 1, kind.nodes // 2, kind.max_nodes - 1, kind.max_nodes}), repeat=2)


def sizes(kind: UnitKind) -> list[int]:
    """Sizes of jobs: every one for small units, those about the edges for others."""
    edges = {1, 2, 5, kind.max_nodes // 2, kind.max_nodes // 2 + 1, kind.max_nodes - 1, kind.max_nodes}
    return [*range(1, kind.max_nodes + 1)] if kind.nodes < 36 else sorted(edges)


@pytest.mark.limit(10, "every size of job with every filling")
@pytest.mark.parametrize("name", KINDS)
def test_a_job_gets_a_part_of_the_fullest_unit_that_has_room_and_whole_units_stay_whole(name: str) -> None:
    kind = KINDS[name]
    racks = {each: rack(each, kind.nodes) for each in ("a", "b", "c")}
    nodes = [node for each in racks.values() for node in each]
    topology, tuning = Topology(nodes), tuned(kind)
    for left, right in fillings(kind):
        runs = filled(racks, {"a": left, "b": right})
        room = {"a": kind.nodes - left, "b": kind.nodes - right, "c": kind.nodes}
        for size in sizes(kind):
            decision = decide(topology, [*runs, *job("new", size)], NOW, tuning)
            fits = {each: free for each, free in room.items() if free >= size}
            broken = {each: free for each, free in fits.items() if free < kind.max_nodes}
            least = min(fits.values()) if not broken else min(broken.values())
            assert room[placed(decision)["new"]] == least, (left, right, size)


@pytest.mark.limit(10, "every pair of sizes with every number of sick nodes")
@pytest.mark.parametrize("name", KINDS)
def test_jobs_of_any_two_sizes_share_a_unit_as_far_as_its_nodes_go_and_no_further(name: str) -> None:
    kind = KINDS[name]
    for sick in (0, 1, 3):
        topology = Topology(rack("a", kind.nodes, sick))
        able = kind.nodes - sick
        for first, second in product(sizes(kind), repeat=2):
            pods = [*job("first", first), *job("second", second, created=NOW.replace(second=1))]
            decision = decide(topology, pods, NOW, tuned(kind))
            fits = [first <= able, first + second <= able if first <= able else second <= able]
            assert [each in placed(decision) for each in ("first", "second")] == fits, (sick, first, second)
            if all(fits):
                after = settled(carry_out(pods, decision), topology)
                assert len({pod.node for pod in after} - {""}) == first + second


def test_blocks_of_a_larger_job_are_on_units_of_their_own() -> None:
    kind = KINDS["18 of which 16 count"]
    nodes = [*rack("a", 18, sick=2), *rack("b", 18, sick=3), *rack("c", 18)]
    assert placed(decided(kind, nodes, job("large", 24, 12))) == {"large": "b a"}
    assert placed(decided(kind, nodes, job("large", 32, 16))) == {"large": "a c"}
    assert "needs 3 free units of 16 nodes; 2 free" in waiting(decided(kind, nodes, job("x", 48, 16)))["x"]


def test_a_worker_that_comes_back_finds_its_node_free_in_a_full_unit() -> None:
    """Protects jobs that share a unit from those that wait for a node of it."""
    kind, nodes = KINDS["18 of which 16 count"], rack("a", 18)
    runs = bound(job("runs", 10), nodes[:10], started=True)
    back = [*runs[:-1], job("runs", 10)[-1]]
    decision = decided(kind, nodes, back, job("waits", 9))
    assert placed(decision) == {"runs": "a"}
    assert "a: 8 nodes free, held by team/runs" in waiting(decision)["waits"]
    assert placed(decided(kind, nodes, back, job("fits", 8))) == {"fits": "a", "runs": "a"}


def test_pods_that_the_scheduler_has_still_to_bind_find_nodes_whichever_others_take() -> None:
    """If one of two jobs can use few nodes, the other might take these."""
    kind, nodes = KINDS["18 of which 16 count"], rack("a", 18)
    few = Demand({"type": "chips", "fast": "yes"}, None, (), {CHIP: 4_000})
    quick = [replace(node, labels={**node.labels, "fast": "yes"}) for node in nodes[:6]]
    nodes = [*quick, *nodes[6:]]
    pods = job("picky", 4, demand=few)
    first = carry_out(pods, decided(kind, nodes, pods))
    assert placed(decided(kind, nodes, first, job("two", 2))) == {"two": "a"}
    assert placed(decided(kind, nodes, first, job("three", 3))) == {}
    there = settled(first, Topology(quick))
    assert placed(decided(kind, nodes, there, job("three", 3))) == {"three": "a"}


def test_pods_without_devices_and_without_a_job_use_cpu_and_memory() -> None:
    kind, nodes = KINDS["18 of which 16 count"], rack("a", 18)
    idle = [
        Pod("other", f"cpu-{at}", f"cpu/{at}", demand=Demand(requests={"cpu": 1_000}), node=node.name)
        for at, node in enumerate(nodes)
    ]
    assert placed(decided(kind, nodes, idle, job("all", 16))) == {"all": "a"}
    lodger = Pod("other", "chip", "chip", demand=Demand(requests={CHIP: 1_000}), node="a-00")
    assert placed(decided(kind, nodes, [lodger], job("all", 16))) == {"all": "a"}
    assert placed(decided(kind, nodes, [lodger], job("most", 16), job("rest", 2))) == {"most": "a"}


@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_a_job_that_has_a_unit_to_itself_may_use_some_of_its_nodes_only(size: int) -> None:
    kind = UnitKind(4, 4)
    nodes = [*rack("a", 4, sick=1), *rack("b", 4)]
    others = job("other", 1, created=NOW.replace(second=1))
    result = placed(decided(kind, nodes, job("mine", size), others))
    assert result == ({"mine": "a", "other": "b"} if size < 4 else {"mine": "b", "other": "a"})
    runs = bound(job("runs", size), nodes[4 : 4 + size], started=True)
    assert placed(decided(kind, nodes[4:], runs, others)) == {}


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


def test_a_part_is_reserved_from_when_enough_nodes_of_the_unit_are_free() -> None:
    nodes = rack("a", 4)
    runs = [
        replace(pod, admitted_at=NOW)
        for at in range(3)
        for pod in bound(job(f"runs-{at}", 1, limit=(at + 1) * HOUR), [nodes[at]], started=True)
    ]
    old = job("old", 2, created=NOW - HOUR)
    decision = decided(KINDS["4"], nodes, runs, old)
    assert decision.cluster.reservations
    assert decision.cluster.reservations[0].begin == NOW + HOUR  # one is free, and another in an hour
    for limit, passes in ((HOUR / 2, True), (2 * HOUR, False)):
        assert placed(decided(KINDS["4"], nodes, runs, old, job("a", 1, limit=limit))) == (
            {"a": "a"} if passes else {}
        )


def test_what_units_are_follows_from_the_rows() -> None:
    result = units_of([NVL72])
    assert result.kinds[LABEL] == UnitKind(18, 16, shared=True, resource="nvidia.com/gpu")
    assert "nvidia.com/gpu" in result.devices
    apart = [{**shape, "apart": "required"} for shape in NVL72["shapes"]]
    assert units_of([{**NVL72, "shapes": apart}]).kinds[LABEL] == result.kinds[LABEL]._replace(shared=False)
    assert units_of([{**NVL72, "mode": False}]) == UNITS
    with pytest.raises(ValueError, match="a row of the rule table is invalid: KeyError: 'nodes'"):
        units_of([{"name": "broken", "units": [{"label": LABEL}]}])


def test_a_node_that_does_not_suit_a_job_keeps_it_off_the_whole_unit() -> None:
    """Protects a unit from two jobs in one decision, if its nodes have different labels of larger units."""
    larger = {"a": {SERVER_4: "us-01"}, "b": {}}
    nodes = [
        Node(zone, {"zone": zone, LABEL: "x", HOSTNAME: zone, **larger[zone]}, allocatable={CHIP: 4_000})
        for zone in larger
    ]
    kinds = {LABEL: UnitKind(2, 2), SERVER_4: UnitKind(4), HOSTNAME: UnitKind(1)}
    demands = {zone: Demand({"zone": zone}, None, (), {CHIP: 4_000}) for zone in larger}
    first = job("first", 1, 1, demands["b"], created=NOW - 2 * HOUR)
    pods = [
        *job("large", 2, 1, demands["a"], created=NOW - 3 * HOUR),
        *(replace(pod, place=Place(Placer.WHOLE_JOB, 1, 1, HOSTNAME)) for pod in first),
        *job("second", 1, 1, demands["a"], created=NOW - HOUR),
    ]
    tuning = Tuning(units=UnitSettings(kinds, frozenset({CHIP})))
    assert placed(decide(Topology(nodes), pods, NOW, tuning)) == {"first": "b"}
