"""Reservations: the first job that does not fit has the units that become free first; who may pass it."""

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
    bound,
    decide,
    job,
    on,
    on_unit,
    placed,
    servers,
    waiting,
)

FOUR = servers(4)
DAY = 24 * HOUR
EVIL: dict[str, Any] = {"namespace": "evil"}
SOON = 4 * MINUTE  # with the time that an admission may take it is over before most reservations begin


def ask(*pods: Iterable[Pod], memory: Memory | None = None, now: Any = NOW) -> Decision:
    return decide(Topology(FOUR.values()), [pod for each in pods for pod in each], now, memory=memory)


def running(unit: int, ran: timedelta, limit: timedelta | None = None, **changes: Any) -> list[Pod]:
    """A job that has an UltraServer, and has run for so long."""
    pods = job(f"r{unit}", 4, limit=limit, **{"namespace": f"other-{unit}", **changes})
    there = bound(pods, on(FOUR, *(f"n{unit}-{place}" for place in range(4))), started=True)
    return [replace(pod, admitted_at=NOW - ran) for pod in there]


def old(name: str = "old", workers: int = 8, **changes: Any) -> list[Pod]:
    """A job that has waited for an hour."""
    return job(name, workers, **{"age": HOUR, **changes})


def reserved(decision: Decision) -> str:
    """The job that has a reservation, and the UltraServers of it."""
    reservation = next(iter(decision.cluster.reservations), None)
    units = sorted({name[1] for name in reservation.nodes}) if reservation else ()
    return f"{reservation.job[1]} {' '.join(units)}" if reservation else ""


@pytest.mark.parametrize(
    ("ran", "limits", "units"),
    [
        # What is free, and what ends first.
        ((), (), "1 2"),
        ((HOUR, HOUR, HOUR), (3 * HOUR, 2 * HOUR, 4 * HOUR), "2 4"),
        # Without a limit those that have run for the shortest time, after all with one.
        ((HOUR, HOUR, HOUR), (None, DAY, None), "2 4"),
        # A limit of years would be a unit for which no other job has to wait. It is the last.
        ((HOUR, 0 * HOUR, HOUR), (None, 9 * DAY, None), "1 4"),
        ((0 * HOUR, HOUR, HOUR), (9 * DAY, 8 * DAY, 9 * DAY), "2 4"),
        ((3 * HOUR, 2 * HOUR, 4 * HOUR), (None, None, None), "2 4"),
        # A job that is still there after its limit is one without.
        ((HOUR, HOUR, HOUR), (30 * MINUTE, 2 * HOUR, 3 * HOUR), "2 4"),
        # One that has run for longer than a day may never end.
        ((25 * HOUR, 23 * HOUR, 25 * HOUR), (None, None, None), "2 4"),
        ((25 * HOUR, 25 * HOUR, 25 * HOUR), (None, None, None), ""),
    ],
)
def test_the_units_that_become_free_first_are_reserved(ran: Any, limits: Any, units: str) -> None:
    there = [running(at + 1, *each) for at, each in enumerate(zip(ran, limits, strict=True))]
    # Too large for what is free.
    decision = ask(*there, old(workers=8 if there else 20), *([] if there else [running(4, SECOND)]))
    assert reserved(decision) == (f"team.old {units}" if units and there else "")
    assert "old" in waiting(decision)


def test_jobs_of_its_own_namespace_are_no_reason_against_their_units() -> None:
    """The terms of the table keep workers off all other jobs, until these have ended."""
    labels = (Expression(JOB, "Exists", ()), Expression(JOB, "NotIn", ("team.old",)))
    others = Apart(SERVER_4, labels, spaces=())
    own: dict[str, Any] = {"namespace": "team"}
    first, second = running(1, HOUR, 2 * HOUR, **own), running(2, HOUR, 3 * HOUR, **own)
    there = [[replace(pod, labels={JOB: pod.job}) for pod in pods] for pods in (first, second)]
    there += [running(unit, HOUR, 9 * HOUR) for unit in (3, 4)]
    assert reserved(ask(*there, old(apart=(others,)))) == "team.old 1 2"


