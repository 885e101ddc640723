"""Tests of the order of waiting jobs, and that users cannot improve the position of their jobs by tricks."""

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
    bind_pods,
    carry_out,
    decide,
    job,
    pin_pod,
    placed_jobs,
    run_scheduler,
    select_nodes,
    servers,
    waiting_reasons,
)

FOUR_SERVERS = servers(4)
EVIL: dict[str, Any] = {"namespace": "evil"}


def decision_about(*pods: Iterable[Pod], memory: Memory | None = None, now: Any = NOW) -> Decision:
    return decide(
        Topology(FOUR_SERVERS.values()), [pod for job_pods in pods for pod in job_pods], now, memory=memory
    )


def test_a_running_worker_does_not_give_its_job_priority_for_missing_units() -> None:
    """Otherwise an author could delete 15 of 16 workers, to get 15 nodes before all other jobs."""
    running_worker = bind_pods(
        job("evil", 16, age=HOUR, **EVIL)[:1], select_nodes(FOUR_SERVERS, "n1-0"), started=True
    )
    new_workers = job("evil", 16, age=SECOND, **EVIL)[1:]
    assert placed_jobs(decision_about(running_worker, new_workers, job("a", 12, priority=1))) == {
        "a": "us-02 us-03 us-04"
    }
    # Its age does not help, because the new workers were created later.
    assert placed_jobs(decision_about(running_worker, new_workers, job("a", 12))) == {
        "a": "us-02 us-03 us-04"
    }
    assert (
        "reserved"
        not in waiting_reasons(decision_about(running_worker, new_workers, job("a", 12)))["evil/evil"]
    )


def test_jobs_that_need_only_their_own_units_come_first() -> None:
    """Such a job has a recreated worker whose block has a unit, or an unfinished admission."""
    urgent_job = job("urgent", 16, priority=1)
    returning_job = [
        *bind_pods(job("a", 8)[:7], [*FOUR_SERVERS.values()][:7], started=True),
        *job("a", 8, age=SECOND)[7:],
    ]
    assert [admission.job.key[1] for admission in decision_about(returning_job, urgent_job).admissions] == [
        "team.a"
    ]
    first_worker, *other_workers = job("b", 8, age=MINUTE)
    unfinished_job = [pin_pod(first_worker, SERVER_4, "us-01", plan="1=us-02"), *other_workers]
    decision = decision_about(unfinished_job, job("c", 8, priority=1))
    assert [value.job.key[1] for value in decision.admissions] == ["team.b", "team.c"]
    assert placed_jobs(decision) == {"b": "us-01 us-02", "c": "us-03 us-04"}


def test_a_job_does_not_age_while_its_author_prevents_its_admission() -> None:
    """Otherwise an author could let a job age with a second gate, and remove the gate when units are free."""
    evil_job, now = job("evil", 16, age=HOUR, **EVIL), NOW + MINUTE
    other_job = job("a", 16, age=MINUTE)
    for stuck_pods in (
        [replace(evil_job[0], gates=("mine", *evil_job[0].gates)), *evil_job[1:]],
        [replace(evil_job[0], fault=("placement", "its annotations are too long")), *evil_job[1:]],
    ):
        memory = decision_about(stuck_pods).memory
        assert memory.age_starts == {("evil", "evil.evil"): NOW}
        decision = decision_about(evil_job, other_job, memory=memory, now=now)
        assert placed_jobs(decision) == {"a": "us-01 us-02 us-03 us-04"}
        # The time is remembered as long as the job waits.
        assert decision.memory.age_starts == memory.age_starts
        assert not decision_about(other_job, memory=decision.memory).memory.age_starts
        # The job keeps the age that it had before.
        older_memory = decision_about(stuck_pods, memory=Memory(decided_at=NOW - MINUTE)).memory
        assert older_memory.age_starts == {("evil", "evil.evil"): NOW - HOUR + MINUTE}
        assert (
            decision_about(stuck_pods, memory=older_memory, now=now).memory.age_starts[evil_job[0].key]
            == NOW - HOUR + 2 * MINUTE
        )


