"""Tests of guarantees: enough whole units stay free for a team, and other jobs may use all other units."""

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
    bind_pods,
    carry_out,
    decide,
    demand_on_unit,
    job,
    placed_jobs,
    select_nodes,
    servers,
    waiting_reasons,
)

THREE_SERVERS = servers(3)
TEAM: dict[str, Any] = {"namespace": "vision-a"}
TWO_UNITS = (Guarantee(("vision-*",), SERVER_4, 2),)


def decision_about(
    *pods: Iterable[Pod], guarantees: tuple[Guarantee, ...] = TWO_UNITS, **inputs: Any
) -> Decision:
    tuning = Tuning(units=replace(UNITS, guarantees=guarantees))
    nodes = inputs.pop("nodes", THREE_SERVERS)
    all_pods = [pod for job_pods in pods for pod in job_pods]
    return decide(Topology(nodes.values()), all_pods, inputs.pop("now", NOW), tuning, **inputs)


def running(name: str, *nodes: str, **changes: Any) -> list[Pod]:
    """Returns the pods of a job that runs on the given nodes."""
    running_pods = bind_pods(
        job(name, len(nodes), **changes), select_nodes(THREE_SERVERS, *nodes), started=True
    )
    return [replace(pod, admitted_at=NOW - HOUR) for pod in running_pods]


def test_another_team_gets_only_units_beyond_the_guarantee() -> None:
    decision = decision_about(job("first", 4, age=HOUR), job("second", 4))
    assert list(placed_jobs(decision)) == ["first"]
    assert "us-02: guaranteed to vision-*" in waiting_reasons(decision)["second"]
    assert [waiting_job.reason for waiting_job in decision.waiting] == [Reason.GUARANTEE]


