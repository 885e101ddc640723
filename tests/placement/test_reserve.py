"""Tests of the reservations for jobs that do not fit, of backfilling, and of the order of waiting jobs."""

from collections.abc import Iterable
from dataclasses import replace
from datetime import timedelta
from typing import Any
from unittest import mock

import pytest

from common.times import duration
from contract.keys import JOB, SERVER_4, TIME_LIMIT
from placement.decide.choose import Ranking
from placement.decide.jobs import Job
from placement.decide.plan import Decision, Memory
from placement.decide.reserve import MOST_RESERVATIONS, End
from placement.decide.topology import Topology
from placement.observe.model import Apart, Expression, Node, Pod
from placement.observe.read import read_pod
from tests.placement.stored import worker
from tests.placement.world import (
    HOUR,
    MINUTE,
    NOW,
    SECOND,
    bind_pods,
    decide,
    demand_on_unit,
    job,
    placed_jobs,
    select_nodes,
    servers,
    waiting_reasons,
)

FOUR_SERVERS = servers(4)
DAY = 24 * HOUR
EVIL: dict[str, Any] = {"namespace": "evil"}
SHORT_LIMIT = 4 * MINUTE  # a job with this limit ends before most reservations begin


def decision_about(*pods: Iterable[Pod], memory: Memory | None = None, now: Any = NOW) -> Decision:
    return decide(
        Topology(FOUR_SERVERS.values()), [pod for job_pods in pods for pod in job_pods], now, memory=memory
    )


def running(unit: int, run_time: timedelta, limit: timedelta | None = None, **changes: Any) -> list[Pod]:
    """Returns the pods of a job that has run on an UltraServer for the given time."""
    pods = job(f"r{unit}", 4, limit=limit, **{"namespace": f"other-{unit}", **changes})
    running_pods = bind_pods(
        pods, select_nodes(FOUR_SERVERS, *(f"n{unit}-{number}" for number in range(4))), started=True
    )
    return [replace(pod, admitted_at=NOW - run_time) for pod in running_pods]


def old_job(name: str = "old", workers: int = 8, **changes: Any) -> list[Pod]:
    """Returns the pods of a job that has waited for an hour."""
    return job(name, workers, **{"age": HOUR, **changes})


def first_reservation(decision: Decision) -> str:
    """Returns the job with the first reservation, and the numbers of its UltraServers."""
    reservation = next(iter(decision.cluster.reservations), None)
    units = sorted({name[1] for name in reservation.nodes}) if reservation else ()
    return f"{reservation.job[1]} {' '.join(units)}" if reservation else ""


@pytest.mark.parametrize(
    ("run_times", "limits", "units"),
    [
        # A job that needs more units than the cluster has gets no reservation.
        ((), (), ""),
        # The free unit is reserved, and the unit of the job that ends first.
        ((HOUR, HOUR, HOUR), (3 * HOUR, 2 * HOUR, 4 * HOUR), "2 4"),
        # Jobs without a limit come after jobs with a limit.
        ((HOUR, HOUR, HOUR), (None, DAY, None), "2 4"),
        # A job that may run for more than a day from now comes last.
        ((HOUR, 0 * HOUR, HOUR), (None, 9 * DAY, None), "1 4"),
        ((0 * HOUR, HOUR, HOUR), (9 * DAY, 8 * DAY, 9 * DAY), "2 4"),
        ((3 * HOUR, 2 * HOUR, 4 * HOUR), (None, None, None), "2 4"),
        # A job that exceeds its limit is treated as a job without a limit.
        ((HOUR, HOUR, HOUR), (30 * MINUTE, 2 * HOUR, 3 * HOUR), "2 4"),
        # A job without a limit that has run for longer than a day may never end.
        ((25 * HOUR, 23 * HOUR, 25 * HOUR), (None, None, None), "2 4"),
        ((25 * HOUR, 25 * HOUR, 25 * HOUR), (None, None, None), ""),
    ],
)
def test_the_units_that_become_free_first_are_reserved(run_times: Any, limits: Any, units: str) -> None:
    running_jobs = [
        running(index + 1, *times) for index, times in enumerate(zip(run_times, limits, strict=True))
    ]
    decision = decision_about(
        *running_jobs,
        old_job(workers=8 if running_jobs else 20),
        *([] if running_jobs else [running(4, SECOND)]),
    )
    assert first_reservation(decision) == (f"team.old {units}" if units else "")
    assert "old" in waiting_reasons(decision)


