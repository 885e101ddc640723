"""Tests of the forecast of when waiting jobs may start, compared with a simulation of each minute."""

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
from tests.placement.world import (
    HOUR,
    MINUTE,
    NOW,
    bind_pods,
    carry_out,
    decide,
    job,
    run_scheduler,
    select_nodes,
    servers,
)

FOUR_SERVERS = servers(4)


def running(
    name: str, unit: int, run_time: timedelta, limit: timedelta | None, **changes: object
) -> list[Pod]:
    """Returns the pods of a job that has run on an UltraServer for the given time."""
    nodes = select_nodes(FOUR_SERVERS, *(f"n{unit}-{number}" for number in range(4)))
    pods = bind_pods(job(name, 4, limit=limit, age=run_time + MINUTE, **changes), nodes, started=True)
    return [replace(pod, admitted_at=NOW - run_time) for pod in pods]


def forecast_of(*pods: Iterable[Pod], max_ends: int = 100, **scene_fields: object) -> dict[str, Start]:
    """Returns the forecast start of each waiting job, by the job's name."""
    scene = Scene(
        Topology(FOUR_SERVERS.values()),
        tuple(pod for job_pods in pods for pod in job_pods),
        NOW,
        **scene_fields,
    )
    decision = scene.decision()
    keys = [waiting.job.key for waiting in decision.waiting if waiting.reason not in STUCK]
    starts = forecast(scene, decision, keys, max_ends)
    return {key[1].partition(".")[2]: start for key, start in starts.items()}


def actual_starts(pods: Iterable[Pod], ends: dict[JobKey, datetime]) -> dict[str, datetime]:
    """Returns when jobs start with a decision each minute, if jobs run as long as their limits."""
    topology, live_pods, memory, now = Topology(FOUR_SERVERS.values()), list(pods), Memory(), NOW
    starts: dict[str, datetime] = {}
    while any(pod.gated for pod in live_pods):
        live_pods = [
            pod for pod in live_pods if ends.get(pod.key, datetime.max.replace(tzinfo=NOW.tzinfo)) > now
        ]
        decision = decide(topology, live_pods, now, memory=memory)
        for admission in decision.admissions:
            starts[admission.job.key[1].partition(".")[2]] = now
            ends[admission.job.key] = now + admission.job.limit
        live_pods = run_scheduler(carry_out(live_pods, decision, now), topology)
        memory, now = decision.memory, now + MINUTE
    return starts


@pytest.mark.parametrize("number", range(8))
def test_the_forecast_is_exact_if_jobs_run_as_long_as_their_limits(number: int) -> None:
    dice = random.Random(number)  # noqa: S311 - no secret
    running_jobs = [
        running(f"r{unit}", unit, HOUR, HOUR + dice.randint(1, 60) * MINUTE, namespace=f"other-{unit}")
        for unit in range(1, 5)
    ]
    waiting_jobs = [
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
    waiting_jobs = [
        [replace(pod, created=pod.created - index * MINUTE) for pod in pods]
        for index, pods in enumerate(waiting_jobs)
    ]
    pods = [pod for job_pods in (*running_jobs, *waiting_jobs) for pod in job_pods]
    ends = {pods[0].key: NOW - HOUR + pods[0].limit for pods in running_jobs}
    expected = actual_starts(pods, ends)
    starts = forecast_of(pods)
    assert {name: start.at for name, start in starts.items()} == expected
    assert all(start.latest in (None, start.at) for start in starts.values())


def keys_of_team(*names: str) -> tuple[JobKey, ...]:
    """Returns the keys of jobs of the namespace team."""
    return tuple(("team", f"team.{name}") for name in names)


def test_only_the_start_of_a_job_with_a_reservation_can_be_exact() -> None:
    running_jobs = [running(f"r{unit}", unit, HOUR, unit * HOUR + MINUTE) for unit in range(1, 5)]
    starts = forecast_of(*running_jobs, job("first", 8, age=HOUR, limit=HOUR), job("second", 4, age=HOUR / 2))
    end = NOW + HOUR + MINUTE
    assert starts["first"] == Start(end, latest=end, after=keys_of_team("r2"))
    assert starts["second"] == Start(NOW + 2 * HOUR + MINUTE, after=keys_of_team("first", "r3"))


def test_a_job_may_start_before_its_reservation_if_jobs_without_a_limit_end() -> None:
    running_jobs = [
        running("r1", 1, HOUR, None),
        *(running(f"r{unit}", unit, HOUR, 5 * HOUR) for unit in (2, 3, 4)),
    ]
    starts = forecast_of(*running_jobs, job("first", 4, age=HOUR))
    assert starts == {"first": Start(NOW + HOUR, latest=NOW + 4 * HOUR, after=keys_of_team("r1"))}


def test_a_job_keeps_its_reservation_although_another_namespace_will_have_fewer_nodes() -> None:
    """When r1 ends, ``second`` is of a namespace without nodes, but ``first`` keeps its position."""
    running_jobs = [
        running("r1", 1, HOUR, 2 * HOUR, namespace="other"),
        running("r2", 2, HOUR, 3 * HOUR),
        *(running(f"r{unit}", unit, HOUR, 9 * HOUR, namespace="third") for unit in (3, 4)),
    ]
    first = job("first", 4, age=50 * MINUTE)
    second = job("second", 4, age=40 * MINUTE, namespace="other", limit=3 * HOUR)
    starts = forecast_of(*running_jobs, first, second)
    assert starts["first"] == Start(NOW + HOUR, NOW + HOUR, after=(("other", "other.r1"),))
    assert starts["second"].at == NOW + 2 * HOUR


def test_a_start_is_unknown_without_known_ends_or_after_too_many_ends() -> None:
    endless_jobs = [running(f"r{unit}", unit, 30 * HOUR, None) for unit in range(1, 5)]
    assert forecast_of(*endless_jobs, job("first", 4, age=HOUR)) == {}
    running_jobs = [running(f"r{unit}", unit, HOUR, unit * HOUR + MINUTE) for unit in range(1, 5)]
    queue = [job(f"w{number}", 16, age=HOUR - number * MINUTE, limit=HOUR) for number in range(2)]
    assert forecast_of(*running_jobs, *queue)["w1"].at == NOW + 4 * HOUR + MINUTE
    assert forecast_of(*running_jobs, *queue, max_ends=4).keys() == {"w0"}


def test_claimed_devices_are_free_when_their_job_ends() -> None:
    pods, claims = [], {}
    for pod in (pod for unit in range(1, 5) for pod in running(f"r{unit}", unit, HOUR, 2 * HOUR)):
        devices = ((DRIVER, pod.node, "neuron-node"),)
        claims[pod.namespace, pod.name] = Claim((), None, 4, pod.uid, devices, (pod.uid,), extended=False)
        pods.append(replace(pod, claims=(("whole", pod.name),)))
    starts = forecast_of(pods, job("first", 16, age=MINUTE), inventory=Inventory(claims=claims))
    assert starts == {"first": Start(NOW + HOUR, after=keys_of_team("r1", "r2", "r3", "r4"))}