def test_a_job_starts_on_reserved_units_if_it_ends_before_the_reservation_begins() -> None:
    there = [running(unit, HOUR, 2 * HOUR) for unit in (1, 2, 3)]  # for another hour
    for limit, passes in ((58 * MINUTE, True), (59 * MINUTE, False), (None, False)):
        decision = ask(*there, old(), job("a", 4, limit=limit))
        assert placed(decision) == ({"a": "us-04"} if passes else {})
        why = "needs 1 whole UltraServer; 1 free, reserved for team/old; us-04: reserved for team/old; "
        assert passes or waiting(decision)["a"].startswith(why)
    # Every job starts on other units, and one without a limit is over within a day.
    assert (
        placed(ask(running(1, HOUR, 2 * HOUR), running(2, HOUR, 3 * HOUR), old(workers=12), job("a", 4)))
        == {}
    )
    there = [running(unit, HOUR, 3 * DAY) for unit in (1, 2, 3)]
    assert placed(ask(*there, old(), job("a", 4))) == {"a": "us-04"}


def test_one_job_has_a_reservation_and_a_job_that_has_just_come_has_none() -> None:
    there = [running(unit, HOUR, 2 * HOUR) for unit in (1, 2, 3)]
    decision = ask(*there, old("first", age=2 * HOUR), old("second"), job("a", 4, limit=SOON))
    assert reserved(decision) == "team.first 1 4"
    assert placed(decision) == {"a": "us-04"}
    assert placed(ask(*there, job("young", 8, age=9 * MINUTE), job("a", 4))) == {"a": "us-04"}


@pytest.mark.parametrize(("age", "also"), [(DAY - SECOND, ()), (DAY, ("team.whole",))])
def test_no_job_holds_the_only_reservation_for_longer_than_a_day(age: timedelta, also: Any) -> None:
    """A tenant would select a unit that its job of years holds, and no large job of others would start."""
    endless = running(4, HOUR, 9 * 365 * DAY, **EVIL)
    trap = old("trap", 4, age=90 * DAY, demand=on_unit("us-04"), **EVIL)
    busy = [running(unit, HOUR, 3 * HOUR) for unit in (2, 3)]
    decision = ask(endless, trap, *busy, old("whole", 8, age=age), job("small", 4))
    assert [each.job[1] for each in decision.cluster.reservations] == ["evil.trap", *also]
    assert placed(decision) == ({} if also else {"small": "us-01"})


def test_a_further_reservation_has_other_units_than_the_first() -> None:
    busy = [running(unit, HOUR, (2 + unit) * HOUR) for unit in (2, 3, 4)]
    pods = [old("first", age=3 * DAY, **EVIL), old("second", age=2 * DAY), old("third", age=2 * DAY)]
    decision = ask(*busy, *pods)
    first, second = decision.cluster.reservations  # one for each namespace
    assert (first.units, second.units) == (("us-01", "us-02"), ("us-03", "us-04"))


def test_a_unit_is_reserved_for_one_job_although_another_would_end_before() -> None:
    busy = [running(unit, HOUR, (5 + unit) * HOUR) for unit in (1, 2, 3, 4)]
    short = old("short", 4, age=2 * DAY, limit=HOUR)
    first, second = ask(*busy, old("first", 4, age=3 * DAY, **EVIL), short).cluster.reservations
    assert (first.units, second.units) == (("us-01",), ("us-02",))


def test_four_jobs_have_reservations_at_most() -> None:
    """Each one costs time in a decision, and keeps units free."""
    busy = [running(unit, HOUR, 5 * HOUR) for unit in (1, 2, 3, 4)]
    pairs = [old(f"j{number}", 2, age=2 * DAY, namespace=f"other-{number}") for number in range(6)]
    assert len(ask(*busy, *pairs).cluster.reservations) == MOST_RESERVATIONS


