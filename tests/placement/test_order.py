"""The order of waiting jobs: nothing that is free of charge improves a job's place in it."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from contract.keys import SERVER_4
from placement.decide.plan import Decision, Memory
from placement.decide.topology import Topology
from placement.observe.model import EndedWorker, Pod
from tests.placement.world import (
    HOUR,
    MINUTE,
    NOW,
    SECOND,
    bound,
    carry_out,
    decide,
    job,
    on,
    pinned,
    placed,
    servers,
    settled,
    waiting,
)

FOUR = servers(4)
EVIL: dict[str, Any] = {"namespace": "evil"}


def ask(*pods: Iterable[Pod], memory: Memory | None = None, now: Any = NOW) -> Decision:
    return decide(Topology(FOUR.values()), [pod for each in pods for pod in each], now, memory=memory)


def test_a_job_with_a_running_worker_goes_before_no_other_for_missing_units() -> None:
    """Its author deletes the others: 15 nodes more went to it before all priorities."""
    at_work = bound(job("evil", 16, age=HOUR, **EVIL)[:1], on(FOUR, "n1-0"), started=True)
    again = job("evil", 16, age=SECOND, **EVIL)[1:]
    assert placed(ask(at_work, again, job("a", 12, priority=1))) == {"a": "us-02 us-03 us-04"}
    # Nor by its age: those that wait came later.
    assert placed(ask(at_work, again, job("a", 12))) == {"a": "us-02 us-03 us-04"}
    assert "reserved" not in waiting(ask(at_work, again, job("a", 12)))["evil/evil"]


def test_jobs_that_have_units_or_a_plan_go_first() -> None:
    """A worker that comes back to its block, and what an admission that was cut short has planned."""
    urgent = job("urgent", 16, priority=1)
    back = [*bound(job("a", 8)[:7], [*FOUR.values()][:7], started=True), *job("a", 8, age=SECOND)[7:]]
    assert [admission.job.key[1] for admission in ask(back, urgent).admissions] == ["team.a"]
    first, *others = job("b", 8, age=MINUTE)
    cut = [pinned(first, SERVER_4, "us-01", plan="1=us-02"), *others]
    decision = ask(cut, job("c", 8, priority=1))
    assert [value.job.key[1] for value in decision.admissions] == ["team.b", "team.c"]
    assert placed(decision) == {"b": "us-01 us-02", "c": "us-03 us-04"}


def test_no_job_ages_while_its_author_keeps_it_from_being_admitted() -> None:
    """A second gate, which only the author takes away, was as good as a place in the queue."""
    evil, now = job("evil", 16, age=HOUR, **EVIL), NOW + MINUTE
    other = job("a", 16, age=MINUTE)
    for parked in (
        [replace(evil[0], gates=("mine", *evil[0].gates)), *evil[1:]],
        [replace(evil[0], fault=("place", "its annotations are too long")), *evil[1:]],
    ):
        memory = ask(parked).memory
        assert memory.age_starts == {("evil", "evil.evil"): NOW}
        after = ask(evil, other, memory=memory, now=now)
        assert placed(after) == {"a": "us-01 us-02 us-03 us-04"}
        # For as long as it waits.
        assert after.memory.age_starts == memory.age_starts
        assert not ask(other, memory=after.memory).memory.age_starts
        # What it waited before it does not lose.
        again = ask(parked, memory=Memory(decided_at=NOW - MINUTE)).memory
        assert again.age_starts == {("evil", "evil.evil"): NOW - HOUR + MINUTE}
        assert ask(parked, memory=again, now=now).memory.age_starts[evil[0].key] == NOW - HOUR + 2 * MINUTE


def test_a_job_ages_from_when_all_its_workers_are_there() -> None:
    evil = [*job("evil", 16, age=HOUR, **EVIL)[:15], *job("evil", 16, age=SECOND, **EVIL)[15:]]
    assert placed(ask(evil, job("a", 16))) == {"a": "us-01 us-02 us-03 us-04"}


def test_jobs_that_are_deleted_at_once_cost_their_namespace_time_of_its_age() -> None:
    """A tenant with many jobs had a unit for 29 seconds again and again, and lost nothing."""
    memory, now = Memory(), NOW
    for count in (1, 2, 3):
        evil = job(f"evil-{count}", 4, **EVIL)
        begun = ask(evil, memory=memory, now=now)
        assert begun.admissions
        # Whether it has all its nodes by then or not.
        there = bound(evil, on(FOUR, "n1-0", "n1-1", "n1-2", "n1-3")) if count > 1 else evil
        memory = ask(there, memory=begun.memory, now=now + SECOND).memory
        memory = ask(memory=memory, now=now + 29 * SECOND).memory
        assert memory.age_debts["evil"][0] == count * 2 * MINUTE
        assert not memory.failed_namespaces
        now += MINUTE
    for age, later, first in ((6, MINUTE, "b"), (7, MINUTE, "evil/next"), (2, 2 * HOUR, "evil/next")):
        rivals = job("next", 16, age=age * MINUTE + SECOND, **EVIL), job("b", 16, age=MINUTE)
        assert [*placed(ask(*rivals, memory=memory, now=now + later))] == [first]


def test_jobs_that_last_or_come_to_an_end_cost_their_namespace_nothing() -> None:
    began = ask(job("a", 4)).memory
    there = bound(job("a", 4), on(FOUR, "n1-0", "n1-1", "n1-2", "n1-3"), started=True)
    lasted = ask(there, memory=began, now=NOW + 31 * SECOND).memory
    assert not ask(memory=lasted, now=NOW + 32 * SECOND).memory.age_debts
    # Where no decision was made in between, it may have lasted.
    assert not ask(memory=began, now=NOW + 31 * SECOND).memory.age_debts
    over = decide(Topology(FOUR.values()), [EndedWorker(("team", "team.a"), 0)], NOW + SECOND, memory=began)
    assert not over.memory.age_debts


def test_a_namespace_with_admissions_in_vain_has_one_job_at_a_time_try() -> None:
    """Its jobs had every unit that was free for two minutes, one after the other, and used none."""
    waits = [*job("x", 4, age=HOUR, **EVIL), *job("y", 4, age=HOUR, **EVIL), *job("a", 4)]
    first = ask(waits, memory=Memory(failed_namespaces={"evil": NOW - 50 * MINUTE}))
    assert placed(first) == {"evil/x": "us-01", "a": "us-02"}
    assert "waits until evil/x has its nodes" in waiting(first)["evil/y"]
    there, topology = carry_out(waits, first), Topology(FOUR.values())
    tries = ask(there, memory=first.memory, now=NOW + SECOND)
    assert not tries.admissions
    there = settled(there, topology)
    assert placed(ask(there, memory=tries.memory, now=NOW + MINUTE)) == {"evil/y": "us-03"}
    # Its time ends, and so does what is remembered.
    stuck = [pod for pod in carry_out(waits, first) if pod.namespace == "evil"]
    assert placed(ask(stuck, memory=tries.memory, now=NOW + 3 * MINUTE)) == {"evil/y": "us-02"}
    assert len(ask(waits, memory=first.memory, now=NOW + 11 * MINUTE).admissions) == 3