def test_units_of_running_jobs_of_the_same_namespace_can_be_reserved() -> None:
    """The anti-affinity of the table keeps the job off these units only until the running jobs have ended."""
    labels = (Expression(JOB, "Exists", ()), Expression(JOB, "NotIn", ("team.old",)))
    other_jobs_term = Apart(SERVER_4, labels, spaces=())
    own_namespace: dict[str, Any] = {"namespace": "team"}
    first_job, second_job = (
        running(1, HOUR, 2 * HOUR, **own_namespace),
        running(2, HOUR, 3 * HOUR, **own_namespace),
    )
    running_jobs = [[replace(pod, labels={JOB: pod.job}) for pod in pods] for pods in (first_job, second_job)]
    running_jobs += [running(unit, HOUR, 9 * HOUR) for unit in (3, 4)]
    assert (
        first_reservation(decision_about(*running_jobs, old_job(apart=(other_jobs_term,)))) == "team.old 1 2"
    )


def test_a_job_starts_on_reserved_units_if_it_ends_before_the_reservation_begins() -> None:
    running_jobs = [running(unit, HOUR, 2 * HOUR) for unit in (1, 2, 3)]  # they run for another hour
    for limit, is_admitted in ((58 * MINUTE, True), (59 * MINUTE, False), (None, False)):
        decision = decision_about(*running_jobs, old_job(), job("a", 4, limit=limit))
        assert placed_jobs(decision) == ({"a": "us-04"} if is_admitted else {})
        why = "needs 1 whole UltraServer; 1 free, reserved for team/old; us-04: reserved for team/old; "
        assert is_admitted or waiting_reasons(decision)["a"].startswith(why)
    # A job without a limit is assumed to end within a day.
    assert (
        placed_jobs(
            decision_about(
                running(1, HOUR, 2 * HOUR), running(2, HOUR, 3 * HOUR), old_job(workers=12), job("a", 4)
            )
        )
        == {}
    )
    running_jobs = [running(unit, HOUR, 3 * DAY) for unit in (1, 2, 3)]
    assert placed_jobs(decision_about(*running_jobs, old_job(), job("a", 4))) == {"a": "us-04"}


def test_only_the_first_job_has_a_reservation_and_a_new_job_has_none() -> None:
    running_jobs = [running(unit, HOUR, 2 * HOUR) for unit in (1, 2, 3)]
    decision = decision_about(
        *running_jobs, old_job("first", age=2 * HOUR), old_job("second"), job("a", 4, limit=SHORT_LIMIT)
    )
    assert first_reservation(decision) == "team.first 1 4"
    assert placed_jobs(decision) == {"a": "us-04"}
    assert placed_jobs(decision_about(*running_jobs, job("young", 8, age=9 * MINUTE), job("a", 4))) == {
        "a": "us-04"
    }


@pytest.mark.parametrize(("age", "further_jobs"), [(DAY - SECOND, ()), (DAY, ("team.whole",))])
def test_no_job_holds_the_only_reservation_for_longer_than_a_day(age: timedelta, further_jobs: Any) -> None:
    """Otherwise a user could reserve a unit that is in use for years, and no other large job would start."""
    endless_job = running(4, HOUR, 9 * 365 * DAY, **EVIL)
    waiting_job = old_job("trap", 4, age=90 * DAY, demand=demand_on_unit("us-04"), **EVIL)
    running_jobs = [running(unit, HOUR, 3 * HOUR) for unit in (2, 3)]
    decision = decision_about(
        endless_job, waiting_job, *running_jobs, old_job("whole", 8, age=age), job("small", 4)
    )
    assert [reservation.job[1] for reservation in decision.cluster.reservations] == [
        "evil.trap",
        *further_jobs,
    ]
    assert placed_jobs(decision) == ({} if further_jobs else {"small": "us-01"})


def test_a_further_reservation_has_other_units_than_the_first() -> None:
    running_jobs = [running(unit, HOUR, (2 + unit) * HOUR) for unit in (2, 3, 4)]
    pods = [
        old_job("first", age=3 * DAY, **EVIL),
        old_job("second", age=2 * DAY),
        old_job("third", age=2 * DAY),
    ]
    decision = decision_about(*running_jobs, *pods)
    first, second = decision.cluster.reservations  # one reservation for each namespace
    assert (first.units, second.units) == (("us-01", "us-02"), ("us-03", "us-04"))


