"""Jobs of a trace through a policy, in simulated time."""

import heapq
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from testbed.experiment.trace.fleet import Fleet, is_whole
from testbed.experiment.trace.jobs import Job


class Policy(Protocol):
    """The policy that decides. It has the size of the fleet, and receives the calls below.

    Attributes:
        reserved: The free nodes that its last decision holds for a job that waits.
    """

    reserved: Collection[int]

    def arrive(self, job: Job) -> None:
        """Adds a job, which waits from now on."""

    def leave(self, job: Job) -> None:
        """Removes a job, which has ended."""

    def decide(self, now: float) -> Sequence[tuple[Job, Sequence[int]]]:
        """Returns the jobs that start now, and on which nodes."""


class Sample(NamedTuple):
    """The fleet from a moment until the next sample.

    Attributes:
        waiting: How many nodes the jobs ask for that wait.
        fragmented: Free nodes in UltraServers that others use a part of.
        reserved: Free nodes that are held for a job that waits.
    """

    at: float
    busy: int
    waiting: int
    fragmented: int
    reserved: int


@dataclass
class Run:
    """The events of a run.

    Attributes:
        starts: When each job started, by its number.
        usable: Nodes that are not sick.
        decisions: How many were made.
    """

    usable: int
    starts: dict[int, float] = field(default_factory=dict)
    samples: list[Sample] = field(default_factory=list)
    decisions: int = 0


def simulate(  # noqa: PLR0913, PLR0917 - all that a simulation is
    jobs: Sequence[Job],
    policy: Policy,
    fleet: Fleet,
    pause: float = 0.0,
    tick: float = 300.0,
    tell: Callable[[int, float, int], object] = lambda *_: None,
) -> Run:
    """Simulates jobs that arrive, start and leave until the last has ended, or none can start any more.

    Args:
        jobs: By arrival.
        policy: Decides after arrivals and departures.
        fleet: All free at first.
        pause: Seconds between two decisions at least.
        tick: While jobs wait it decides once more after this many seconds without a decision: some rules of a
            policy depend on the time alone.
        tell: Called after each decision with the jobs that have arrived, the time, and the jobs that wait.
    """
    run, waiting = Run(fleet.usable), dict[int, Job]()
    ends: list[tuple[float, int, Job, Sequence[int]]] = []
    arrived, decided, is_due = 0, -pause, False
    while arrived < len(jobs) or ends or is_due:
        times = [job.arrival for job in jobs[arrived : arrived + 1]] + [end[0] for end in ends[:1]]
        if is_due or waiting:
            times.append(decided + (pause if is_due else tick))
        now = min(times)
        while ends and ends[0][0] <= now:
            _, _, job, nodes = heapq.heappop(ends)
            fleet.give_back(nodes)
            policy.leave(job)
            is_due = True
        while arrived < len(jobs) and jobs[arrived].arrival <= now:
            waiting[jobs[arrived].number] = jobs[arrived]
            policy.arrive(jobs[arrived])
            arrived += 1
            is_due = True
        if now >= decided + (pause if is_due else tick):
            for job, nodes in policy.decide(now):
                _check(job, nodes)
                fleet.take(nodes)
                del waiting[job.number]
                run.starts[job.number] = now
                heapq.heappush(ends, (now + job.duration, job.number, job, nodes))
            run.decisions += 1
            decided, is_due = now, False
            tell(arrived, now, len(waiting))
        requested = sum(job.nodes for job in waiting.values())
        busy = fleet.usable - fleet.count
        run.samples.append(Sample(now, busy, requested, fleet.fragmented, len(policy.reserved)))
    return run


def _check(job: Job, nodes: Sequence[int]) -> None:
    """Checks that a job is placed whole.

    Raises:
        ValueError: It is not.
    """
    if len(nodes) != job.nodes or not is_whole(nodes, job.size):
        raise ValueError(f"job {job.number} of {job.nodes} nodes is not whole on {sorted(nodes)}")
