"""Simulates hours of a cluster in which jobs arrive, are admitted, run and end. Uses no clock."""

import heapq
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import timedelta

from contract.keys import SERVER_4
from placement.decide.plan import Memory, Tuning
from placement.decide.topology import Topology
from placement.observe.model import Node, Pod
from tests.placement.world import MINUTE, NOW, carry_out, decide, job, run_scheduler, short_name


@dataclass(frozen=True)
class Arrival:
    """A job that arrives after ``at`` minutes and runs for ``minutes`` minutes."""

    at: float
    name: str
    workers: int
    minutes: float


@dataclass
class Run:
    """The result of a simulation.

    Attributes:
        started: The minute at which each job was admitted, by the job's name.
        whole_free: The number of completely free UltraServers after each decision.
        node_minutes: The minutes for which jobs used nodes, summed over all nodes.
    """

    started: dict[str, float] = field(default_factory=dict)
    whole_free: list[int] = field(default_factory=list)
    node_minutes: float = 0.0


def simulate(
    nodes: Iterable[Node], arrivals: Iterable[Arrival], tuning: Tuning | None = None, end: float = 10**6
) -> Run:
    """Simulates the jobs until there are no more events, or until the minute `end`."""
    topology, run, memory = Topology(nodes), Run(), None
    arrivals_by_name = {arrival.name: arrival for arrival in arrivals}
    events = [(arrival.at, name) for name, arrival in arrivals_by_name.items()]
    # There is also a decision each minute, because the ages of jobs grow without an event.
    events += [(float(minute), "") for minute in range(int(min(end, max(at for at, _ in events) + 600)))]
    heapq.heapify(events)
    pods: dict[str, list[Pod]] = {}
    while events and events[0][0] <= end:
        at, name = heapq.heappop(events)
        if name in run.started:
            del pods[name]
        elif name:
            pods[name] = _pods(arrivals_by_name[name])
        waiting = pods.keys() - run.started.keys()
        if (name or at % 1 == 0) and waiting:
            memory = _step(topology, pods, at * MINUTE, run, memory, tuning)
            for started_name in waiting & run.started.keys():
                arrival = arrivals_by_name[started_name]
                heapq.heappush(events, (at + arrival.minutes, started_name))
                run.node_minutes += arrival.workers * max(min(arrival.minutes, end - at), 0)
    return run


def _step(  # noqa: PLR0913, PLR0917 - the state of the simulation
    topology: Topology,
    pods: dict[str, list[Pod]],
    elapsed: timedelta,
    run: Run,
    memory: Memory | None,
    tuning: Tuning | None,
) -> Memory:
    now = NOW + elapsed
    all_pods = [pod for group in pods.values() for pod in group]
    decision = decide(topology, all_pods, now, tuning, memory)
    pods_by_name = defaultdict(list)
    for pod in run_scheduler(carry_out(all_pods, decision, now), topology):
        pods_by_name[short_name(pod.key)].append(pod)
    pods.update(pods_by_name)
    run.started |= {short_name(admission.job.key): elapsed / MINUTE for admission in decision.admissions}
    free = (decision.cluster.free_count(SERVER_4, unit) for unit in topology.units_of_label(SERVER_4))
    run.whole_free.append(sum(count == 4 for count in free))
    return decision.memory


def _pods(arrival: Arrival) -> list[Pod]:
    return job(arrival.name, arrival.workers, age=-arrival.at * MINUTE)