def test_jobs_for_which_nothing_can_be_reserved_cost_one_search_for_ends() -> None:
    """With 4,000 nodes and 600 such jobs, a decision took 6 seconds."""
    busy = [running(unit, 2 * DAY) for unit in (1, 2, 3, 4)]
    pods = [old(f"j{number}", 4, namespace=f"other-{number}") for number in range(20)]
    with mock.patch.object(Ranking, "_end", autospec=True, side_effect=Ranking._end) as searches:  # noqa: SLF001
        assert not ask(*busy, *pods).cluster.reservations
    assert searches.call_count == len(busy)


def test_a_namespace_owes_the_time_of_two_reservations_once() -> None:
    reserved_since = {("evil", "evil.a"): NOW, ("evil", "evil.b"): NOW}
    first = ask(old("b", **EVIL), memory=Memory(reserved_since=reserved_since), now=NOW + HOUR)
    assert first.memory.age_debts["evil"][0] == HOUR
    memory = replace(first.memory, reserved_since={("evil", "evil.b"): NOW})
    again = ask(memory=memory, now=NOW + HOUR + MINUTE)
    assert again.memory.age_debts["evil"][0] == HOUR + MINUTE


@pytest.mark.parametrize(
    ("after", "changes", "is_kept"),
    [
        (DAY - SECOND, {}, True),
        (DAY, {}, False),
        (HOUR, {"failed_namespaces": {"team": NOW + SECOND}}, False),
        (HOUR, {"age_debts": {"team": (MINUTE, NOW + SECOND)}}, False),
    ],
)
def test_a_job_with_the_first_reservation_comes_before_namespaces_without_nodes_for_a_day(
    after: timedelta, changes: Any, *, is_kept: bool
) -> None:
    """Many small jobs would overtake a large one, one after the other, and it would never start."""
    busy = [running(unit, 0 * HOUR, DAY + HOUR, namespace="team") for unit in (2, 3, 4)]
    large = old("large", 8, age=2 * HOUR)
    first = ask(*busy, large)
    assert reserved(first).startswith("team.large")
    memory, now = replace(first.memory, **changes), NOW + after
    small = job("small", 4, age=20 * MINUTE - after, **EVIL)
    decision = ask(*busy, large, small, memory=memory, now=now)
    assert placed(decision) == ({} if is_kept else {"evil/small": "us-01"})
    # The time is remembered, so that the job does not keep its position for another day.
    assert decision.memory.position_kept_since == {("team", "team.large"): NOW}


@pytest.mark.parametrize(("age", "is_kept"), [(2 * DAY, True), (2 * DAY - SECOND, False)])
def test_a_job_with_a_further_reservation_keeps_its_position_after_two_days(
    age: timedelta, *, is_kept: bool
) -> None:
    busy = [running(unit, HOUR, 3 * HOUR, namespace="team") for unit in (2, 3, 4)]
    trap = old("trap", 4, age=9 * DAY, demand=on_unit("us-02"), **EVIL)
    large = old("large", 8, age=age)
    first = ask(*busy, trap, large)
    assert [each.job[1] for each in first.cluster.reservations] == ["evil.trap", "team.large"]
    small = job("small", 4, age=20 * MINUTE, namespace="other")
    decision = ask(*busy, trap, large, small, memory=first.memory, now=NOW + SECOND)
    assert placed(decision) == ({} if is_kept else {"other/small": "us-01"})


def test_a_kept_position_is_forgotten_with_its_job_and_remembered_while_the_job_gets_its_nodes() -> None:
    """Otherwise the memory would grow, and a job whose admission is refused would have a new position."""
    busy = [running(unit, HOUR, 3 * HOUR, namespace="team") for unit in (2, 3, 4)]
    large = old("large", 8, age=2 * HOUR)
    memory = ask(*busy, large).memory
    assert memory.position_kept_since == {("team", "team.large"): NOW}
    later = NOW + MINUTE
    admitted = ask(*busy[:2], large, memory=memory, now=later)
    assert placed(admitted)
    assert admitted.memory.position_kept_since == memory.position_kept_since
    assert ask(*busy, memory=memory, now=later).memory.position_kept_since == {}
    new = [replace(pod, created=later) for pod in large]
    assert ask(*busy, new, memory=memory, now=later).memory.position_kept_since == {}
    failed = replace(memory, position_kept_since={}, failed_namespaces={"team": NOW})
    assert ask(*busy, large, memory=failed, now=NOW + 15 * MINUTE).memory.position_kept_since == {}