def test_a_unit_is_not_reserved_for_two_jobs_even_if_one_would_end_in_time() -> None:
    running_jobs = [running(unit, HOUR, (5 + unit) * HOUR) for unit in (1, 2, 3, 4)]
    short_job = old_job("short", 4, age=2 * DAY, limit=HOUR)
    first, second = decision_about(
        *running_jobs, old_job("first", 4, age=3 * DAY, **EVIL), short_job
    ).cluster.reservations
    assert (first.units, second.units) == (("us-01",), ("us-02",))


def test_at_most_four_jobs_have_reservations() -> None:
    """Each reservation costs time in a decision, and keeps units free."""
    running_jobs = [running(unit, HOUR, 5 * HOUR) for unit in (1, 2, 3, 4)]
    pair_jobs = [old_job(f"j{number}", 2, age=2 * DAY, namespace=f"other-{number}") for number in range(6)]
    assert len(decision_about(*running_jobs, *pair_jobs).cluster.reservations) == MOST_RESERVATIONS


def test_the_end_of_each_unit_is_computed_once_for_all_jobs_without_a_reservation() -> None:
    """With 4,000 nodes and 600 waiting jobs, a decision once took 6 seconds."""
    running_jobs = [running(unit, 2 * DAY) for unit in (1, 2, 3, 4)]
    pods = [old_job(f"j{number}", 4, namespace=f"other-{number}") for number in range(20)]
    with mock.patch.object(Ranking, "_end", autospec=True, side_effect=Ranking._end) as searches:  # noqa: SLF001
        assert not decision_about(*running_jobs, *pods).cluster.reservations
    assert searches.call_count == len(running_jobs)


def test_the_time_of_two_simultaneous_reservations_is_added_to_the_debt_once() -> None:
    reserved_since = {("evil", "evil.a"): NOW, ("evil", "evil.b"): NOW}
    first_decision = decision_about(
        old_job("b", **EVIL), memory=Memory(reserved_since=reserved_since), now=NOW + HOUR
    )
    assert first_decision.memory.age_debts["evil"][0] == HOUR
    memory = replace(first_decision.memory, reserved_since={("evil", "evil.b"): NOW})
    second_decision = decision_about(memory=memory, now=NOW + HOUR + MINUTE)
    assert second_decision.memory.age_debts["evil"][0] == HOUR + MINUTE


@pytest.mark.parametrize(
    ("elapsed", "changes", "is_kept"),
    [
        (DAY - SECOND, {}, True),
        (DAY, {}, False),
        (HOUR, {"failed_namespaces": {"team": NOW + SECOND}}, False),
        (HOUR, {"age_debts": {"team": (MINUTE, NOW + SECOND)}}, False),
    ],
)
def test_for_a_day_a_job_with_the_first_reservation_comes_before_jobs_of_namespaces_without_nodes(
    elapsed: timedelta, changes: Any, *, is_kept: bool
) -> None:
    """Otherwise many small jobs could overtake a large job, and it would never start."""
    running_jobs = [running(unit, 0 * HOUR, DAY + HOUR, namespace="team") for unit in (2, 3, 4)]
    large_job = old_job("large", 8, age=2 * HOUR)
    first_decision = decision_about(*running_jobs, large_job)
    assert first_reservation(first_decision).startswith("team.large")
    memory, now = replace(first_decision.memory, **changes), NOW + elapsed
    small_job = job("small", 4, age=20 * MINUTE - elapsed, **EVIL)
    decision = decision_about(*running_jobs, large_job, small_job, memory=memory, now=now)
    assert placed_jobs(decision) == ({} if is_kept else {"evil/small": "us-01"})
    # The time is remembered, so that the job does not keep its position for another day.
    assert decision.memory.position_kept_since == {("team", "team.large"): NOW}


