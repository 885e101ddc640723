"""Guarantees: a team's whole units stay free for it; other jobs may use all that is beyond them."""

import random
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest

from contract.keys import HOSTNAME, SERVER_2, SERVER_4
from placement.decide import choose
from placement.decide.guarantee import Guarantees
from placement.decide.plan import Decision, Memory, Tuning
from placement.decide.topology import Topology
from placement.messages import Reason
from placement.observe.model import UNITS, Demand, Guarantee, Node, Pod, UnitKind, UnitSettings, units_of
from tests.placement.world import (
    DEMAND,
    HOUR,
    MINUTE,
    NOW,
    SECOND,
    bound,
    carry_out,
    decide,
    job,
    on,
    on_unit,
    placed,
    servers,
    waiting,
)

THREE = servers(3)
VISION: dict[str, Any] = {"namespace": "vision-a"}
TWO_FOR_VISION = (Guarantee(("vision-*",), SERVER_4, 2),)


def ask(*pods: Iterable[Pod], guarantees: tuple[Guarantee, ...] = TWO_FOR_VISION, **given: Any) -> Decision:
    tuning = Tuning(units=replace(UNITS, guarantees=guarantees))
    nodes = given.pop("nodes", THREE)
    every = [pod for each in pods for pod in each]
    return decide(Topology(nodes.values()), every, given.pop("now", NOW), tuning, **given)


def running(name: str, *nodes: str, **changes: Any) -> list[Pod]:
    """Returns the pods of a job that has some nodes."""
    there = bound(job(name, len(nodes), **changes), on(THREE, *nodes), started=True)
    return [replace(pod, admitted_at=NOW - HOUR) for pod in there]


def test_another_team_gets_only_what_is_beyond_the_guarantee_and_learns_why_it_waits() -> None:
    decision = ask(job("first", 4, age=HOUR), job("second", 4))
    assert list(placed(decision)) == ["first"]
    assert "us-02: kept free for vision-* by a guarantee" in waiting(decision)["second"]
    assert [each.reason for each in decision.waiting] == [Reason.GUARANTEE]