def test_a_reservation_against_the_own_namespace_gives_no_position() -> None:
    decision = ask(*[running(unit, HOUR, namespace="team") for unit in (2, 3, 4)], old("large", 8))
    assert decision.cluster.reservations[0].is_internal
    assert decision.memory.position_kept_since == {}


# ---- The order of jobs -------------------------------------------------------------------------------------


def test_a_job_waits_longer_the_more_nodes_its_namespace_has() -> None:
    busy = [running(unit, HOUR, namespace="evil") for unit in (1, 2, 3)]
    mine = job("a", 4, age=20 * MINUTE)
    for hours, first in ((300, "a"), (310, "evil/next")):
        assert [*placed(ask(*busy, old("next", 4, age=hours * HOUR, **EVIL), mine))] == [first]
    # With as much as others it goes by age, and priority is before all.
    assert [
        *placed(
            ask(*busy[:1], running(2, HOUR, namespace="team"), running(3, HOUR), mine, old("next", 4, **EVIL))
        )
    ] == ["evil/next"]
    assert [*placed(ask(*busy, old("next", 4, priority=1, **EVIL), mine))] == ["evil/next"]


LARGE = ("team", "team.large")
SMALL = ("evil", "evil.small-1"), ("evil", "evil.small-2")


def in_overload(count: int, own_count: int, age: timedelta) -> tuple[dict[str, Node], list[Pod]]:
    """All but two of the UltraServers are used, some of them by the namespace of two old jobs.

    Four-hour-old jobs of a namespace without nodes wait, too, and have a higher urgency.
    """
    nodes = servers(count)
    pods = [*old("large", 4, age=age), *old("next", 4, age=age)]
    for key in SMALL:
        pods += job(key[1].removeprefix("evil."), 4, age=4 * HOUR, **EVIL)
    for unit in range(3, count + 1):
        namespace = "team" if unit - 2 <= own_count else f"other-{unit}"
        workers = job(
            "runs", 4, namespace=namespace, job=f"{namespace}.{unit}", demand=on_unit(f"us-{unit:02}")
        )
        workers = [replace(pod, uid=f"{pod.uid}/{unit}") for pod in workers]
        pods += bound(workers, on(nodes, *(f"n{unit}-{position}" for position in range(4))))
    return nodes, pods


@pytest.mark.parametrize(
    ("count", "own_count", "age", "memory", "is_first"),
    [
        (16, 4, 5 * DAY, Memory(), True),
        (16, 4, 5 * DAY - SECOND, Memory(), False),
        (21, 5, 5 * DAY, Memory(), False),  # the job needs less than a twentieth of the nodes
        (16, 6, 5 * DAY, Memory(), False),  # the namespace would have more than two fifths of the nodes
        (16, 4, 6 * DAY, Memory(age_debts={"team": (MINUTE, NOW)}), False),
        (16, 4, 6 * DAY, Memory(position_kept_since=dict.fromkeys((LARGE, *SMALL), NOW)), False),
        (16, 4, 9 * DAY, Memory(position_kept_since=dict.fromkeys(SMALL, NOW)), False),  # by age it is first
        (16, 4, 6 * DAY, Memory(favoured_since={LARGE: NOW - 2 * DAY + SECOND}), True),
        (16, 4, 6 * DAY, Memory(favoured_since={LARGE: NOW - 2 * DAY}), False),
        (16, 4, 6 * DAY, Memory(favoured_since={LARGE: NOW - 7 * DAY}), True),  # of an older job of this name
    ],
)
def test_the_oldest_large_job_of_each_namespace_comes_first_after_five_days_for_two_days(
    count: int, own_count: int, age: timedelta, memory: Memory, *, is_first: bool
) -> None:
    """In overload, it would wait for weeks; and one that never starts must not stay first."""
    nodes, pods = in_overload(count, own_count, age)
    decision = decide(Topology(nodes.values()), pods, NOW, memory=memory)
    first_job = "large" if is_first else "evil/small-2"
    assert sorted(placed(decision)) == sorted(("evil/small-1", first_job))
    if is_first:
        since = memory.favoured_since.get(LARGE, NOW)
        assert decision.memory.favoured_since == {LARGE: since if since > NOW - age else NOW}
    # When the job runs, another job may come first.
    large = bound([pod for pod in pods if pod.key == LARGE], on(nodes, "n1-0", "n1-1", "n1-2", "n1-3"))
    pods = [*large, *(pod for pod in pods if pod.key != LARGE)]
    assert LARGE not in decide(Topology(nodes.values()), pods, NOW, memory=memory).memory.favoured_since