@pytest.mark.parametrize(("age", "is_kept"), [(2 * DAY, True), (2 * DAY - SECOND, False)])
def test_a_job_with_a_further_reservation_keeps_its_position_after_two_days(
    age: timedelta, *, is_kept: bool
) -> None:
    running_jobs = [running(unit, HOUR, 3 * HOUR, namespace="team") for unit in (2, 3, 4)]
    other_job = old_job("trap", 4, age=9 * DAY, demand=demand_on_unit("us-02"), **EVIL)
    large_job = old_job("large", 8, age=age)
    first_decision = decision_about(*running_jobs, other_job, large_job)
    assert [reservation.job[1] for reservation in first_decision.cluster.reservations] == [
        "evil.trap",
        "team.large",
    ]
    small_job = job("small", 4, age=20 * MINUTE, namespace="other")
    decision = decision_about(
        *running_jobs, other_job, large_job, small_job, memory=first_decision.memory, now=NOW + SECOND
    )
    assert placed_jobs(decision) == ({} if is_kept else {"other/small": "us-01"})


def test_a_kept_position_is_forgotten_with_its_job_and_remembered_while_the_job_gets_its_nodes() -> None:
    """Otherwise the memory would grow, and a job whose admission is refused would have a new position."""
    running_jobs = [running(unit, HOUR, 3 * HOUR, namespace="team") for unit in (2, 3, 4)]
    large_job = old_job("large", 8, age=2 * HOUR)
    memory = decision_about(*running_jobs, large_job).memory
    assert memory.position_kept_since == {("team", "team.large"): NOW}
    later = NOW + MINUTE
    decision = decision_about(*running_jobs[:2], large_job, memory=memory, now=later)
    assert placed_jobs(decision)
    assert decision.memory.position_kept_since == memory.position_kept_since
    assert decision_about(*running_jobs, memory=memory, now=later).memory.position_kept_since == {}
    new_pods = [replace(pod, created=later) for pod in large_job]
    assert decision_about(*running_jobs, new_pods, memory=memory, now=later).memory.position_kept_since == {}
    failed_memory = replace(memory, position_kept_since={}, failed_namespaces={"team": NOW})
    assert (
        decision_about(
            *running_jobs, large_job, memory=failed_memory, now=NOW + 15 * MINUTE
        ).memory.position_kept_since
        == {}
    )


def test_a_job_with_an_internal_reservation_does_not_keep_its_position() -> None:
    decision = decision_about(
        *[running(unit, HOUR, namespace="team") for unit in (2, 3, 4)], old_job("large", 8)
    )
    assert decision.cluster.reservations[0].is_internal
    assert decision.memory.position_kept_since == {}


# ---- The order of jobs -------------------------------------------------------------------------------------


def test_a_job_waits_longer_the_more_nodes_its_namespace_has() -> None:
    running_jobs = [running(unit, HOUR, namespace="evil") for unit in (1, 2, 3)]
    team_job = job("a", 4, age=20 * MINUTE)
    for hours, first in ((300, "a"), (310, "evil/next")):
        assert [
            *placed_jobs(
                decision_about(*running_jobs, old_job("next", 4, age=hours * HOUR, **EVIL), team_job)
            )
        ] == [first]
    # If two namespaces have equally many nodes, the older job is first. Priority comes before both.
    assert [
        *placed_jobs(
            decision_about(
                *running_jobs[:1],
                running(2, HOUR, namespace="team"),
                running(3, HOUR),
                team_job,
                old_job("next", 4, **EVIL),
            )
        )
    ] == ["evil/next"]
    assert [
        *placed_jobs(decision_about(*running_jobs, old_job("next", 4, priority=1, **EVIL), team_job))
    ] == ["evil/next"]


LARGE_JOB = ("team", "team.large")
SMALL_JOBS = ("evil", "evil.small-1"), ("evil", "evil.small-2")


def full_cluster(count: int, own_count: int, age: timedelta) -> tuple[dict[str, Node], list[Pod]]:
    """Returns nodes and pods: all but two UltraServers are used, ``own_count`` of them by the namespace team.

    Two old jobs of team wait, and two more urgent jobs, four hours old, of a namespace without nodes.
    """
    nodes = servers(count)
    pods = [*old_job("large", 4, age=age), *old_job("next", 4, age=age)]
    for key in SMALL_JOBS:
        pods += job(key[1].removeprefix("evil."), 4, age=4 * HOUR, **EVIL)
    for unit in range(3, count + 1):
        namespace = "team" if unit - 2 <= own_count else f"other-{unit}"
        workers = job(
            "runs", 4, namespace=namespace, job=f"{namespace}.{unit}", demand=demand_on_unit(f"us-{unit:02}")
        )
        workers = [replace(pod, uid=f"{pod.uid}/{unit}") for pod in workers]
        pods += bind_pods(workers, select_nodes(nodes, *(f"n{unit}-{position}" for position in range(4))))
    return nodes, pods


