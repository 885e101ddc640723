"""What a tenant writes on pods, and what it may cost the others: each case is an attack that worked."""

from collections.abc import Iterable
from dataclasses import replace
from datetime import timedelta
from itertools import chain
from typing import Any

import pytest

from contract.keys import GATE, HOSTNAME, SERVER_4
from contract.place import Place, Placer
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
    bound,
    decide,
    deleted,
    foreign,
    job,
    node,
    on,
    pinned,
    placed,
    servers,
    waiting,
)

ZONE = "topology.kubernetes.io/zone"
PLAIN = replace(node(9, 0), labels={HOSTNAME: "n9-0", ZONE: "a"})
FOUR = {name: replace(server, labels={**server.labels, ZONE: "a"}) for name, server in servers(4).items()}
EVIL: dict[str, Any] = {"namespace": "evil"}
TUNING = Tuning()


def ask(
    nodes: Iterable[Node], *pods: Iterable[Pod], memory: Memory | None = None, now: Any = NOW
) -> Decision:
    return decide(Topology(nodes), chain.from_iterable(pods), now, TUNING, memory)


def claims(pods: Iterable[Pod], **changes: Any) -> list[Pod]:
    """Returns pods that say something else about their place."""
    return [replace(pod, place=pod.place and replace(pod.place, **changes)) for pod in pods]


def without_devices(pods: Iterable[Pod]) -> list[Pod]:
    return [replace(pod, demand=Demand(requests={"cpu": 100})) for pod in pods]


def test_a_pod_that_names_a_zone_its_unit_holds_no_node_of_it() -> None:
    sleeper = replace(
        foreign("sleep", PLAIN.name, neuron=False),
        job="evil.sleep",
        place=Place(Placer.WHOLE_JOB, 4, 2, ZONE),
    )
    decision = ask([*FOUR.values(), PLAIN], [sleeper], job("a", 16))
    assert placed(decision) == {"a": "us-01 us-02 us-03 us-04"}
    [message] = decision.untrusted
    assert ZONE in message.why
    assert message.job.pods[0].pod.name == "sleep"


def test_text_of_a_tenant_is_shown_without_its_escape_sequences() -> None:
    sleeper = replace(
        foreign("sleep", "n1-0", neuron=False), place=Place(Placer.WHOLE_JOB, 4, 4, "\x1b[2Jzone")
    )
    waits = replace(sleeper, name="waits", uid="waits", node="", gates=(GATE,), created=NOW)
    decision = ask(FOUR.values(), [sleeper, waits])
    for text in (decision.untrusted[0].why, *waiting(decision).values()):
        assert r"\x1b[2Jzone" in text
        assert text.isprintable()


def test_the_same_on_a_node_of_the_zone_with_a_device_holds_that_node_only() -> None:
    worker = replace(foreign("w", "n1-0"), job="evil.w", place=Place(Placer.WHOLE_JOB, 4, 2, ZONE))
    assert placed(ask(FOUR.values(), [worker], job("a", 12))) == {"a": "us-02 us-03 us-04"}
    assert placed(ask(FOUR.values(), [worker], job("a", 2))) == {"a": "us-01-b"}


def test_pods_without_devices_take_no_unit() -> None:
    standing = without_devices(
        bound(job("evil", 4, **EVIL), on(FOUR, *(f"n1-{place}" for place in range(4))))
    )
    decision = ask(FOUR.values(), standing, job("a", 16))
    assert placed(decision) == {"a": "us-01 us-02 us-03 us-04"}
    decision = ask(FOUR.values(), without_devices(job("evil", 16, age=HOUR, **EVIL)), job("a", 16))
    assert placed(decision) == {"a": "us-01 us-02 us-03 us-04"}
    assert all("it requests no aws.amazon.com/neuron" in why for why in waiting(decision).values())


def test_pods_without_devices_are_no_workers_of_a_job_of_their_namespace() -> None:
    victim = bound(job("a", 4), on(FOUR, *(f"n1-{place}" for place in range(4))))
    forged = without_devices(
        replace(pod, uid=f"x-{pod.uid}", name=f"x-{pod.name}") for pod in job("a", 4, config=2)
    )
    decision = ask(FOUR.values(), [*victim, *forged])
    assert not decision.deletions
    assert not decision.admissions
    assert placed(ask(FOUR.values(), [*job("a", 4), *forged])) == {"a": "us-01"}


