"""Tests that a user's pods do not harm other users. Each case is an attack that once succeeded."""

from collections.abc import Iterable
from dataclasses import replace
from datetime import timedelta
from itertools import chain
from typing import Any

import pytest

from contract.keys import GATE, HOSTNAME, SERVER_4
from contract.placement import Placement, Placer
from placement.decide.allocate import MOST_COMPARED, MOST_DEMANDS, RANKING_COST
from placement.decide.choose import Ranking
from placement.decide.cluster import Cluster
from placement.decide.members import Examiner, Member
from placement.decide.plan import Decision, Failure, Memory, Tuning
from placement.decide.topology import Topology
from placement.observe.model import Demand, Expression, Node, Pod, Term
from tests.placement.world import (
    HOUR,
    NOW,
    SECOND,
    WHOLE_NODE,
    bind_pods,
    decide,
    deleted_pods,
    foreign_pod,
    job,
    node,
    pin_pod,
    placed_jobs,
    select_nodes,
    servers,
    waiting_reasons,
)

ZONE = "topology.kubernetes.io/zone"
PLAIN_NODE = replace(node(9, 0), labels={HOSTNAME: "n9-0", ZONE: "a"})
FOUR_SERVERS = {
    name: replace(server, labels={**server.labels, ZONE: "a"}) for name, server in servers(4).items()
}
EVIL: dict[str, Any] = {"namespace": "evil"}
TUNING = Tuning()


def decision_about(
    nodes: Iterable[Node], *pods: Iterable[Pod], memory: Memory | None = None, now: Any = NOW
) -> Decision:
    return decide(Topology(nodes), chain.from_iterable(pods), now, TUNING, memory)


def with_placement(pods: Iterable[Pod], **changes: Any) -> list[Pod]:
    """Returns the pods with other values in their placement annotations."""
    return [replace(pod, placement=pod.placement and replace(pod.placement, **changes)) for pod in pods]


def without_devices(pods: Iterable[Pod]) -> list[Pod]:
    return [replace(pod, demand=Demand(requests={"cpu": 100})) for pod in pods]


def test_a_pod_whose_annotation_names_a_zone_does_not_hold_the_zone() -> None:
    sleeping_pod = replace(
        foreign_pod("sleep", PLAIN_NODE.name, neuron=False),
        job="evil.sleep",
        placement=Placement(Placer.WHOLE_JOB, 4, 2, ZONE),
    )
    decision = decision_about([*FOUR_SERVERS.values(), PLAIN_NODE], [sleeping_pod], job("a", 16))
    assert placed_jobs(decision) == {"a": "us-01 us-02 us-03 us-04"}
    [untrusted_job] = decision.untrusted
    assert ZONE in untrusted_job.why
    assert untrusted_job.job.pods[0].pod.name == "sleep"


def test_escape_sequences_in_a_users_annotation_are_escaped_in_messages() -> None:
    sleeping_pod = replace(
        foreign_pod("sleep", "n1-0", neuron=False), placement=Placement(Placer.WHOLE_JOB, 4, 4, "\x1b[2Jzone")
    )
    waiting_pod = replace(sleeping_pod, name="waits", uid="waits", node="", gates=(GATE,), created=NOW)
    decision = decision_about(FOUR_SERVERS.values(), [sleeping_pod, waiting_pod])
    for text in (decision.untrusted[0].why, *waiting_reasons(decision).values()):
        assert r"\x1b[2Jzone" in text
        assert text.isprintable()


def test_a_pod_with_a_device_whose_annotation_names_a_zone_holds_only_its_node() -> None:
    worker = replace(
        foreign_pod("w", "n1-0"), job="evil.w", placement=Placement(Placer.WHOLE_JOB, 4, 2, ZONE)
    )
    assert placed_jobs(decision_about(FOUR_SERVERS.values(), [worker], job("a", 12))) == {
        "a": "us-02 us-03 us-04"
    }
    assert placed_jobs(decision_about(FOUR_SERVERS.values(), [worker], job("a", 2))) == {"a": "us-01-b"}