@pytest.mark.parametrize(
    ("older_job", "own_count", "other_nodes", "second_job"),
    [
        (old("older", 8, age=9 * DAY)[:7], 4, 0, "evil/small-1"),  # a worker is missing
        (old("older", 68, age=9 * DAY), 0, 0, "next"),  # more workers than nodes
        ([], 4, 64, "evil/small-1"),  # nodes without devices
    ],
)
def test_no_job_that_cannot_start_and_no_node_without_devices_keeps_an_old_large_job_back(
    older_job: list[Pod], own_count: int, other_nodes: int, second_job: str
) -> None:
    nodes, pods = in_overload(16, own_count, 5 * DAY)
    cpu_nodes = [Node(f"cpu-{number}", {}) for number in range(other_nodes)]
    decision = decide(Topology([*nodes.values(), *cpu_nodes]), [*pods, *older_job], NOW)
    assert decision.memory.favoured_since.keys() == {LARGE}
    assert sorted(placed(decision)) == sorted(("large", second_job))


def test_a_bug_about_an_old_large_job_affects_only_this_job() -> None:
    nodes, pods = in_overload(16, 4, 6 * DAY)

    def broken(job: Job) -> None:
        if job.key == LARGE:
            raise RuntimeError("a bug")

    with mock.patch.object(Job, "_why_it_repels_itself", broken):
        decision = decide(Topology(nodes.values()), pods, NOW)
    assert [job.key for job, _ in decision.errors] == [LARGE]
    assert sorted(placed(decision)) == ["evil/small-1", "next"]


def test_a_namespace_whose_job_gives_a_reservation_up_owes_the_time_for_which_it_had_it() -> None:
    """A tenant would let jobs of others drain, delete its own, and do so again with the next."""
    busy = [running(unit, HOUR) for unit in (1, 2, 3)]
    one, two = old("one", age=9 * HOUR, **EVIL), old("two", age=9 * HOUR, **EVIL)
    other = old("whole", age=5 * HOUR)
    first = ask(*busy, one, two, other)
    assert first.memory.reserved_since == {("evil", "evil.one"): NOW}
    later = NOW + 6 * HOUR
    second = ask(*busy, one, two, other, memory=first.memory, now=later)
    assert (second.memory.reserved_since, second.memory.age_debts) == (first.memory.reserved_since, {})
    parked = [replace(pod, gates=(*pod.gates, "mine")) for pod in one]
    for kept in ([], parked):
        gone = ask(*busy, kept, two, other, memory=second.memory, now=later)
        assert gone.memory.age_debts == {"evil": (6 * HOUR, later)}
        after = ask(*busy, two, other, memory=gone.memory, now=later + SECOND)
        assert reserved(after).startswith("team.whole")
        assert not after.memory.age_debts.keys() - {"evil"}
    # Who gets the units owes nothing.
    begun = ask(one, memory=second.memory, now=later)
    assert placed(begun) == {"evil/one": "us-01 us-02"}
    assert not begun.memory.age_debts
    assert not ask(bound(one, [*FOUR.values()][:8]), memory=begun.memory, now=later + MINUTE).memory.age_debts


