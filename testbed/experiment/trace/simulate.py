"""Simulates the jobs of a trace with a policy, which decides which jobs start."""

import heapq
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from testbed.experiment.trace.fleet import Fleet, is_whole
from testbed.experiment.trace.jobs import Job


class Policy(Protocol):
    """Decides which jobs start, and on which nodes.

    Attributes:
        reserved: The free nodes that its last decision reserved for a waiting job.
    """

    reserved: Collection[int]

    def arrive(self, job: Job) -> None:
        """Adds a job, which waits from now on."""

    def leave(self, job: Job) -> None:
        """Removes a job, which has ended."""

    def decide(self, now: float) -> Sequence[tuple[Job, Sequence[int]]]:
        """Returns the jobs that start now, each with its nodes."""


class Sample(NamedTuple):
    """The state of the fleet from a time until the next sample.

    Attributes:
        at: The time, in seconds.
        busy: The number of nodes that jobs use.
        waiting: The number of nodes that the waiting jobs need.
        fragmented: The number of free nodes in UltraServers that are not wholly free.
        reserved: The number of free nodes that are reserved for a waiting job.
    """

    at: float
    busy: int
    waiting: int
    fragmented: int
    reserved: int


@dataclass
class Run:
    """The results of a simulation.

    Attributes:
        usable: The number of nodes that are not sick.
        starts: When each job started, by the job's number.
        samples: The state of the fleet over time.
        decisions: The number of decisions.
    """

    usable: int
    starts: dict[int, float] = field(default_factory=dict)
    samples: list[Sample] = field(default_factory=list)
    decisions: int = 0


def simulate(  # noqa: PLR0913, PLR0917 - the inputs of a simulation
    jobs: Sequence[Job],
    policy: Policy,
    fleet: Fleet,
    pause: float = 0.0,
    tick: float = 300.0,
    tell: Callable[[int, float, int], object] = lambda *_: None,
) -> Run:
    """Simulates jobs until the last job has ended, or no other job can start.

    Args:
        jobs: The jobs, in order of arrival.
        policy: The policy, which decides after arrivals and departures.
        fleet: The nodes, all of which are free.
        pause: Minimum seconds between two decisions.
        tick: While jobs wait, maximum seconds between two decisions: a policy may depend on the time.
        tell: A function that is called after each decision, with the number of jobs that have arrived, the
            time, and the number of waiting jobs.
    """
    run, waiting = Run(fleet.usable), dict[int, Job]()
    ends: list[tuple[float, int, Job, Sequence[int]]] = []
    arrived, decided_at, is_due = 0, -pause, False
    while arrived < len(jobs) or ends or is_due:
        times = [job.arrival for job in jobs[arrived : arrived + 1]] + [end[0] for end in ends[:1]]
        if is_due or waiting:
            times.append(decided_at + (pause if is_due else tick))
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
        if now >= decided_at + (pause if is_due else tick):
            for job, nodes in policy.decide(now):
                _check(job, nodes)
                fleet.take(nodes)
                del waiting[job.number]
                run.starts[job.number] = now
                heapq.heappush(ends, (now + job.duration, job.number, job, nodes))
            run.decisions += 1
            decided_at, is_due = now, False
            tell(arrived, now, len(waiting))
        requested = sum(job.nodes for job in waiting.values())
        busy = fleet.usable - fleet.count
        run.samples.append(Sample(now, busy, requested, fleet.fragmented, len(policy.reserved)))
    return run


def _check(job: Job, nodes: Sequence[int]) -> None:
    """Checks that a job is placed whole.

    Raises:
        ValueError: The job is not whole.
    """
    if len(nodes) != job.nodes or not is_whole(nodes, job.size):
        raise ValueError(f"job {job.number} of {job.nodes} nodes is not whole on {sorted(nodes)}")