def test_pods_without_devices_hold_no_unit() -> None:
    running_pods = without_devices(
        bind_pods(
            job("evil", 4, **EVIL), select_nodes(FOUR_SERVERS, *(f"n1-{number}" for number in range(4)))
        )
    )
    decision = decision_about(FOUR_SERVERS.values(), running_pods, job("a", 16))
    assert placed_jobs(decision) == {"a": "us-01 us-02 us-03 us-04"}
    decision = decision_about(
        FOUR_SERVERS.values(), without_devices(job("evil", 16, age=HOUR, **EVIL)), job("a", 16)
    )
    assert placed_jobs(decision) == {"a": "us-01 us-02 us-03 us-04"}
    assert all("it requests no aws.amazon.com/neuron" in why for why in waiting_reasons(decision).values())


def test_pods_without_devices_do_not_count_as_workers_of_another_job() -> None:
    victim = bind_pods(job("a", 4), select_nodes(FOUR_SERVERS, *(f"n1-{number}" for number in range(4))))
    forged_pods = without_devices(
        replace(pod, uid=f"x-{pod.uid}", name=f"x-{pod.name}") for pod in job("a", 4, config=2)
    )
    decision = decision_about(FOUR_SERVERS.values(), [*victim, *forged_pods])
    assert not decision.deletions
    assert not decision.admissions
    assert placed_jobs(decision_about(FOUR_SERVERS.values(), [*job("a", 4), *forged_pods])) == {"a": "us-01"}


def test_a_pod_that_uses_a_jobs_host_port_keeps_the_job_off_only_its_node() -> None:
    port = Demand(requests={"cpu": 100, "host port 22/TCP": 1000})
    other_pod = replace(foreign_pod("port", "n1-0", neuron=False), demand=port)
    demand = Demand(requests=WHOLE_NODE | {"host port 22/TCP": 1000})
    decision = decision_about(
        FOUR_SERVERS.values(), [other_pod], job("a", 12, demand=demand), job("b", 4, demand=demand)
    )
    assert placed_jobs(decision) == {"a": "us-02 us-03 us-04"}
    assert "us-01: node n1-0 does not have enough host port 22/TCP" in waiting_reasons(decision)["b"]


def test_two_pods_of_a_job_on_one_node_with_different_annotations_cause_no_error() -> None:
    first_worker, second_worker = bind_pods(
        job("evil", 2, config=1, **EVIL), select_nodes(FOUR_SERVERS, "n1-0", "n1-0"), started=True
    )
    changed_worker = replace(second_worker, placement=Placement(Placer.WHOLE_JOB, 2, 4, SERVER_4))
    for pods in ([first_worker, changed_worker], [changed_worker, first_worker]):
        decision = decision_about(FOUR_SERVERS.values(), pods, job("a", 16), job("b", 15, config=1))
        assert "us-01: held by evil/evil" in waiting_reasons(decision)["a"]
        assert "n1-0: held by evil/evil" in waiting_reasons(decision)["b"]
        assert not decision.errors


def test_an_error_about_one_job_is_reported_and_other_jobs_are_admitted() -> None:
    class FaultySelector(dict[str, str]):
        def items(self) -> Any:
            raise RuntimeError("odd")

    faulty_job = job("evil", 4, demand=Demand(FaultySelector(), requests=WHOLE_NODE), **EVIL)
    decision = decision_about(FOUR_SERVERS.values(), faulty_job, job("a", 4))
    assert placed_jobs(decision) == {"a": "us-01"}
    assert [(failure.key, str(error)) for failure, error in decision.errors] == [
        (("evil", "evil.evil"), "odd")
    ]
    assert "RuntimeError('odd')" in waiting_reasons(decision)["evil/evil"]