@pytest.mark.parametrize(
    ("count", "own_count", "age", "memory", "is_first"),
    [
        (16, 4, 5 * DAY, Memory(), True),
        (16, 4, 5 * DAY - SECOND, Memory(), False),
        (21, 5, 5 * DAY, Memory(), False),  # the job needs less than a twentieth of the nodes
        (16, 6, 5 * DAY, Memory(), False),  # the namespace would have more than two fifths of the nodes
        (16, 4, 6 * DAY, Memory(age_debts={"team": (MINUTE, NOW)}), False),
        (16, 4, 6 * DAY, Memory(position_kept_since=dict.fromkeys((LARGE_JOB, *SMALL_JOBS), NOW)), False),
        # The small jobs keep their positions.
        (16, 4, 9 * DAY, Memory(position_kept_since=dict.fromkeys(SMALL_JOBS, NOW)), False),
        (16, 4, 6 * DAY, Memory(favoured_since={LARGE_JOB: NOW - 2 * DAY + SECOND}), True),
        (16, 4, 6 * DAY, Memory(favoured_since={LARGE_JOB: NOW - 2 * DAY}), False),
        # An older job of this name was favoured.
        (16, 4, 6 * DAY, Memory(favoured_since={LARGE_JOB: NOW - 7 * DAY}), True),
    ],
)
def test_the_oldest_large_job_of_each_namespace_comes_first_after_five_days_for_two_days(
    count: int, own_count: int, age: timedelta, memory: Memory, *, is_first: bool
) -> None:
    """Otherwise it could wait for weeks in a full cluster. A job that never starts must not stay first."""
    nodes, pods = full_cluster(count, own_count, age)
    decision = decide(Topology(nodes.values()), pods, NOW, memory=memory)
    first_job = "large" if is_first else "evil/small-2"
    assert sorted(placed_jobs(decision)) == sorted(("evil/small-1", first_job))
    if is_first:
        since = memory.favoured_since.get(LARGE_JOB, NOW)
        assert decision.memory.favoured_since == {LARGE_JOB: since if since > NOW - age else NOW}
    # When the job runs, another job may come first.
    large_pods = bind_pods(
        [pod for pod in pods if pod.key == LARGE_JOB], select_nodes(nodes, "n1-0", "n1-1", "n1-2", "n1-3")
    )
    pods = [*large_pods, *(pod for pod in pods if pod.key != LARGE_JOB)]
    assert LARGE_JOB not in decide(Topology(nodes.values()), pods, NOW, memory=memory).memory.favoured_since


@pytest.mark.parametrize(
    ("older_job", "own_count", "other_nodes", "second_job"),
    [
        (old_job("older", 8, age=9 * DAY)[:7], 4, 0, "evil/small-1"),  # a worker is missing
        (old_job("older", 68, age=9 * DAY), 0, 0, "next"),  # more workers than nodes
        ([], 4, 64, "evil/small-1"),  # nodes without devices
    ],
)
def test_jobs_that_cannot_start_and_nodes_without_devices_do_not_delay_a_large_job(
    older_job: list[Pod], own_count: int, other_nodes: int, second_job: str
) -> None:
    nodes, pods = full_cluster(16, own_count, 5 * DAY)
    cpu_nodes = [Node(f"cpu-{number}", {}) for number in range(other_nodes)]
    decision = decide(Topology([*nodes.values(), *cpu_nodes]), [*pods, *older_job], NOW)
    assert decision.memory.favoured_since.keys() == {LARGE_JOB}
    assert sorted(placed_jobs(decision)) == sorted(("large", second_job))


def test_a_bug_about_an_old_large_job_affects_only_this_job() -> None:
    nodes, pods = full_cluster(16, 4, 6 * DAY)

    def fail_for_large_job(job: Job) -> None:
        if job.key == LARGE_JOB:
            raise RuntimeError("a bug")

    with mock.patch.object(Job, "_why_it_repels_itself", fail_for_large_job):
        decision = decide(Topology(nodes.values()), pods, NOW)
    assert [job.key for job, _ in decision.errors] == [LARGE_JOB]
    assert sorted(placed_jobs(decision)) == ["evil/small-1", "next"]


