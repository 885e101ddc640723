"""The reference: EASY backfill, the standard rule of batch schedulers.

The first job that does not fit has a reservation: the units that will be free first. Another job starts if it
does not delay that one: on other units, or if it ends before.
"""

from collections.abc import Collection, Iterable, Sequence

from testbed.experiment.trace.fleet import Fleet
from testbed.experiment.trace.jobs import WEEK, Job


class Easy:
    """Decides by arrival, with one reservation.

    Args:
        fleet: The nodes; what jobs take counts there before the next decision.
        default: How long a job without a limit is assumed to run, in seconds.

    Attributes:
        reserved: The free nodes of the reservation.
    """

    def __init__(self, fleet: Fleet, default: float = WEEK) -> None:
        self.reserved: Collection[int] = ()
        self._fleet, self._default = fleet, default
        self._queue: dict[int, Job] = {}
        self._nodes: dict[int, Sequence[int]] = {}
        self._on: dict[int, tuple[Job, float]] = {}
        """The job on each node that is used, and when it started."""

    def arrive(self, job: Job) -> None:
        """Adds a job at the end of the queue."""
        self._queue[job.number] = job

    def leave(self, job: Job) -> None:
        """Frees the nodes of a job."""
        for node in self._nodes.pop(job.number):
            del self._on[node]

    def decide(self, now: float) -> Sequence[tuple[Job, Sequence[int]]]:
        """Goes through the queue once, and returns the jobs that start."""
        started: list[tuple[Job, Sequence[int]]] = []
        kept: frozenset[int] = frozenset()
        begin, head, taken = 0.0, False, self._fleet.copy()
        failed: set[tuple[int, bool]] = set()
        for job in self._order(now):
            inside = not head or self._ends_before(job, now, begin)
            if (job.nodes, inside) in failed:
                continue
            nodes = taken.choose(job.size, job.units, () if inside else kept)
            if nodes is not None:
                taken.take(nodes)
                self._start(job, nodes, now)
                started.append((job, nodes))
            elif head:
                failed.add((job.nodes, inside))
            elif reservation := self._reservation(job, now):
                head, (begin, kept) = True, reservation
        self.reserved = [node for free in taken.free for node in free if node in kept]
        return started

    def _order(self, _now: float) -> Iterable[Job]:
        """Returns the jobs that wait, the first first."""
        return list(self._queue.values())

    def _ends_before(self, job: Job, now: float, begin: float) -> bool:
        """Returns whether a job ends before the reservation begins, as far as its limit says."""
        return now + (self._default if job.limit is None else job.limit) <= begin

    def _end(self, job: Job, start: float, now: float) -> float:
        """Returns when a job that runs is assumed to end."""
        return max(start + (self._default if job.limit is None else job.limit), now)

    def _start(self, job: Job, nodes: Sequence[int], now: float) -> None:
        del self._queue[job.number]
        self._nodes[job.number] = nodes
        self._on.update((node, (job, now)) for node in nodes)

    def _reservation(self, job: Job, now: float) -> tuple[float, frozenset[int]] | None:
        """Returns when a job can start at the latest, and on which nodes; None if it never can."""
        ends = {node: self._end(running, start, now) for node, (running, start) in self._on.items()}
        free = sorted(
            (max(ends.get(node, now) for node in unit), unit) for unit in self._fleet.units[job.size]
        )[: job.units]
        if len(free) < job.units:
            return None
        return free[-1][0], frozenset(node for _, unit in free for node in unit)
