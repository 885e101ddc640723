"""When waiting jobs may start, compared with what happens minute by minute."""

import random
from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from contract.keys import DRIVER
from placement.decide.decide import Scene
from placement.decide.forecast import Start, forecast
from placement.decide.plan import Memory
from placement.decide.topology import Topology
from placement.messages import STUCK
from placement.observe.inventory import Claim, Inventory
from placement.observe.model import JobKey, Pod
from tests.placement.world import HOUR, MINUTE, NOW, bound, carry_out, decide, job, on, servers, settled

FOUR = servers(4)


def running(name: str, unit: int, ran: timedelta, limit: timedelta | None, **changes: object) -> list[Pod]:
    """Returns a job that has an UltraServer, and has run for so long."""
    there = on(FOUR, *(f"n{unit}-{place}" for place in range(4)))
    pods = bound(job(name, 4, limit=limit, age=ran + MINUTE, **changes), there, started=True)
    return [replace(pod, admitted_at=NOW - ran) for pod in pods]


def forecast_of(*pods: Iterable[Pod], most: int = 100, **more: object) -> dict[str, Start]:
    scene = Scene(Topology(FOUR.values()), tuple(pod for each in pods for pod in each), NOW, **more)
    decision = scene.decision()
    wanted = [waiting.job.key for waiting in decision.waiting if waiting.reason not in STUCK]
    starts = forecast(scene, decision, wanted, most)
    return {key[1].partition(".")[2]: start for key, start in starts.items()}


def happened(pods: Iterable[Pod], ends: dict[JobKey, datetime]) -> dict[str, datetime]:
    """Returns when jobs start if decisions are carried out each minute, and jobs end by their limits."""
    topology, world, memory, now = Topology(FOUR.values()), list(pods), Memory(), NOW
    starts: dict[str, datetime] = {}
    while any(pod.gated for pod in world):
        world = [pod for pod in world if ends.get(pod.key, datetime.max.replace(tzinfo=NOW.tzinfo)) > now]
        decision = decide(topology, world, now, memory=memory)
        for admission in decision.admissions:
            starts[admission.job.key[1].partition(".")[2]] = now
            ends[admission.job.key] = now + admission.job.limit
        world = settled(carry_out(world, decision, now), topology)
        memory, now = decision.memory, now + MINUTE
    return starts


@pytest.mark.parametrize("number", range(8))
def test_with_limits_that_are_kept_the_forecast_is_what_happens(number: int) -> None:
    dice = random.Random(number)  # noqa: S311 - no secret
    busy = [
        running(f"r{unit}", unit, HOUR, HOUR + dice.randint(1, 60) * MINUTE, namespace=f"other-{unit}")
        for unit in range(1, 5)
    ]
    waits = [
        job(
            f"w{index}",
            dice.choice((2, 4, 4, 8)),
            age=HOUR,
            limit=dice.randint(5, 40) * MINUTE,
            namespace=dice.choice(("team", "other-1", "other-2")),
        )
        for index in range(5)
    ]
    # Ages differ, so that their order does not depend on names.
    waits = [
        [replace(pod, created=pod.created - index * MINUTE) for pod in pods]
        for index, pods in enumerate(waits)
    ]
    pods = [pod for each in (*busy, *waits) for pod in each]
    ends = {pods[0].key: NOW - HOUR + pods[0].limit for pods in busy}
    expected = happened(pods, ends)
    starts = forecast_of(pods)
    assert {name: start.at for name, start in starts.items()} == expected
    assert all(start.latest in (None, start.at) for start in starts.values())


def ended(*names: str) -> tuple[JobKey, ...]:
    return tuple(("team", f"team.{name}") for name in names)


def test_only_the_reserved_start_can_be_exact() -> None:
    busy = [running(f"r{unit}", unit, HOUR, unit * HOUR + MINUTE) for unit in range(1, 5)]
    starts = forecast_of(*busy, job("first", 8, age=HOUR, limit=HOUR), job("second", 4, age=HOUR / 2))
    end = NOW + HOUR + MINUTE
    assert starts["first"] == Start(end, latest=end, after=ended("r2"))
    assert starts["second"] == Start(NOW + 2 * HOUR + MINUTE, after=ended("first", "r3"))


def test_a_job_may_start_before_its_reservation_if_jobs_without_a_limit_end() -> None:
    busy = [running("r1", 1, HOUR, None), *(running(f"r{unit}", unit, HOUR, 5 * HOUR) for unit in (2, 3, 4))]
    starts = forecast_of(*busy, job("first", 4, age=HOUR))
    assert starts == {"first": Start(NOW + HOUR, latest=NOW + 4 * HOUR, after=ended("r1"))}


def test_a_job_with_the_reservation_keeps_it_although_its_namespace_will_have_more_than_another() -> None:
    """When the other namespace's job ends, that namespace has nothing, so its next job would come first."""
    busy = [
        running("r1", 1, HOUR, 2 * HOUR, namespace="other"),
        running("r2", 2, HOUR, 3 * HOUR),
        *(running(f"r{unit}", unit, HOUR, 9 * HOUR, namespace="third") for unit in (3, 4)),
    ]
    first = job("first", 4, age=50 * MINUTE)
    second = job("second", 4, age=40 * MINUTE, namespace="other", limit=3 * HOUR)
    starts = forecast_of(*busy, first, second)
    assert starts["first"] == Start(NOW + HOUR, NOW + HOUR, after=(("other", "other.r1"),))
    assert starts["second"].at == NOW + 2 * HOUR


def test_jobs_without_an_end_and_too_many_ends_leave_starts_unknown() -> None:
    endless = [running(f"r{unit}", unit, 30 * HOUR, None) for unit in range(1, 5)]
    assert forecast_of(*endless, job("first", 4, age=HOUR)) == {}
    busy = [running(f"r{unit}", unit, HOUR, unit * HOUR + MINUTE) for unit in range(1, 5)]
    queue = [job(f"w{number}", 16, age=HOUR - number * MINUTE, limit=HOUR) for number in range(2)]
    assert forecast_of(*busy, *queue)["w1"].at == NOW + 4 * HOUR + MINUTE
    assert forecast_of(*busy, *queue, most=4).keys() == {"w0"}


def test_the_devices_that_a_job_claims_are_free_when_it_ends() -> None:
    pods, claims = [], {}
    for pod in (pod for unit in range(1, 5) for pod in running(f"r{unit}", unit, HOUR, 2 * HOUR)):
        devices = ((DRIVER, pod.node, "neuron-node"),)
        claims[pod.namespace, pod.name] = Claim((), None, 4, pod.uid, devices, (pod.uid,), extended=False)
        pods.append(replace(pod, claims=(("whole", pod.name),)))
    starts = forecast_of(pods, job("first", 16, age=MINUTE), inventory=Inventory(claims=claims))
    assert starts == {"first": Start(NOW + HOUR, after=ended("r1", "r2", "r3", "r4"))}