def test_jobs_that_a_guarantee_excludes_do_not_each_examine_all_units(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Protects the time of a decision from a tenant who creates many jobs beyond another team's guarantee."""
    examined: list[str] = []
    monkeypatch.setattr(choose, "try_take", lambda _, unit: examined.append(unit.id))
    nodes = servers(30)
    jobs = [job(f"j{number}", 4, age=MINUTE) for number in range(40)]
    assert not placed(ask(*jobs, nodes=nodes, guarantees=(Guarantee(("vision-*",), SERVER_4, 30),)))
    assert len(examined) <= 2 * 30


def test_the_team_gets_its_units_although_another_job_has_the_reservation() -> None:
    others = running("other", *(f"n1-{place}" for place in range(4)), limit=9 * HOUR)
    decision = ask(others, job("first", 4, age=720 * HOUR), job("own", 8, **VISION))
    assert list(placed(decision)) == ["vision-a/own"]
    assert decision.cluster.reservations
    assert decision.cluster.reservations[0].units == ("us-01",)


def test_nodes_that_are_reserved_for_another_job_are_kept_for_the_team_as_well() -> None:
    others = running("other", *(f"n1-{place}" for place in range(4)), limit=9 * HOUR)
    one = (Guarantee(("vision-*",), SERVER_4, 1),)
    single = job("single", 8, config=1, age=9 * HOUR)
    decision = ask(others, single, job("own", 4, **VISION), guarantees=one)
    assert decision.cluster.reservations
    assert set(placed(decision)) == {"vision-a/own"}


def test_teams_take_what_is_free_of_guarantees_that_are_not_met_yet() -> None:
    both = (*TWO_FOR_VISION, Guarantee(("speech",), SERVER_4, 1))
    others = running("other", *(f"n{server}-{place}" for server in (1, 2) for place in range(4)))
    decision = ask(others, job("own", 4, **VISION), guarantees=both)
    assert set(placed(decision)) == {"vision-a/own"}


def test_a_job_of_one_node_opens_no_unit_that_is_kept_but_shares_one_in_use() -> None:
    alone = ask(running("other", "n1-0"), job("one", 1))
    assert placed(alone) == {"one": "n1-1"}
    full = running("other", *(f"n1-{place}" for place in range(4)))
    assert not placed(ask(full, job("one", 1)))


def test_what_is_left_of_a_unit_of_the_team_is_for_the_team() -> None:
    own = running("own", "n1-0", **VISION)
    decision = ask(own, job("one", 1, age=HOUR), job("two", 1, namespace="vision-b"))
    # One more unit is owed, so one is for all.
    assert placed(decision) == {"one": "n2-0", "vision-b/two": "n1-1"}


def test_a_unit_that_others_use_too_does_not_count_as_the_teams() -> None:
    mixed = [*running("own", "n1-0", **VISION), *running("other", "n1-1")]
    assert not placed(ask(mixed, job("four", 4)))
    assert set(placed(ask(mixed, job("own8", 8, **VISION)))) == {"vision-a/own8"}


def test_a_job_that_is_larger_than_the_fleet_does_not_wait_for_a_guarantee() -> None:
    needs = "needs 4 whole UltraServers; 3 free; at most 3 can become free"
    assert waiting(ask(job("huge", 16)))["huge"] == needs


def test_beyond_its_guarantee_a_team_leaves_what_the_others_are_owed() -> None:
    both = (*TWO_FOR_VISION, Guarantee(("speech",), SERVER_4, 1))
    decision = ask(job("large", 12, age=HOUR, **VISION), guarantees=both)
    needs = "needs 3 whole UltraServers; 3 can be used, and 1 of them is guaranteed to speech"
    assert needs in waiting(decision)["vision-a/large"]
    assert decision.waiting[0].reason is Reason.NODES
    # It never fits, so it keeps no unit from others.
    assert not decision.cluster.reservations
    assert set(placed(ask(job("large", 8, **VISION), guarantees=both))) == {"vision-a/large"}


def test_a_guarantee_is_unmet_as_far_as_no_free_unit_is_left_for_it() -> None:
    others = [*running("other", *(f"n1-{place}" for place in range(4))), *running("one", "n2-0")]
    decision = ask(others, guarantees=TWO_FOR_VISION)
    assert decision.cluster.guarantees is not None
    assert decision.cluster.guarantees.unmet_units == {TWO_FOR_VISION[0]: 1}


def test_units_of_an_unknown_label_are_not_kept() -> None:
    assert set(placed(ask(job("large", 12), guarantees=(Guarantee(("*",), "example.com/rack", 9),)))) == {
        "large"
    }


RACK = "example.com/rack"
RACKS = {
    name: Node(name, {HOSTNAME: name, RACK: name[:2]}, allocatable={"gpu": 4000, "pods": 110_000})
    for name in (f"r{rack}-{number:02}" for rack in range(3) for number in range(18))
}
GPUS = Demand(requests={"gpu": 4000})


def on_racks(*pods: Iterable[Pod], guarantees: tuple[Guarantee, ...], racks: bool = True) -> Decision:
    kinds = {**UNITS.kinds, RACK: UnitKind(18, 16, shared=True, resource="gpu")}
    units = UnitSettings(kinds, UNITS.devices | {"gpu"}, guarantees)
    nodes = [*THREE.values(), *(RACKS.values() if racks else ())]
    return decide(Topology(nodes), [pod for each in pods for pod in each], NOW, Tuning(units=units))


@pytest.mark.parametrize("racks", [True, False])
def test_a_guarantee_of_one_family_means_nothing_to_jobs_of_another(*, racks: bool) -> None:
    others = running("other", *(f"n1-{place}" for place in range(4)), limit=9 * HOUR)
    first, own = job("first", 12, age=720 * HOUR), job("own", 4, **VISION)
    decision = on_racks(others, first, own, guarantees=(Guarantee(("vision-*",), RACK, 2),), racks=racks)
    assert decision.cluster.reservations
    assert decision.cluster.reservations[0].job == ("team", "team.first")
    assert [each.reason for each in decision.waiting] == [Reason.UNITS, Reason.RESERVED]


def test_blocks_of_a_shared_rack_need_as_many_racks_as_they_fill() -> None:
    ten = [
        replace(pod, demand=GPUS, place=pod.place and replace(pod.place, size=10, unit=RACK))
        for pod in job("ten", 30, config=1)
    ]
    decision = on_racks(ten, guarantees=(Guarantee(("vision-*",), RACK, 1),))
    needs = "needs 3 free units of 18 nodes; 3 can be used, and 1 of them is guaranteed to vision-*"
    assert needs in decision.waiting[0].why
    assert decision.waiting[0].reason is Reason.NODES


def test_a_unit_of_a_failed_admission_is_the_last_that_a_team_gets() -> None:
    memory = Memory(doubtful_nodes={f"n1-{place}": NOW - 59 * MINUTE for place in range(4)})
    assert placed(ask(job("own", 4, **VISION), memory=memory)) == {"vision-a/own": "us-02"}


def running_on(nodes: dict[str, Node], *numbers: int) -> list[Pod]:
    """Returns the pods of jobs that each have an UltraServer for hours, the later ones for longer."""
    return [
        replace(pod, admitted_at=NOW - HOUR, limit=(8 + server) * HOUR)
        for server in numbers
        for pod in bound(
            job(f"o{server}", 4), on(nodes, *(f"n{server}-{number}" for number in range(4))), started=True
        )
    ]


def test_a_reservation_begins_when_as_many_units_are_free_as_others_are_owed_as_well() -> None:
    """Otherwise a later job would get one of these units, and the first job would wait for it."""
    nodes = servers(4)
    decision = ask(running_on(nodes, 2, 3, 4), job("first", 8, age=720 * HOUR), job("second", 4), nodes=nodes)
    reservation = next(iter(decision.cluster.reservations), None)
    assert reservation is not None
    assert (reservation.units, reservation.begin) == (("us-02", "us-03"), NOW + 11 * HOUR)
    assert reservation.nodes >= {"n4-0"}


def test_units_that_are_owed_are_not_reserved_for_smaller_ones() -> None:
    nodes = servers(4)
    others = running_on(nodes, 2, 3, 4)
    pairs = job("pairs", 6, age=9 * HOUR)
    decision = ask(others, pairs, guarantees=(Guarantee(("vision-*",), SERVER_4, 1),), nodes=nodes)
    assert decision.cluster.reservations
    assert decision.cluster.reservations[0].units == ("us-02-a", "us-02-b", "us-03-a")


def test_a_unit_of_the_team_with_a_sick_node_is_owed_again() -> None:
    nodes = {**THREE, "n1-0": replace(THREE["n1-0"], ready=False)}
    own = running("own", *(f"n1-{place}" for place in range(4)), **VISION)
    one = (Guarantee(("vision-*",), SERVER_4, 1),)
    decision = ask(own, job("four", 4), job("more", 4), guarantees=one, nodes=nodes)
    assert set(placed(decision)) == {"four"}


def test_free_units_that_are_too_few_are_not_called_kept() -> None:
    own = running("own", *(f"n1-{place}" for place in range(4)), **VISION)
    held = running("more", *(f"n2-{place}" for place in range(4)))
    one = (Guarantee(("vision-*",), SERVER_4, 1),)
    assert "us-03" not in waiting(ask(own, held, job("eight", 8), guarantees=one))["eight"]


def test_more_guarantees_than_units_leave_a_team_its_own() -> None:
    both = (Guarantee(("vision-*",), SERVER_4, 1), Guarantee(("speech",), SERVER_4, 3))
    assert set(placed(ask(job("own", 4, **VISION), guarantees=both))) == {"vision-a/own"}


@pytest.mark.parametrize(
    "change",
    [
        {"namespaces": 7},
        {"namespaces": [7]},
        {"namespaces": [["a"]]},
        {"unit": ["x"]},
        {"count": float("inf")},
        {"count": 10**400},
        {"count": -3},
        {"count": True},
    ],
)
def test_an_invalid_guarantee_makes_the_table_unusable(change: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="a row of the rule table is invalid"):
        units_of([], [{"namespaces": "a", "unit": "x", "count": 1} | change])


@pytest.mark.parametrize("seed", range(12))
def test_a_team_within_its_guarantee_never_waits(seed: int) -> None:
    chance = random.Random(seed)  # noqa: S311 - a world that can be had again
    nodes = servers(6)
    rows = (Guarantee(("vision-*",), SERVER_4, 2), Guarantee(("speech",), SERVER_4, 1))
    pods: list[Pod] = []
    memory, now = Memory(), NOW
    for step in range(25):
        now += 600 * SECOND
        ended = {pod.job for pod in pods if chance.random() < 0.15}
        pods = [pod for pod in pods if pod.job not in ended]
        teams = ["vision-a", "speech", *["other"] * 3]
        for number in range(chance.randrange(4)):
            team, workers = chance.choice(teams), chance.choice([1, 1, 2, 4, 8])
            pods += job(f"j{step}-{number}", workers, namespace=team, created=now)
        decision = ask(pods, guarantees=rows, nodes=nodes, memory=memory, now=now)
        assert not decision.errors
        guarantees = decision.cluster.guarantees
        assert set(guarantees.unmet_units.values()) == {0}
        assert not [each for each in decision.waiting if guarantees.covers(each.job)]
        _assert_counted(decision)
        memory = decision.memory
        pods = _bound(carry_out(pods, decision, now), nodes)


def _assert_counted(decision: Decision) -> None:
    """Checks the counts, which change with each admission, against those of all units."""
    cluster, counted = decision.cluster, decision.cluster.guarantees
    parts = cluster.topology, cluster.units, cluster.holders, cluster.parts
    afresh = Guarantees(*parts)
    assert counted.unmet_units == afresh.unmet_units
    for each in decision.waiting:
        assert counted.allowances(each.job) == afresh.allowances(each.job)


def _bound(pods: list[Pod], nodes: Any) -> list[Pod]:
    """Returns the pods, each admitted one on the next free node of its unit."""
    used = {pod.node for pod in pods if pod.node}
    result = []
    for pod in pods:
        if pod.node or pod.gated:
            result.append(pod)
            continue
        node = next(
            node
            for node in nodes.values()
            if node.name not in used
            and all(node.labels.get(key) == value for key, value in pod.demand.selector.items())
        )
        used.add(node.name)
        result.append(replace(pod, node=node.name, started=True))
    return result


def with_team_of_two(
    large: str = "vision-a", guarantees: tuple[Guarantee, ...] = TWO_FOR_VISION, **small: Any
) -> Decision:
    """Returns the decision when ``vision`` has one of its two units, and a large job of it waits for both."""
    nodes = servers(4)
    others, own = running_on(nodes, 3, 4), running_on(nodes, 1)
    own = [replace(pod, namespace="vision-b") for pod in own]
    waiting_jobs = job("first", 8, age=9000 * HOUR), job("large", 8, age=8 * HOUR, namespace=large)
    small_job = job("small", 4, **{**VISION, **small})
    return ask(others, own, *waiting_jobs, small_job, nodes=nodes, guarantees=guarantees)


def test_a_job_within_a_guarantee_has_a_reservation_although_another_job_has_the_reservation() -> None:
    """Otherwise smaller jobs of its team would take each unit that is owed, and it would wait for ever."""
    decision = with_team_of_two()
    assert not placed(decision)
    assert [each.job[1] for each in decision.cluster.reservations] == ["team.first", "vision-a.large"]
    reservation = decision.cluster.reservations.earliest_of(("vision-a", "vision-a.large"))
    assert reservation
    assert (reservation.units, reservation.begin) == (("us-01", "us-02"), NOW + 8 * HOUR)
    assert "us-02: reserved for vision-a/large" in waiting(decision)["vision-a/small"]
    # Jobs of the same team in another namespace, too, but not a job that ends before.
    assert not placed(with_team_of_two(namespace="vision-c"))
    assert placed(with_team_of_two(limit=7 * HOUR)) == {"vision-a/small": "us-02"}


@pytest.mark.parametrize(("demand", "unit"), [(DEMAND, "us-04"), (on_unit("us-03"), "us-03")])
def test_other_teams_take_units_that_are_reserved_within_a_guarantee_last(demand: Demand, unit: str) -> None:
    nodes = servers(5)
    own = [replace(pod, namespace="vision-b") for pod in running_on(nodes, 1, 2)]
    first = job("first", 4, age=720 * HOUR, demand=on_unit("us-05"))  # it has the reservation for all
    large, small = job("large", 12, age=HOUR, **VISION), job("small", 4, demand=demand)
    three = (Guarantee(("vision-*",), SERVER_4, 3),)
    decision = ask(own, running_on(nodes, 5), first, large, small, nodes=nodes, guarantees=three)
    assert [each.units for each in decision.cluster.reservations] == [("us-05",), ("us-01", "us-02", "us-03")]
    assert placed(decision) == {"small": unit}  # the other free unit is owed


def test_general_reservations_together_leave_what_a_team_is_owed() -> None:
    nodes = servers(5)
    own = bound(job("own", 2, config=2, namespace="vision-b"), on(nodes, "n1-0", "n1-1"), started=True)
    first, second = job("first", 8, age=50 * HOUR), job("second", 8, age=49 * HOUR, namespace="other")
    pairs = job("pairs", 6, config=2, age=9 * HOUR, **VISION)
    decision = ask(own, running_on(nodes, 4, 5), first, second, pairs, nodes=nodes)
    assert placed(decision) == {"vision-a/pairs": "us-01-b us-03-a us-03-b"}


@pytest.mark.parametrize("more", [(), (Guarantee(("tiny",), SERVER_2, 1),)])
def test_what_is_reserved_for_a_team_counts_whatever_label_comes_first(more: tuple[Guarantee, ...]) -> None:
    nodes = servers(6)
    own = [replace(pod, namespace="vision-b") for pod in running_on(nodes, 1, 2)]
    tiny = bound(job("tiny", 2, config=2, namespace="tiny"), on(nodes, "n5-0", "n5-1"), started=True)
    first = job("first", 4, age=720 * HOUR, demand=on_unit("us-06"))
    large, small = job("large", 12, age=HOUR, **VISION), job("small", 4, **VISION)
    teams = (*more, Guarantee(("vision-*",), SERVER_4, 3), Guarantee(("speech",), SERVER_4, 1))
    pods = [own, tiny, running_on(nodes, 6), first, large, small]
    decision = ask(*pods, nodes=nodes, guarantees=teams)
    assert not placed(decision)
    assert decision.waiting[-1].reason is Reason.GUARANTEE


def test_a_reservation_keeps_off_only_namespaces_to_which_the_guarantee_applies() -> None:
    """If rows overlap, the first row applies."""
    rows = (Guarantee(("vision-a",), SERVER_4, 1), *TWO_FOR_VISION)
    assert placed(with_team_of_two(namespace="vision-c", large="vision-b")) == {}
    decision = with_team_of_two(large="vision-b", guarantees=rows)
    assert set(placed(decision)) == {"vision-a/small"}