def test_a_pod_that_takes_a_jobs_host_port_keeps_it_off_its_node_only() -> None:
    port = Demand(requests={"cpu": 100, "host port 22/TCP": 1000})
    listening = replace(foreign("port", "n1-0", neuron=False), demand=port)
    wanted = Demand(requests=WHOLE_NODE | {"host port 22/TCP": 1000})
    decision = ask(FOUR.values(), [listening], job("a", 12, demand=wanted), job("b", 4, demand=wanted))
    assert placed(decision) == {"a": "us-02 us-03 us-04"}
    assert "us-01: node n1-0 does not have enough host port 22/TCP" in waiting(decision)["b"]


def test_pods_of_one_job_that_disagree_on_a_node_end_no_pass() -> None:
    first, second = bound(job("evil", 2, config=1, **EVIL), on(FOUR, "n1-0", "n1-0"), started=True)
    larger = replace(second, place=Place(Placer.WHOLE_JOB, 2, 4, SERVER_4))
    for pods in ([first, larger], [larger, first]):
        decision = ask(FOUR.values(), pods, job("a", 16), job("b", 15, config=1))
        assert "us-01: held by evil/evil" in waiting(decision)["a"]
        assert "n1-0: held by evil/evil" in waiting(decision)["b"]
        assert not decision.errors


def test_an_error_about_one_job_is_reported_and_the_others_are_placed() -> None:
    class Odd(dict[str, str]):
        def items(self) -> Any:
            raise RuntimeError("odd")

    odd = job("evil", 4, demand=Demand(Odd(), requests=WHOLE_NODE), **EVIL)
    decision = ask(FOUR.values(), odd, job("a", 4))
    assert placed(decision) == {"a": "us-01"}
    assert [(failure.key, str(error)) for failure, error in decision.errors] == [
        (("evil", "evil.evil"), "odd")
    ]
    assert "RuntimeError('odd')" in waiting(decision)["evil/evil"]


def test_an_error_about_the_place_of_a_pod_is_reported_for_its_job(monkeypatch: pytest.MonkeyPatch) -> None:
    odd = bound(job("evil", 4, **EVIL), on(FOUR, "n1-0", "n1-1", "n1-2", "n1-3"))
    honest = Cluster.add_pod

    def add_pod(cluster: Cluster, member: Member) -> None:
        honest(cluster, member)
        if member.pod.name == "evil-worker-2":
            raise RuntimeError("odd")

    monkeypatch.setattr(Cluster, "add_pod", add_pod)
    decision = ask(FOUR.values(), odd, job("a", 12))
    assert placed(decision) == {"a": "us-02 us-03 us-04"}
    assert [(failure.key, str(error)) for failure, error in decision.errors] == [
        (("evil", "evil.evil"), "odd")
    ]
    assert "RuntimeError('odd')" in waiting(decision)["evil/evil"]