def test_after_a_job_exceeds_its_limit_no_limit_of_its_namespace_counts_for_a_day() -> None:
    """A tenant would say a minute for jobs that run for a day, and always be let in."""
    there = [running(2, HOUR, 2 * HOUR), running(3, HOUR, 2 * HOUR)]
    liar = running(1, 10 * MINUTE, MINUTE, namespace="evil")
    waits = [*old(), *job("next", 4, limit=SOON, **EVIL)]
    decision = ask(*there, liar, waits)
    assert placed(decision) == {}
    assert decision.memory.exceeded_limits == {"evil": NOW}
    # Nor are its other limits believed. Nothing is remembered after a day.
    for later, passes in ((23 * HOUR, False), (24 * HOUR, True)):
        memory = replace(decision.memory, reserved_since={})
        again = decide(
            Topology(FOUR.values()),
            [pod for each in there for pod in each] + running(1, HOUR, 2 * HOUR) + waits,
            NOW + SECOND,
            memory=replace(memory, exceeded_limits={"evil": NOW + SECOND - later}),
        )
        assert ("evil/next" in placed(again)) == passes
    # Its end is looked for as late as an admission may take, from the admission of its first worker.
    for ran, late in ((3 * MINUTE, False), (3 * MINUTE + SECOND, True)):
        assert ("evil" in ask(running(1, ran, MINUTE, namespace="evil")).memory.exceeded_limits) == late
    again = [replace(liar[0], admitted_at=NOW), *liar[1:]]
    assert "evil" in ask(again).memory.exceeded_limits


@pytest.mark.parametrize("limit", [None, SECOND])
def test_hundreds_of_jobs_of_a_namespace_with_all_nodes_delay_no_large_job_of_another(limit: Any) -> None:
    """Each unit that becomes free would go to the next of them, even with short estimates."""
    busy = [running(unit, HOUR, namespace="evil") for unit in (1, 2, 3, 4)]
    # One of its jobs exceeds its limit.
    busy[3] = running(4, HOUR, limit, namespace="evil")
    queue = [pod for number in range(300) for pod in old(f"q{number}", 4, limit=limit, **EVIL)]
    large = job("large", 8, age=10 * MINUTE)
    memory, now, admitted = Memory(), NOW, []
    while "large" not in admitted:
        decision = ask(*busy, queue, large, memory=memory, now=now)
        admitted += placed(decision)
        assert reserved(decision).startswith("team.large") or "large" in admitted
        memory, now = decision.memory, now + HOUR
        busy = busy[1:]  # the first of them ends
    assert admitted == ["large"]


def test_the_limit_of_a_job_is_that_of_its_admission() -> None:
    """A tenant would raise the limit of a running job again and again, and never exceed it."""
    short = running(1, MINUTE, 2 * MINUTE, **EVIL)
    first = ask(short)
    assert first.memory.admitted_jobs == {("evil", "evil.r1"): (NOW - MINUTE, 2 * MINUTE)}
    for limit in (DAY, None):
        longer = [replace(pod, limit=limit) for pod in short]
        later = NOW + 3 * MINUTE
        assert "evil" not in ask(longer, memory=first.memory, now=later).memory.exceeded_limits
        assert "evil" in ask(longer, memory=first.memory, now=later + SECOND).memory.exceeded_limits
    # A later job with the same name has its own.
    gone = ask(memory=first.memory, now=NOW + SECOND)
    assert not gone.memory.admitted_jobs
    assert ask(longer, memory=gone.memory, now=NOW + HOUR).memory.exceeded_limits == {}


def test_a_job_that_was_admitted_without_a_limit_gets_none_later() -> None:
    there = running(1, MINUTE, **EVIL)
    first = ask(there)
    limited = [replace(pod, limit=2 * MINUTE) for pod in there]
    again = ask(limited, memory=first.memory, now=NOW + SECOND).memory
    assert again.admitted_jobs == first.memory.admitted_jobs == {("evil", "evil.r1"): (NOW - MINUTE, None)}


def test_an_author_who_removes_the_limit_right_after_the_admission_exceeds_it() -> None:
    """By the next decision the Pods have another limit than that for which the job was admitted."""
    first = ask(job("short", 4, limit=MINUTE, **EVIL))
    assert "evil/short" in placed(first)
    for limit in (None, DAY):
        there = bound(job("short", 4, limit=limit, **EVIL), on(FOUR, *(f"n1-{place}" for place in range(4))))
        there = [replace(pod, admitted_at=NOW) for pod in there]
        again = ask(there, memory=first.memory, now=NOW + SECOND)
        assert "evil" in ask(there, memory=again.memory, now=NOW + HOUR).memory.exceeded_limits