def test_a_namespace_gets_a_debt_of_the_time_for_which_a_deleted_job_had_a_reservation() -> None:
    """Otherwise a user could keep units free for a job, delete the job, and repeat this with other jobs."""
    running_jobs = [running(unit, HOUR) for unit in (1, 2, 3)]
    first_job, second_job = old_job("one", age=9 * HOUR, **EVIL), old_job("two", age=9 * HOUR, **EVIL)
    other_job = old_job("whole", age=5 * HOUR)
    first_decision = decision_about(*running_jobs, first_job, second_job, other_job)
    assert first_decision.memory.reserved_since == {("evil", "evil.one"): NOW}
    later = NOW + 6 * HOUR
    second_decision = decision_about(
        *running_jobs, first_job, second_job, other_job, memory=first_decision.memory, now=later
    )
    assert (second_decision.memory.reserved_since, second_decision.memory.age_debts) == (
        first_decision.memory.reserved_since,
        {},
    )
    stuck_pods = [replace(pod, gates=(*pod.gates, "mine")) for pod in first_job]
    for remaining_pods in ([], stuck_pods):
        decision = decision_about(
            *running_jobs, remaining_pods, second_job, other_job, memory=second_decision.memory, now=later
        )
        assert decision.memory.age_debts == {"evil": (6 * HOUR, later)}
        next_decision = decision_about(
            *running_jobs, second_job, other_job, memory=decision.memory, now=later + SECOND
        )
        assert first_reservation(next_decision).startswith("team.whole")
        assert not next_decision.memory.age_debts.keys() - {"evil"}
    # A job that gets its units causes no debt.
    admission = decision_about(first_job, memory=second_decision.memory, now=later)
    assert placed_jobs(admission) == {"evil/one": "us-01 us-02"}
    assert not admission.memory.age_debts
    assert not decision_about(
        bind_pods(first_job, [*FOUR_SERVERS.values()][:8]), memory=admission.memory, now=later + MINUTE
    ).memory.age_debts


def test_after_a_job_exceeds_its_limit_the_limits_of_its_namespace_are_ignored_for_a_day() -> None:
    """Otherwise a user could set a limit of a minute for long jobs, and always use reserved units."""
    running_jobs = [running(2, HOUR, 2 * HOUR), running(3, HOUR, 2 * HOUR)]
    late_job = running(1, 10 * MINUTE, MINUTE, namespace="evil")
    waiting_pods = [*old_job(), *job("next", 4, limit=SHORT_LIMIT, **EVIL)]
    decision = decision_about(*running_jobs, late_job, waiting_pods)
    assert placed_jobs(decision) == {}
    assert decision.memory.exceeded_limits == {"evil": NOW}
    # All limits of the namespace are ignored, but only for a day.
    for later, is_admitted in ((23 * HOUR, False), (24 * HOUR, True)):
        memory = replace(decision.memory, reserved_since={})
        next_decision = decide(
            Topology(FOUR_SERVERS.values()),
            [pod for pods in running_jobs for pod in pods] + running(1, HOUR, 2 * HOUR) + waiting_pods,
            NOW + SECOND,
            memory=replace(memory, exceeded_limits={"evil": NOW + SECOND - later}),
        )
        assert ("evil/next" in placed_jobs(next_decision)) == is_admitted
    # The time begins with the admission of the first worker, and the admission may take two minutes more.
    for run_time, is_late in ((3 * MINUTE, False), (3 * MINUTE + SECOND, True)):
        assert (
            "evil" in decision_about(running(1, run_time, MINUTE, namespace="evil")).memory.exceeded_limits
        ) == is_late
    job_with_new_worker = [replace(late_job[0], admitted_at=NOW), *late_job[1:]]
    assert "evil" in decision_about(job_with_new_worker).memory.exceeded_limits