def test_pods_that_cannot_be_looked_at_hold_their_nodes_and_their_pins(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Or the next job would be admitted to them and not get them."""
    runs, waits = fleet("runs", "team", 1), job("waits", 4)
    comes = [pinned(pod, SERVER_4, "us-02") for pod in job("comes", 4, namespace="team")]
    bare = without_devices(fleet("bare", "evil", 3))
    far = [pinned(pod, ZONE, "a") for pod in claims(job("far", 4, **EVIL), unit=ZONE)]

    def of(*_: object) -> Member:
        raise RuntimeError("odd")

    monkeypatch.setattr(Examiner, "member_of", of)
    held = ask(FOUR.values(), runs, waits, comes, bare, far).cluster.holders
    assert {name: key for name, (key,) in held.items()} == {
        f"n{unit}-{place}": ("team", f"team.{name}")
        for unit, name in ((1, "runs"), (2, "comes"))
        for place in range(4)
    }


def test_a_mistake_about_why_jobs_wait_keeps_no_other_from_its_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    def odd(*_: object) -> Any:
        raise LookupError("it has no holder")

    monkeypatch.setattr("placement.decide.reasons.causes_text", odd)
    decision = ask(FOUR.values(), job("a", 12), job("b", 8))
    assert placed(decision) == {"a": "us-01 us-02 us-03"}
    assert "it has no holder" in waiting(decision)["b"]
    assert [str(error) for _, error in decision.errors] == ["it has no holder"]


def test_gated_pods_and_one_on_a_plain_node_are_no_job_that_was_begun() -> None:
    pods = job("evil", 16, age=SECOND, **EVIL)
    for forged in (
        replace(pods[0], gates=(), node=PLAIN.name),
        replace(pods[0], gates=()),
        replace(pods[0], gates=(), node="n4-0", demand=Demand(requests={"cpu": 1})),
    ):
        decision = ask([*FOUR.values(), PLAIN], fleet("x", "team", 1), [forged, *pods[1:]], job("a", 12))
        assert placed(decision) == {"a": "us-02 us-03 us-04"}


def test_an_author_who_ungates_a_worker_is_not_before_others_and_has_nothing_reserved() -> None:
    pods = job("evil", 16, age=SECOND, **EVIL)
    ungated = [replace(pods[0], gates=(), node="n4-0"), *pods[1:]]
    taken = bound(job("x", 4), on(FOUR, *(f"n1-{place}" for place in range(4))), started=True)
    decision = ask(FOUR.values(), taken, ungated, job("a", 8, age=SECOND))
    assert placed(decision) == {"a": "us-02 us-03"}
    assert "reserved" not in waiting(decision)["evil/evil"]


def test_devices_that_no_plugin_of_a_node_offers_hold_nothing_of_it() -> None:
    fakes = [
        replace(foreign(f"fake-{name}", name), demand=Demand(requests={f"aws.amazon.com/{resource}": 1000}))
        for name, resource in zip(FOUR, ("neuron-made-up", "neurondevice") * 8, strict=True)
    ]
    assert placed(ask(FOUR.values(), fakes, job("a", 16))) == {"a": "us-01 us-02 us-03 us-04"}
    assert placed(ask(FOUR.values(), [foreign("real", "n1-0")], job("a", 16))) == {}


def refused(count: int, ago: timedelta, job: tuple[str, str] = ("evil", "evil.evil")) -> Memory:
    return Memory(failures={job: Failure(count, NOW - ago, "quota-police says no")})


def test_a_job_whose_writes_are_refused_pauses_longer_each_time_and_holds_nothing_meanwhile() -> None:
    evil = job("evil", 16, age=HOUR, **EVIL)
    half = [*(pinned(pod, SERVER_4, "us-01") for pod in evil[:4]), *evil[4:]]
    for count, pause in ((1, 10), (2, 20), (4, 80), (40, 1800)):
        rests = ask(FOUR.values(), half, job("a", 16), memory=refused(count, timedelta(seconds=pause - 1)))
        assert placed(rests) == {"a": "us-01 us-02 us-03 us-04"}
        assert "refused to change its pods: quota-police says no" in waiting(rests)["evil/evil"]
        assert not deleted(rests)
        again = ask(FOUR.values(), half, job("a", 16), memory=refused(count, timedelta(seconds=pause)))
        assert "evil/evil" in placed(again)


def test_a_pin_of_a_refused_job_is_given_up_once_another_job_has_the_unit() -> None:
    evil = [pinned(pod, SERVER_4, "us-01", NOW - HOUR) for pod in job("evil", 4, **EVIL)]
    running = bound(job("a", 4), on(FOUR, *(f"n1-{place}" for place in range(4))), started=True)
    memory = refused(3, HOUR)
    late = ask(FOUR.values(), evil, running, memory=memory)
    assert not deleted(late)
    memory, later = replace(memory, unsettled=late.memory.unsettled), NOW + TUNING.bound
    again = replace(memory, failures=refused(4, -TUNING.bound).failures)
    assert not deleted(ask(FOUR.values(), evil, running, memory=again, now=later))
    assert len(deleted(ask(FOUR.values(), evil, running, memory=memory, now=later))) == 4


def fleet(name: str, namespace: str, unit: int) -> list[Pod]:
    """Returns a job that runs for ever on an UltraServer."""
    return bound(
        job(name, 4, namespace=namespace), on(FOUR, *(f"n{unit}-{place}" for place in range(4))), started=True
    )


def test_nothing_is_reserved_against_others_for_a_job_that_waits_for_its_own_namespace() -> None:
    evil = [*fleet("forever", "evil", 1), *job("all", 16, age=HOUR, **EVIL)]
    # Within its own namespace it has a reservation.
    decision = ask(FOUR.values(), evil, job("more", 4, **EVIL), job("a", 12))
    assert placed(decision) == {"a": "us-02 us-03 us-04"}
    assert "evil/more" in waiting(decision)
    theirs = ask(FOUR.values(), fleet("forever", "team", 1), job("all", 16, age=HOUR, **EVIL), job("a", 12))
    assert "reserved for evil/all" in waiting(theirs)["a"]


def test_nothing_is_reserved_against_others_for_a_job_whose_room_other_pods_of_its_namespace_take() -> None:
    port = {"host port 22/TCP": 1000}
    for namespace, reserved in (("evil", "us-01 us-02 us-03"), ("team", "")):
        lodger = replace(
            foreign("port", "n1-0", neuron=False),
            namespace=namespace,
            job=f"{namespace}.x",
            demand=Demand(requests=port),
        )
        large = job("all", 16, age=HOUR, demand=Demand(requests=WHOLE_NODE | port), **EVIL)
        decision = ask(FOUR.values(), [lodger], large, job("a", 12))
        assert placed(decision).get("a", "") == reserved


def terms(number: int, count: int) -> Demand:
    """Returns a demand of its own that costs this many comparisons."""
    values = tuple(f"{number}-{value}" for value in range(count - 3))
    return Demand({}, (Term((Expression(HOSTNAME, "NotIn", values),)),), (), WHOLE_NODE)


def test_conditions_of_one_namespace_are_compared_up_to_a_bound_and_it_waits_alone() -> None:
    each = 100 - RANKING_COST
    evil = [job(f"j{number}", 4, age=HOUR, demand=terms(number, each), **EVIL) for number in range(12)]
    decision = ask(FOUR.values(), *evil, job("a", 16, age=2 * HOUR), job("b", 4, demand=terms(99, each)))
    messages = [why for why in waiting(decision).values() if "conditions on nodes" in why]
    assert len(messages) == 12 - MOST_COMPARED // (each - 1 + RANKING_COST)
    assert f"at most {MOST_COMPARED}" in messages[0]
    assert "conditions" not in waiting(decision)["b"]


def test_kinds_of_node_without_any_condition_count_as_well() -> None:
    kinds = [
        Demand(requests=WHOLE_NODE | {"cpu": 1000 + number})
        for number in range(2 * MOST_COMPARED // RANKING_COST)
    ]
    evil = [job(f"j{number}", 1, age=HOUR, demand=kind, **EVIL) for number, kind in enumerate(kinds)]
    messages = [why for why in waiting(ask([], *evil)).values() if "conditions on nodes" in why]
    assert len(messages) == len(kinds) // 2


def test_workers_with_many_different_demands_wait_with_a_reason() -> None:
    pods = [
        replace(pod, demand=terms(number % (MOST_DEMANDS + 1), 5))
        for number, pod in enumerate(job("evil", 8, **EVIL))
    ]
    assert f"at most {MOST_DEMANDS}" in waiting(ask(FOUR.values(), pods))["evil/evil"]


def test_nodes_that_are_full_are_not_ranked_for_each_kind_of_job(monkeypatch: pytest.MonkeyPatch) -> None:
    """100 jobs of one node of one namespace took 8 s of each decision about 4,000 nodes."""
    ranked, rank = [], Ranking._rank  # noqa: SLF001 - the work is what counts
    monkeypatch.setattr(Ranking, "_rank", lambda own, unit: (ranked.append(unit), rank(own, unit))[1])
    evil = [job(f"j{n}", 1, demand=Demand(requests=WHOLE_NODE | {"cpu": 1000 + n}), **EVIL) for n in range(9)]
    decision = ask(FOUR.values(), [foreign(f"on-{name}", name) for name in FOUR], *evil)
    assert len(decision.waiting) == 9
    assert not ranked