def test_the_age_of_a_job_begins_when_all_its_workers_exist() -> None:
    evil_job = [*job("evil", 16, age=HOUR, **EVIL)[:15], *job("evil", 16, age=SECOND, **EVIL)[15:]]
    assert placed_jobs(decision_about(evil_job, job("a", 16))) == {"a": "us-01 us-02 us-03 us-04"}


def test_jobs_that_are_deleted_right_after_their_admission_reduce_the_ages_of_jobs_of_the_namespace() -> None:
    """Otherwise a user with many jobs could hold a unit for 29 seconds again and again."""
    memory, now = Memory(), NOW
    for count in (1, 2, 3):
        evil_job = job(f"evil-{count}", 4, **EVIL)
        decision = decision_about(evil_job, memory=memory, now=now)
        assert decision.admissions
        # The debt does not depend on whether the job got its nodes.
        pods_before_deletion = (
            bind_pods(evil_job, select_nodes(FOUR_SERVERS, "n1-0", "n1-1", "n1-2", "n1-3"))
            if count > 1
            else evil_job
        )
        memory = decision_about(pods_before_deletion, memory=decision.memory, now=now + SECOND).memory
        memory = decision_about(memory=memory, now=now + 29 * SECOND).memory
        assert memory.age_debts["evil"][0] == count * 2 * MINUTE
        assert not memory.failed_namespaces
        now += MINUTE
    for age, later, first_job in ((6, MINUTE, "b"), (7, MINUTE, "evil/next"), (2, 2 * HOUR, "evil/next")):
        rivals = job("next", 16, age=age * MINUTE + SECOND, **EVIL), job("b", 16, age=MINUTE)
        assert [*placed_jobs(decision_about(*rivals, memory=memory, now=now + later))] == [first_job]


def test_jobs_that_last_or_end_normally_cause_no_debt() -> None:
    memory = decision_about(job("a", 4)).memory
    running_pods = bind_pods(
        job("a", 4), select_nodes(FOUR_SERVERS, "n1-0", "n1-1", "n1-2", "n1-3"), started=True
    )
    later_memory = decision_about(running_pods, memory=memory, now=NOW + 31 * SECOND).memory
    assert not decision_about(memory=later_memory, now=NOW + 32 * SECOND).memory.age_debts
    # Without a decision in between, the job may have lasted for 30 seconds.
    assert not decision_about(memory=memory, now=NOW + 31 * SECOND).memory.age_debts
    decision = decide(
        Topology(FOUR_SERVERS.values()), [EndedWorker(("team", "team.a"), 0)], NOW + SECOND, memory=memory
    )
    assert not decision.memory.age_debts


def test_a_namespace_with_a_failed_admission_has_one_job_at_a_time_admitted() -> None:
    """Otherwise its jobs could hold each free unit for two minutes, one after the other, without using it."""
    waiting_pods = [*job("x", 4, age=HOUR, **EVIL), *job("y", 4, age=HOUR, **EVIL), *job("a", 4)]
    first_decision = decision_about(
        waiting_pods, memory=Memory(failed_namespaces={"evil": NOW - 50 * MINUTE})
    )
    assert placed_jobs(first_decision) == {"evil/x": "us-01", "a": "us-02"}
    assert "waits until evil/x has its nodes" in waiting_reasons(first_decision)["evil/y"]
    admitted_pods, topology = carry_out(waiting_pods, first_decision), Topology(FOUR_SERVERS.values())
    second_decision = decision_about(admitted_pods, memory=first_decision.memory, now=NOW + SECOND)
    assert not second_decision.admissions
    admitted_pods = run_scheduler(admitted_pods, topology)
    assert placed_jobs(decision_about(admitted_pods, memory=second_decision.memory, now=NOW + MINUTE)) == {
        "evil/y": "us-03"
    }
    # The next job may try when the time of the first job is over, and all jobs when the failure is forgotten.
    stuck_pods = [pod for pod in carry_out(waiting_pods, first_decision) if pod.namespace == "evil"]
    assert placed_jobs(decision_about(stuck_pods, memory=second_decision.memory, now=NOW + 3 * MINUTE)) == {
        "evil/y": "us-02"
    }
    assert (
        len(decision_about(waiting_pods, memory=first_decision.memory, now=NOW + 11 * MINUTE).admissions) == 3
    )