@pytest.mark.parametrize("limit", [None, SECOND])
def test_many_jobs_of_a_namespace_with_all_nodes_do_not_delay_a_large_job_of_another(limit: Any) -> None:
    """Otherwise each unit that becomes free could go to the next small job."""
    running_jobs = [running(unit, HOUR, namespace="evil") for unit in (1, 2, 3, 4)]
    # With a limit, one of the running jobs exceeds it.
    running_jobs[3] = running(4, HOUR, limit, namespace="evil")
    small_jobs = [pod for number in range(300) for pod in old_job(f"q{number}", 4, limit=limit, **EVIL)]
    large_job = job("large", 8, age=10 * MINUTE)
    memory, now, admitted_names = Memory(), NOW, []
    while "large" not in admitted_names:
        decision = decision_about(*running_jobs, small_jobs, large_job, memory=memory, now=now)
        admitted_names += placed_jobs(decision)
        assert first_reservation(decision).startswith("team.large") or "large" in admitted_names
        memory, now = decision.memory, now + HOUR
        running_jobs = running_jobs[1:]  # the first running job ends
    assert admitted_names == ["large"]


def test_a_running_job_keeps_the_limit_that_it_had_at_its_admission() -> None:
    """Otherwise a user could raise the limit of a running job again and again."""
    running_pods = running(1, MINUTE, 2 * MINUTE, **EVIL)
    first_decision = decision_about(running_pods)
    assert first_decision.memory.admitted_jobs == {("evil", "evil.r1"): (NOW - MINUTE, 2 * MINUTE)}
    for limit in (DAY, None):
        changed_pods = [replace(pod, limit=limit) for pod in running_pods]
        later = NOW + 3 * MINUTE
        assert (
            "evil"
            not in decision_about(
                changed_pods, memory=first_decision.memory, now=later
            ).memory.exceeded_limits
        )
        assert (
            "evil"
            in decision_about(
                changed_pods, memory=first_decision.memory, now=later + SECOND
            ).memory.exceeded_limits
        )
    # A later job with the same name has its own limit.
    decision_without_job = decision_about(memory=first_decision.memory, now=NOW + SECOND)
    assert not decision_without_job.memory.admitted_jobs
    assert (
        decision_about(
            changed_pods, memory=decision_without_job.memory, now=NOW + HOUR
        ).memory.exceeded_limits
        == {}
    )


def test_a_job_that_was_admitted_without_a_limit_gets_none_later() -> None:
    running_pods = running(1, MINUTE, **EVIL)
    first_decision = decision_about(running_pods)
    pods_with_limit = [replace(pod, limit=2 * MINUTE) for pod in running_pods]
    memory = decision_about(pods_with_limit, memory=first_decision.memory, now=NOW + SECOND).memory
    assert (
        memory.admitted_jobs
        == first_decision.memory.admitted_jobs
        == {("evil", "evil.r1"): (NOW - MINUTE, None)}
    )


def test_a_limit_that_is_removed_right_after_the_admission_still_applies() -> None:
    """At the next decision, the Pods already have another limit."""
    first_decision = decision_about(job("short", 4, limit=MINUTE, **EVIL))
    assert "evil/short" in placed_jobs(first_decision)
    for limit in (None, DAY):
        running_pods = bind_pods(
            job("short", 4, limit=limit, **EVIL),
            select_nodes(FOUR_SERVERS, *(f"n1-{number}" for number in range(4))),
        )
        running_pods = [replace(pod, admitted_at=NOW) for pod in running_pods]
        second_decision = decision_about(running_pods, memory=first_decision.memory, now=NOW + SECOND)
        assert (
            "evil"
            in decision_about(
                running_pods, memory=second_decision.memory, now=NOW + HOUR
            ).memory.exceeded_limits
        )


@pytest.mark.parametrize("limit", [HOUR, None])
def test_recreated_pods_do_not_shorten_the_run_time_of_their_job(limit: Any) -> None:
    """Otherwise an author could delete one worker after the other, and the job would stay young."""
    running_pods, memory, now = running(1, 0 * HOUR, limit, **EVIL), Memory(), NOW
    other_jobs = [
        running(2, -20 * HOUR),
        running(3, -20 * HOUR),
        running(4, -20 * HOUR),
    ]
    for step in range(120):
        now += 15 * MINUTE
        running_pods[step % 4] = replace(running_pods[step % 4], admitted_at=now, created=now)
        decision = decision_about(running_pods, *other_jobs, old_job("large", 4), memory=memory, now=now)
        memory = decision.memory
    assert ("evil" in memory.exceeded_limits) == bool(limit)
    assert first_reservation(decision) == "team.large 2"