@pytest.mark.parametrize("limit", [HOUR, None])
def test_new_pods_in_place_of_deleted_ones_make_no_job_younger(limit: Any) -> None:
    """An author would delete one worker after the other, and never exceed a limit or run for a day."""
    there, memory, now = running(1, 0 * HOUR, limit, **EVIL), Memory(), NOW
    waits = [
        running(2, -20 * HOUR),
        running(3, -20 * HOUR),
        running(4, -20 * HOUR),
    ]
    for at in range(120):
        now += 15 * MINUTE
        there[at % 4] = replace(there[at % 4], admitted_at=now, created=now)
        decision = ask(there, *waits, old("large", 4), memory=memory, now=now)
        memory = decision.memory
    assert ("evil" in memory.exceeded_limits) == bool(limit)
    assert reserved(decision) == "team.large 2"


def test_pods_that_are_being_deleted_still_exceed_the_limit_of_their_job() -> None:
    """A tenant would start on reserved units with a short estimate, and delete the job with a long grace."""
    there = running(1, MINUTE, 2 * MINUTE, **EVIL)
    first = ask(there)
    ending = [replace(pod, deleting=True) for pod in there]
    second = ask(ending, memory=first.memory, now=NOW + SECOND)
    assert second.memory.admitted_jobs == first.memory.admitted_jobs
    end = End(is_late=False, is_assumed=False, at=NOW + MINUTE)
    assert second.cluster.ends.end(("evil", "evil.r1")) == end
    late = ask(ending, memory=second.memory, now=NOW + 3 * MINUTE + SECOND)
    assert "evil" in late.memory.exceeded_limits
    assert not ask(memory=late.memory, now=NOW + HOUR).memory.admitted_jobs


def test_a_namespace_owes_the_reservation_of_two_jobs_that_had_it_one_after_the_other() -> None:
    """A tenant would let a second job with a higher priority get the reservation, and then delete both."""
    busy, low = [running(unit, HOUR) for unit in (1, 2, 3)], old("low", age=9 * HOUR, **EVIL)
    first = ask(*busy, low, old("whole"))
    later = NOW + 6 * HOUR
    high = old("high", age=HOUR, priority=1, **EVIL)
    second = ask(*busy, low, high, old("whole"), memory=first.memory, now=later)
    assert second.memory.reserved_since == {("evil", "evil.high"): NOW}
    third = ask(*busy, high, old("whole"), memory=second.memory, now=later + SECOND)
    gone = ask(*busy, old("whole"), memory=third.memory, now=later + 2 * SECOND)
    assert gone.memory.age_debts["evil"][0] == 6 * HOUR + 2 * SECOND
    # Without the first job, the second one begins its own time.
    alone = ask(*busy, high, old("whole"), memory=first.memory, now=later)
    assert alone.memory.reserved_since == {("evil", "evil.high"): later}


def test_a_namespace_owes_a_day_at_most() -> None:
    """Otherwise jobs that fail at their start would keep a namespace from its nodes for weeks."""
    memory, now = Memory(age_debts={"evil": (DAY - MINUTE, NOW)}), NOW
    for name in ("a", "b"):
        begun = ask(job(name, 4, **EVIL), memory=memory, now=now)
        assert placed(begun) == {f"evil/{name}": "us-01"}
        memory = ask(memory=begun.memory, now=now + SECOND).memory
        now += MINUTE
    assert memory.age_debts["evil"][0] == DAY
    # It is over a day after it last grew.
    assert "evil" in ask(memory=memory, now=NOW + MINUTE + DAY).memory.age_debts
    assert "evil" not in ask(memory=memory, now=NOW + MINUTE + SECOND + DAY).memory.age_debts


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
def test_a_length_of_time(text: object, length: timedelta | None) -> None:
    assert duration(text) == length


def test_a_workers_limit_is_that_of_its_annotation_or_its_deadline() -> None:
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