def test_jobs_that_a_guarantee_excludes_do_not_each_examine_all_units(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Protects the time of a decision from a tenant who creates many jobs beyond another team's guarantee."""
    examined: list[str] = []
    monkeypatch.setattr(choose, "try_take", lambda _, unit: examined.append(unit.id))
    nodes = servers(30)
    jobs = [job(f"j{number}", 4, age=MINUTE) for number in range(40)]
    assert not placed_jobs(
        decision_about(*jobs, nodes=nodes, guarantees=(Guarantee(("vision-*",), SERVER_4, 30),))
    )
    assert len(examined) <= 2 * 30


def test_the_team_gets_its_units_although_another_job_has_the_reservation() -> None:
    other_job = running("other", *(f"n1-{number}" for number in range(4)), limit=9 * HOUR)
    decision = decision_about(other_job, job("first", 4, age=720 * HOUR), job("own", 8, **TEAM))
    assert list(placed_jobs(decision)) == ["vision-a/own"]
    assert decision.cluster.reservations
    assert decision.cluster.reservations[0].units == ("us-01",)


def test_nodes_that_are_reserved_for_another_job_are_also_kept_for_the_team() -> None:
    other_job = running("other", *(f"n1-{number}" for number in range(4)), limit=9 * HOUR)
    guarantees = (Guarantee(("vision-*",), SERVER_4, 1),)
    waiting_job = job("single", 8, config=1, age=9 * HOUR)
    decision = decision_about(other_job, waiting_job, job("own", 4, **TEAM), guarantees=guarantees)
    assert decision.cluster.reservations
    assert set(placed_jobs(decision)) == {"vision-a/own"}


def test_a_team_may_use_free_units_although_not_all_guarantees_can_be_met() -> None:
    two_guarantees = (*TWO_UNITS, Guarantee(("speech",), SERVER_4, 1))
    other_job = running("other", *(f"n{server}-{number}" for server in (1, 2) for number in range(4)))
    decision = decision_about(other_job, job("own", 4, **TEAM), guarantees=two_guarantees)
    assert set(placed_jobs(decision)) == {"vision-a/own"}


def test_a_single_worker_gets_a_node_of_a_unit_in_use_but_not_of_an_owed_unit() -> None:
    decision = decision_about(running("other", "n1-0"), job("one", 1))
    assert placed_jobs(decision) == {"one": "n1-1"}
    full_unit = running("other", *(f"n1-{number}" for number in range(4)))
    assert not placed_jobs(decision_about(full_unit, job("one", 1)))


def test_free_nodes_of_a_unit_that_a_team_uses_are_kept_for_the_team() -> None:
    running_pods = running("own", "n1-0", **TEAM)
    decision = decision_about(running_pods, job("one", 1, age=HOUR), job("two", 1, namespace="vision-b"))
    # One more unit is owed to the team, so one unit is left for other jobs.
    assert placed_jobs(decision) == {"one": "n2-0", "vision-b/two": "n1-1"}


def test_a_unit_that_another_team_uses_too_does_not_count_for_the_guarantee() -> None:
    pods_of_two_teams = [*running("own", "n1-0", **TEAM), *running("other", "n1-1")]
    assert not placed_jobs(decision_about(pods_of_two_teams, job("four", 4)))
    assert set(placed_jobs(decision_about(pods_of_two_teams, job("own8", 8, **TEAM)))) == {"vision-a/own8"}


def test_the_reason_of_a_job_larger_than_the_cluster_names_no_guarantee() -> None:
    needs = "needs 4 whole UltraServers; 3 free; at most 3 can become free"
    assert waiting_reasons(decision_about(job("huge", 16)))["huge"] == needs


def test_beyond_its_guarantee_a_team_does_not_get_units_owed_to_other_teams() -> None:
    two_guarantees = (*TWO_UNITS, Guarantee(("speech",), SERVER_4, 1))
    decision = decision_about(job("large", 12, age=HOUR, **TEAM), guarantees=two_guarantees)
    needs = "needs 3 whole UltraServers; 3 can be used, and 1 of them is guaranteed to speech"
    assert needs in waiting_reasons(decision)["vision-a/large"]
    assert decision.waiting[0].reason is Reason.NODES
    # The job never fits, so no unit is reserved for it.
    assert not decision.cluster.reservations
    assert set(placed_jobs(decision_about(job("large", 8, **TEAM), guarantees=two_guarantees))) == {
        "vision-a/large"
    }


def test_units_that_are_owed_but_not_free_are_unmet() -> None:
    other_jobs = [*running("other", *(f"n1-{number}" for number in range(4))), *running("one", "n2-0")]
    decision = decision_about(other_jobs, guarantees=TWO_UNITS)
    assert decision.cluster.guarantees is not None
    assert decision.cluster.guarantees.unmet_units == {TWO_UNITS[0]: 1}


def test_a_guarantee_of_units_of_an_unknown_label_has_no_effect() -> None:
    assert set(
        placed_jobs(decision_about(job("large", 12), guarantees=(Guarantee(("*",), "example.com/rack", 9),)))
    ) == {"large"}


RACK = "example.com/rack"
RACK_NODES = {
    name: Node(name, {HOSTNAME: name, RACK: name[:2]}, allocatable={"gpu": 4000, "pods": 110_000})
    for name in (f"r{rack}-{number:02}" for rack in range(3) for number in range(18))
}
GPU_DEMAND = Demand(requests={"gpu": 4000})


def decision_with_racks(
    *pods: Iterable[Pod], guarantees: tuple[Guarantee, ...], racks: bool = True
) -> Decision:
    kinds = {**UNITS.kinds, RACK: UnitKind(18, 16, shared=True, resource="gpu")}
    units = UnitSettings(kinds, UNITS.devices | {"gpu"}, guarantees)
    nodes = [*THREE_SERVERS.values(), *(RACK_NODES.values() if racks else ())]
    return decide(Topology(nodes), [pod for job_pods in pods for pod in job_pods], NOW, Tuning(units=units))


@pytest.mark.parametrize("racks", [True, False])
def test_a_guarantee_of_a_family_does_not_affect_jobs_of_another_family(*, racks: bool) -> None:
    other_job = running("other", *(f"n1-{number}" for number in range(4)), limit=9 * HOUR)
    first_job, team_job = job("first", 12, age=720 * HOUR), job("own", 4, **TEAM)
    decision = decision_with_racks(
        other_job, first_job, team_job, guarantees=(Guarantee(("vision-*",), RACK, 2),), racks=racks
    )
    assert decision.cluster.reservations
    assert decision.cluster.reservations[0].job == ("team", "team.first")
    assert [waiting_job.reason for waiting_job in decision.waiting] == [Reason.UNITS, Reason.RESERVED]


def test_a_job_with_three_large_blocks_needs_three_shared_racks() -> None:
    job_with_large_blocks = [
        replace(
            pod, demand=GPU_DEMAND, placement=pod.placement and replace(pod.placement, size=10, unit=RACK)
        )
        for pod in job("ten", 30, config=1)
    ]
    decision = decision_with_racks(job_with_large_blocks, guarantees=(Guarantee(("vision-*",), RACK, 1),))
    needs = "needs 3 free units of 18 nodes; 3 can be used, and 1 of them is guaranteed to vision-*"
    assert needs in decision.waiting[0].why
    assert decision.waiting[0].reason is Reason.NODES


def test_a_team_gets_a_unit_of_a_failed_admission_last() -> None:
    memory = Memory(doubtful_nodes={f"n1-{number}": NOW - 59 * MINUTE for number in range(4)})
    assert placed_jobs(decision_about(job("own", 4, **TEAM), memory=memory)) == {"vision-a/own": "us-02"}


def running_jobs(nodes: dict[str, Node], *numbers: int) -> list[Pod]:
    """Returns the pods of a running job on each of the UltraServers. A higher number ends later."""
    return [
        replace(pod, admitted_at=NOW - HOUR, limit=(8 + server) * HOUR)
        for server in numbers
        for pod in bind_pods(
            job(f"o{server}", 4),
            select_nodes(nodes, *(f"n{server}-{number}" for number in range(4))),
            started=True,
        )
    ]


def test_a_reservation_begins_when_the_units_owed_to_other_teams_are_free_too() -> None:
    """Otherwise a later job would get one of these units, and the first job would wait for it."""
    nodes = servers(4)
    decision = decision_about(
        running_jobs(nodes, 2, 3, 4), job("first", 8, age=720 * HOUR), job("second", 4), nodes=nodes
    )
    reservation = next(iter(decision.cluster.reservations), None)
    assert reservation is not None
    assert (reservation.units, reservation.begin) == (("us-02", "us-03"), NOW + 11 * HOUR)
    assert reservation.nodes >= {"n4-0"}


def test_units_owed_to_a_team_are_not_reserved_as_smaller_units() -> None:
    nodes = servers(4)
    other_jobs = running_jobs(nodes, 2, 3, 4)
    pair_job = job("pairs", 6, age=9 * HOUR)
    decision = decision_about(
        other_jobs, pair_job, guarantees=(Guarantee(("vision-*",), SERVER_4, 1),), nodes=nodes
    )
    assert decision.cluster.reservations
    assert decision.cluster.reservations[0].units == ("us-02-a", "us-02-b", "us-03-a")


def test_a_team_is_owed_another_unit_if_a_node_of_its_unit_is_sick() -> None:
    nodes = {**THREE_SERVERS, "n1-0": replace(THREE_SERVERS["n1-0"], ready=False)}
    team_job = running("own", *(f"n1-{number}" for number in range(4)), **TEAM)
    one_unit = (Guarantee(("vision-*",), SERVER_4, 1),)
    decision = decision_about(team_job, job("four", 4), job("more", 4), guarantees=one_unit, nodes=nodes)
    assert set(placed_jobs(decision)) == {"four"}


def test_a_reason_does_not_call_a_free_unit_guaranteed_if_too_few_units_are_free() -> None:
    team_job = running("own", *(f"n1-{number}" for number in range(4)), **TEAM)
    other_job = running("more", *(f"n2-{number}" for number in range(4)))
    one_unit = (Guarantee(("vision-*",), SERVER_4, 1),)
    assert (
        "us-03"
        not in waiting_reasons(decision_about(team_job, other_job, job("eight", 8), guarantees=one_unit))[
            "eight"
        ]
    )


def test_a_team_gets_its_guaranteed_unit_if_guarantees_exceed_the_units() -> None:
    two_guarantees = (Guarantee(("vision-*",), SERVER_4, 1), Guarantee(("speech",), SERVER_4, 3))
    assert set(placed_jobs(decision_about(job("own", 4, **TEAM), guarantees=two_guarantees))) == {
        "vision-a/own"
    }


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
    random_source = random.Random(seed)  # noqa: S311 - reproducible
    nodes = servers(6)
    rows = (Guarantee(("vision-*",), SERVER_4, 2), Guarantee(("speech",), SERVER_4, 1))
    pods: list[Pod] = []
    memory, now = Memory(), NOW
    for step in range(25):
        now += 600 * SECOND
        ended_jobs = {pod.job for pod in pods if random_source.random() < 0.15}
        pods = [pod for pod in pods if pod.job not in ended_jobs]
        teams = ["vision-a", "speech", *["other"] * 3]
        for number in range(random_source.randrange(4)):
            team, workers = random_source.choice(teams), random_source.choice([1, 1, 2, 4, 8])
            pods += job(f"j{step}-{number}", workers, namespace=team, created=now)
        decision = decision_about(pods, guarantees=rows, nodes=nodes, memory=memory, now=now)
        assert not decision.errors
        guarantees = decision.cluster.guarantees
        assert set(guarantees.unmet_units.values()) == {0}
        assert not [waiting_job for waiting_job in decision.waiting if guarantees.covers(waiting_job.job)]
        _check_counts(decision)
        memory = decision.memory
        pods = _run_scheduler(carry_out(pods, decision, now), nodes)


def _check_counts(decision: Decision) -> None:
    """Checks the counts, which each admission updates, against counts that are computed again."""
    cluster, guarantees = decision.cluster, decision.cluster.guarantees
    inputs = cluster.topology, cluster.units, cluster.holders, cluster.parts
    new_guarantees = Guarantees(*inputs)
    assert guarantees.unmet_units == new_guarantees.unmet_units
    for waiting_job in decision.waiting:
        assert guarantees.allowances(waiting_job.job) == new_guarantees.allowances(waiting_job.job)


def _run_scheduler(pods: list[Pod], nodes: Any) -> list[Pod]:
    """Returns the pods after each admitted pod was bound to the next free node of its unit."""
    used_nodes = {pod.node for pod in pods if pod.node}
    pods_after = []
    for pod in pods:
        if pod.node or pod.gated:
            pods_after.append(pod)
            continue
        node = next(
            node
            for node in nodes.values()
            if node.name not in used_nodes
            and all(node.labels.get(key) == value for key, value in pod.demand.selector.items())
        )
        used_nodes.add(node.name)
        pods_after.append(replace(pod, node=node.name, started=True))
    return pods_after


def decision_with_large_job(
    large_namespace: str = "vision-a", guarantees: tuple[Guarantee, ...] = TWO_UNITS, **small_fields: Any
) -> Decision:
    """Returns a decision: vision uses one of its two units, and a large job of vision waits for two units."""
    nodes = servers(4)
    other_jobs, team_jobs = running_jobs(nodes, 3, 4), running_jobs(nodes, 1)
    team_jobs = [replace(pod, namespace="vision-b") for pod in team_jobs]
    waiting_jobs = job("first", 8, age=9000 * HOUR), job("large", 8, age=8 * HOUR, namespace=large_namespace)
    small_job = job("small", 4, **{**TEAM, **small_fields})
    return decision_about(other_jobs, team_jobs, *waiting_jobs, small_job, nodes=nodes, guarantees=guarantees)


def test_a_job_within_a_guarantee_has_a_reservation_next_to_the_general_reservation() -> None:
    """Otherwise smaller jobs of its team could take each unit that the team is owed."""
    decision = decision_with_large_job()
    assert not placed_jobs(decision)
    assert [reservation.job[1] for reservation in decision.cluster.reservations] == [
        "team.first",
        "vision-a.large",
    ]
    reservation = decision.cluster.reservations.earliest_of(("vision-a", "vision-a.large"))
    assert reservation
    assert (reservation.units, reservation.begin) == (("us-01", "us-02"), NOW + 8 * HOUR)
    assert "us-02: reserved for vision-a/large" in waiting_reasons(decision)["vision-a/small"]
    # The reservation excludes jobs in all namespaces of the team, but no job that ends before it begins.
    assert not placed_jobs(decision_with_large_job(namespace="vision-c"))
    assert placed_jobs(decision_with_large_job(limit=7 * HOUR)) == {"vision-a/small": "us-02"}


@pytest.mark.parametrize(("demand", "unit"), [(DEMAND, "us-04"), (demand_on_unit("us-03"), "us-03")])
def test_other_teams_take_units_that_are_reserved_within_a_guarantee_last(demand: Demand, unit: str) -> None:
    nodes = servers(5)
    team_jobs = [replace(pod, namespace="vision-b") for pod in running_jobs(nodes, 1, 2)]
    first_job = job(
        "first", 4, age=720 * HOUR, demand=demand_on_unit("us-05")
    )  # it has the general reservation
    large_job, small_job = job("large", 12, age=HOUR, **TEAM), job("small", 4, demand=demand)
    three_units = (Guarantee(("vision-*",), SERVER_4, 3),)
    decision = decision_about(
        team_jobs,
        running_jobs(nodes, 5),
        first_job,
        large_job,
        small_job,
        nodes=nodes,
        guarantees=three_units,
    )
    assert [reservation.units for reservation in decision.cluster.reservations] == [
        ("us-05",),
        ("us-01", "us-02", "us-03"),
    ]
    assert placed_jobs(decision) == {"small": unit}  # the other free unit is owed


def test_general_reservations_together_leave_the_units_owed_to_a_team() -> None:
    nodes = servers(5)
    team_job = bind_pods(
        job("own", 2, config=2, namespace="vision-b"), select_nodes(nodes, "n1-0", "n1-1"), started=True
    )
    first_job, second_job = job("first", 8, age=50 * HOUR), job("second", 8, age=49 * HOUR, namespace="other")
    pair_job = job("pairs", 6, config=2, age=9 * HOUR, **TEAM)
    decision = decision_about(
        team_job, running_jobs(nodes, 4, 5), first_job, second_job, pair_job, nodes=nodes
    )
    assert placed_jobs(decision) == {"vision-a/pairs": "us-01-b us-03-a us-03-b"}


@pytest.mark.parametrize("other_guarantees", [(), (Guarantee(("tiny",), SERVER_2, 1),)])
def test_a_small_job_gets_no_unit_that_is_reserved_for_a_large_job_of_its_team(
    other_guarantees: tuple[Guarantee, ...],
) -> None:
    nodes = servers(6)
    team_jobs = [replace(pod, namespace="vision-b") for pod in running_jobs(nodes, 1, 2)]
    tiny_job = bind_pods(
        job("tiny", 2, config=2, namespace="tiny"), select_nodes(nodes, "n5-0", "n5-1"), started=True
    )
    first_job = job("first", 4, age=720 * HOUR, demand=demand_on_unit("us-06"))
    large_job, small_job = job("large", 12, age=HOUR, **TEAM), job("small", 4, **TEAM)
    guarantees = (
        *other_guarantees,
        Guarantee(("vision-*",), SERVER_4, 3),
        Guarantee(("speech",), SERVER_4, 1),
    )
    pods = [team_jobs, tiny_job, running_jobs(nodes, 6), first_job, large_job, small_job]
    decision = decision_about(*pods, nodes=nodes, guarantees=guarantees)
    assert not placed_jobs(decision)
    assert decision.waiting[-1].reason is Reason.GUARANTEE


def test_a_reservation_within_a_guarantee_excludes_only_namespaces_of_the_guarantee() -> None:
    """If rows overlap, the first row applies."""
    rows = (Guarantee(("vision-a",), SERVER_4, 1), *TWO_UNITS)
    assert placed_jobs(decision_with_large_job(namespace="vision-c", large_namespace="vision-b")) == {}
    decision = decision_with_large_job(large_namespace="vision-b", guarantees=rows)
    assert set(placed_jobs(decision)) == {"vision-a/small"}