def test_pods_that_are_being_deleted_still_exceed_the_limit_of_their_job() -> None:
    """Otherwise a user could hold reserved units with a short limit and a long grace period."""
    running_pods = running(1, MINUTE, 2 * MINUTE, **EVIL)
    first_decision = decision_about(running_pods)
    deleting_pods = [replace(pod, deleting=True) for pod in running_pods]
    second_decision = decision_about(deleting_pods, memory=first_decision.memory, now=NOW + SECOND)
    assert second_decision.memory.admitted_jobs == first_decision.memory.admitted_jobs
    end = End(is_late=False, is_assumed=False, at=NOW + MINUTE)
    assert second_decision.cluster.ends.end(("evil", "evil.r1")) == end
    late_decision = decision_about(
        deleting_pods, memory=second_decision.memory, now=NOW + 3 * MINUTE + SECOND
    )
    assert "evil" in late_decision.memory.exceeded_limits
    assert not decision_about(memory=late_decision.memory, now=NOW + HOUR).memory.admitted_jobs


def test_the_debt_includes_the_reservations_of_two_jobs_one_after_the_other() -> None:
    """Otherwise a user could let a second job take over the reservation, and then delete both jobs."""
    running_jobs, low_job = [running(unit, HOUR) for unit in (1, 2, 3)], old_job("low", age=9 * HOUR, **EVIL)
    first_decision = decision_about(*running_jobs, low_job, old_job("whole"))
    later = NOW + 6 * HOUR
    high_job = old_job("high", age=HOUR, priority=1, **EVIL)
    second_decision = decision_about(
        *running_jobs, low_job, high_job, old_job("whole"), memory=first_decision.memory, now=later
    )
    assert second_decision.memory.reserved_since == {("evil", "evil.high"): NOW}
    third_decision = decision_about(
        *running_jobs, high_job, old_job("whole"), memory=second_decision.memory, now=later + SECOND
    )
    fourth_decision = decision_about(
        *running_jobs, old_job("whole"), memory=third_decision.memory, now=later + 2 * SECOND
    )
    assert fourth_decision.memory.age_debts["evil"][0] == 6 * HOUR + 2 * SECOND
    # Without the first job, the second one begins its own time.
    decision = decision_about(
        *running_jobs, high_job, old_job("whole"), memory=first_decision.memory, now=later
    )
    assert decision.memory.reserved_since == {("evil", "evil.high"): later}


def test_the_debt_of_a_namespace_is_at_most_a_day() -> None:
    """Otherwise jobs that fail at their start would keep a namespace from its nodes for weeks."""
    memory, now = Memory(age_debts={"evil": (DAY - MINUTE, NOW)}), NOW
    for name in ("a", "b"):
        decision = decision_about(job(name, 4, **EVIL), memory=memory, now=now)
        assert placed_jobs(decision) == {f"evil/{name}": "us-01"}
        memory = decision_about(memory=decision.memory, now=now + SECOND).memory
        now += MINUTE
    assert memory.age_debts["evil"][0] == DAY
    # The debt ends a day after it last grew.
    assert "evil" in decision_about(memory=memory, now=NOW + MINUTE + DAY).memory.age_debts
    assert "evil" not in decision_about(memory=memory, now=NOW + MINUTE + SECOND + DAY).memory.age_debts


# ---- Reading -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "length"),
    [
        ("30m", 30 * MINUTE),
        ("4h", 4 * HOUR),
        ("2d", 2 * DAY),
        ("1d12h30m5s", 1.5 * DAY + 30 * MINUTE + 5 * SECOND),
        ("3600s", HOUR),
        *((text, None) for text in ("", "0s", "-1h", "soon", "4", "1h ", "4000d", "\u0664h", None, 5)),
    ],
)
def test_a_length_of_time_is_parsed(text: object, length: timedelta | None) -> None:
    assert duration(text) == length


def test_the_limit_of_a_worker_is_its_annotation_or_else_its_deadline() -> None:
    for annotation, deadline, limit in (
        ("4h", None, 4 * HOUR),
        (None, 60, MINUTE),
        ("2h", 60, 2 * HOUR),
        ("soon", None, None),
        (None, 10**12, None),
    ):
        raw = worker("train", 0, 4)
        raw["metadata"]["annotations"] |= {TIME_LIMIT: annotation} if annotation else {}
        raw["spec"] |= {"activeDeadlineSeconds": deadline} if deadline else {}
        pod = read_pod(raw)
        assert pod
        assert pod.limit == limit