def test_an_error_about_one_pod_is_reported_for_its_job(monkeypatch: pytest.MonkeyPatch) -> None:
    faulty_job = bind_pods(job("evil", 4, **EVIL), select_nodes(FOUR_SERVERS, "n1-0", "n1-1", "n1-2", "n1-3"))
    original_add_pod = Cluster.add_pod

    def add_pod_with_bug(cluster: Cluster, member: Member) -> None:
        original_add_pod(cluster, member)
        if member.pod.name == "evil-worker-2":
            raise RuntimeError("odd")

    monkeypatch.setattr(Cluster, "add_pod", add_pod_with_bug)
    decision = decision_about(FOUR_SERVERS.values(), faulty_job, job("a", 12))
    assert placed_jobs(decision) == {"a": "us-02 us-03 us-04"}
    assert [(failure.key, str(error)) for failure, error in decision.errors] == [
        (("evil", "evil.evil"), "odd")
    ]
    assert "RuntimeError('odd')" in waiting_reasons(decision)["evil/evil"]


def test_pods_that_cannot_be_examined_hold_their_nodes_and_pinned_units(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Otherwise another job would be admitted to their nodes and would not get them."""
    running_job, waiting_job = running_on_unit("runs", "team", 1), job("waits", 4)
    pinned_job = [pin_pod(pod, SERVER_4, "us-02") for pod in job("comes", 4, namespace="team")]
    cpu_job = without_devices(running_on_unit("bare", "evil", 3))
    zone_job = [pin_pod(pod, ZONE, "a") for pod in with_placement(job("far", 4, **EVIL), unit=ZONE)]

    def fail(*_: object) -> Member:
        raise RuntimeError("odd")

    monkeypatch.setattr(Examiner, "member_of", fail)
    holders = decision_about(
        FOUR_SERVERS.values(), running_job, waiting_job, pinned_job, cpu_job, zone_job
    ).cluster.holders
    assert {name: key for name, (key,) in holders.items()} == {
        f"n{unit}-{index}": ("team", f"team.{name}")
        for unit, name in ((1, "runs"), (2, "comes"))
        for index in range(4)
    }


def test_an_error_in_the_explanation_of_waiting_jobs_prevents_no_admission(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*_: object) -> Any:
        raise LookupError("it has no holder")

    monkeypatch.setattr("placement.decide.reasons.causes_text", fail)
    decision = decision_about(FOUR_SERVERS.values(), job("a", 12), job("b", 8))
    assert placed_jobs(decision) == {"a": "us-01 us-02 us-03"}
    assert "it has no holder" in waiting_reasons(decision)["b"]
    assert [str(error) for _, error in decision.errors] == ["it has no holder"]


def test_one_pod_without_the_gate_does_not_make_its_job_an_admitted_job() -> None:
    pods = job("evil", 16, age=SECOND, **EVIL)
    for forged_pod in (
        replace(pods[0], gates=(), node=PLAIN_NODE.name),
        replace(pods[0], gates=()),
        replace(pods[0], gates=(), node="n4-0", demand=Demand(requests={"cpu": 1})),
    ):
        decision = decision_about(
            [*FOUR_SERVERS.values(), PLAIN_NODE],
            running_on_unit("x", "team", 1),
            [forged_pod, *pods[1:]],
            job("a", 12),
        )
        assert placed_jobs(decision) == {"a": "us-02 us-03 us-04"}


def test_a_job_of_which_the_author_ungated_a_worker_comes_after_older_jobs() -> None:
    pods = job("evil", 16, age=SECOND, **EVIL)
    pods_with_ungated_worker = [replace(pods[0], gates=(), node="n4-0"), *pods[1:]]
    other_job = bind_pods(
        job("x", 4), select_nodes(FOUR_SERVERS, *(f"n1-{number}" for number in range(4))), started=True
    )
    decision = decision_about(
        FOUR_SERVERS.values(), other_job, pods_with_ungated_worker, job("a", 8, age=SECOND)
    )
    assert placed_jobs(decision) == {"a": "us-02 us-03"}
    assert "reserved" not in waiting_reasons(decision)["evil/evil"]


def test_a_pod_that_requests_devices_that_its_node_does_not_have_holds_no_node() -> None:
    pods = [
        replace(
            foreign_pod(f"fake-{name}", name), demand=Demand(requests={f"aws.amazon.com/{resource}": 1000})
        )
        for name, resource in zip(FOUR_SERVERS, ("neuron-made-up", "neurondevice") * 8, strict=True)
    ]
    assert placed_jobs(decision_about(FOUR_SERVERS.values(), pods, job("a", 16))) == {
        "a": "us-01 us-02 us-03 us-04"
    }
    assert (
        placed_jobs(decision_about(FOUR_SERVERS.values(), [foreign_pod("real", "n1-0")], job("a", 16))) == {}
    )


def memory_with_refusals(count: int, ago: timedelta, job: tuple[str, str] = ("evil", "evil.evil")) -> Memory:
    return Memory(failures={job: Failure(count, NOW - ago, "quota-police says no")})


def test_a_job_whose_writes_are_refused_backs_off_longer_each_time_and_holds_no_unit() -> None:
    evil_job = job("evil", 16, age=HOUR, **EVIL)
    half_admitted = [*(pin_pod(pod, SERVER_4, "us-01") for pod in evil_job[:4]), *evil_job[4:]]
    for count, pause in ((1, 10), (2, 20), (4, 80), (40, 1800)):
        early_decision = decision_about(
            FOUR_SERVERS.values(),
            half_admitted,
            job("a", 16),
            memory=memory_with_refusals(count, timedelta(seconds=pause - 1)),
        )
        assert placed_jobs(early_decision) == {"a": "us-01 us-02 us-03 us-04"}
        assert (
            "refused to change its pods: quota-police says no" in waiting_reasons(early_decision)["evil/evil"]
        )
        assert not deleted_pods(early_decision)
        later_decision = decision_about(
            FOUR_SERVERS.values(),
            half_admitted,
            job("a", 16),
            memory=memory_with_refusals(count, timedelta(seconds=pause)),
        )
        assert "evil/evil" in placed_jobs(later_decision)


def test_a_pinned_job_with_refused_writes_is_evicted_if_another_job_has_its_unit() -> None:
    evil_job = [pin_pod(pod, SERVER_4, "us-01", NOW - HOUR) for pod in job("evil", 4, **EVIL)]
    running_pods = bind_pods(
        job("a", 4), select_nodes(FOUR_SERVERS, *(f"n1-{number}" for number in range(4))), started=True
    )
    memory = memory_with_refusals(3, HOUR)
    first_decision = decision_about(FOUR_SERVERS.values(), evil_job, running_pods, memory=memory)
    assert not deleted_pods(first_decision)
    memory, later = replace(memory, unsettled=first_decision.memory.unsettled), NOW + TUNING.bound
    refused_memory = replace(memory, failures=memory_with_refusals(4, -TUNING.bound).failures)
    assert not deleted_pods(
        decision_about(FOUR_SERVERS.values(), evil_job, running_pods, memory=refused_memory, now=later)
    )
    assert (
        len(
            deleted_pods(
                decision_about(FOUR_SERVERS.values(), evil_job, running_pods, memory=memory, now=later)
            )
        )
        == 4
    )


def running_on_unit(name: str, namespace: str, unit: int) -> list[Pod]:
    """Returns the pods of a job without a time limit that runs on an UltraServer."""
    return bind_pods(
        job(name, 4, namespace=namespace),
        select_nodes(FOUR_SERVERS, *(f"n{unit}-{number}" for number in range(4))),
        started=True,
    )


def test_a_reservation_that_waits_for_jobs_of_its_namespace_excludes_only_that_namespace() -> None:
    evil_pods = [*running_on_unit("forever", "evil", 1), *job("all", 16, age=HOUR, **EVIL)]
    # The reservation excludes only jobs of the same namespace.
    decision = decision_about(FOUR_SERVERS.values(), evil_pods, job("more", 4, **EVIL), job("a", 12))
    assert placed_jobs(decision) == {"a": "us-02 us-03 us-04"}
    assert "evil/more" in waiting_reasons(decision)
    other_decision = decision_about(
        FOUR_SERVERS.values(),
        running_on_unit("forever", "team", 1),
        job("all", 16, age=HOUR, **EVIL),
        job("a", 12),
    )
    assert "reserved for evil/all" in waiting_reasons(other_decision)["a"]


def test_a_reservation_is_internal_if_a_pod_of_its_namespace_uses_the_host_port_of_the_job() -> None:
    port = {"host port 22/TCP": 1000}
    for namespace, units in (("evil", "us-01 us-02 us-03"), ("team", "")):
        port_pod = replace(
            foreign_pod("port", "n1-0", neuron=False),
            namespace=namespace,
            job=f"{namespace}.x",
            demand=Demand(requests=port),
        )
        large_job = job("all", 16, age=HOUR, demand=Demand(requests=WHOLE_NODE | port), **EVIL)
        decision = decision_about(FOUR_SERVERS.values(), [port_pod], large_job, job("a", 12))
        assert placed_jobs(decision).get("a", "") == units


def demand_with_comparisons(number: int, count: int) -> Demand:
    """Returns a demand that needs ``count`` comparisons. Each ``number`` gives a different demand."""
    values = tuple(f"{number}-{value}" for value in range(count - 3))
    return Demand({}, (Term((Expression(HOSTNAME, "NotIn", values),)),), (), WHOLE_NODE)


def test_the_comparisons_for_one_namespace_are_limited_and_do_not_delay_other_namespaces() -> None:
    cost = 100 - RANKING_COST
    evil_job = [
        job(f"j{number}", 4, age=HOUR, demand=demand_with_comparisons(number, cost), **EVIL)
        for number in range(12)
    ]
    decision = decision_about(
        FOUR_SERVERS.values(),
        *evil_job,
        job("a", 16, age=2 * HOUR),
        job("b", 4, demand=demand_with_comparisons(99, cost)),
    )
    messages = [why for why in waiting_reasons(decision).values() if "conditions on nodes" in why]
    assert len(messages) == 12 - MOST_COMPARED // (cost - 1 + RANKING_COST)
    assert f"at most {MOST_COMPARED}" in messages[0]
    assert "conditions" not in waiting_reasons(decision)["b"]


def test_different_requests_without_conditions_also_use_up_the_limit_of_comparisons() -> None:
    kinds = [
        Demand(requests=WHOLE_NODE | {"cpu": 1000 + number})
        for number in range(2 * MOST_COMPARED // RANKING_COST)
    ]
    evil_job = [job(f"j{number}", 1, age=HOUR, demand=kind, **EVIL) for number, kind in enumerate(kinds)]
    messages = [
        why for why in waiting_reasons(decision_about([], *evil_job)).values() if "conditions on nodes" in why
    ]
    assert len(messages) == len(kinds) // 2


def test_workers_with_many_different_demands_wait_with_a_reason() -> None:
    pods = [
        replace(pod, demand=demand_with_comparisons(number % (MOST_DEMANDS + 1), 5))
        for number, pod in enumerate(job("evil", 8, **EVIL))
    ]
    assert (
        f"at most {MOST_DEMANDS}" in waiting_reasons(decision_about(FOUR_SERVERS.values(), pods))["evil/evil"]
    )


def test_full_nodes_are_not_ranked_for_each_kind_of_job(monkeypatch: pytest.MonkeyPatch) -> None:
    """With 100 jobs of one node and 4,000 nodes, the ranking once took 8 s in each decision."""
    ranked_units, rank = [], Ranking._rank  # noqa: SLF001 - to count the calls
    monkeypatch.setattr(
        Ranking, "_rank", lambda ranking, unit: (ranked_units.append(unit), rank(ranking, unit))[1]
    )
    evil_job = [
        job(f"j{n}", 1, demand=Demand(requests=WHOLE_NODE | {"cpu": 1000 + n}), **EVIL) for n in range(9)
    ]
    decision = decision_about(
        FOUR_SERVERS.values(), [foreign_pod(f"on-{name}", name) for name in FOUR_SERVERS], *evil_job
    )
    assert len(decision.waiting) == 9
    assert not ranked_units
