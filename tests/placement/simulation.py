"""Hours of a cluster in moments: jobs arrive, are decided about, run and end; no API server, no clock."""

import heapq
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import timedelta

from contract.keys import SERVER_4
from placement.decide.plan import Memory, Tuning
from placement.decide.topology import Topology
from placement.observe.model import Node, Pod
from tests.placement.world import MINUTE, NOW, carry_out, decide, job, name_of, settled


@dataclass(frozen=True)
class Arrival:
    """A job that comes after this many minutes and runs for this many."""

    at: float
    name: str
    workers: int
    minutes: float


@dataclass
class Run:
    """The result of the jobs.

    Attributes:
        started: After how many minutes each job was placed.
        whole_free: For every decision how many UltraServers were wholly free after it.
        node_minutes: Nodes times minutes that jobs ran.
    """

    started: dict[str, float] = field(default_factory=dict)
    whole_free: list[int] = field(default_factory=list)
    node_minutes: float = 0.0


def simulate(
    nodes: Iterable[Node], arrivals: Iterable[Arrival], tuning: Tuning | None = None, end: float = 10**6
) -> Run:
    """Lets jobs come and go until nothing is left to happen, or `end` (in minutes)."""
    topology, run, memory = Topology(nodes), Run(), None
    coming = {arrival.name: arrival for arrival in arrivals}
    events = [(arrival.at, name) for name, arrival in coming.items()]
    # A decision a minute as well, as the program makes: the age of jobs grows without an event.
    events += [(float(minute), "") for minute in range(int(min(end, max(at for at, _ in events) + 600)))]
    heapq.heapify(events)
    pods: dict[str, list[Pod]] = {}
    while events and events[0][0] <= end:
        at, name = heapq.heappop(events)
        if name in run.started:
            del pods[name]
        elif name:
            pods[name] = _pods(coming[name])
        waiting = pods.keys() - run.started.keys()
        if (name or at % 1 == 0) and waiting:
            memory = _step(topology, pods, at * MINUTE, run, memory, tuning)
            for begun in waiting & run.started.keys():
                arrival = coming[begun]
                heapq.heappush(events, (at + arrival.minutes, begun))
                run.node_minutes += arrival.workers * max(min(arrival.minutes, end - at), 0)
    return run


def _step(  # noqa: PLR0913, PLR0917 - all that a simulation is
    topology: Topology,
    pods: dict[str, list[Pod]],
    passed: timedelta,
    run: Run,
    memory: Memory | None,
    tuning: Tuning | None,
) -> Memory:
    now = NOW + passed
    everything = [pod for group in pods.values() for pod in group]
    decision = decide(topology, everything, now, tuning, memory)
    after = defaultdict(list)
    for pod in settled(carry_out(everything, decision, now), topology):
        after[name_of(pod.key)].append(pod)
    pods.update(after)
    run.started |= {name_of(admission.job.key): passed / MINUTE for admission in decision.admissions}
    free = (decision.cluster.free_count(SERVER_4, unit) for unit in topology.units_of_label(SERVER_4))
    run.whole_free.append(sum(count == 4 for count in free))
    return decision.memory


def _pods(arrival: Arrival) -> list[Pod]:
    return job(arrival.name, arrival.workers, age=-arrival.at * MINUTE)
