"""Implements EASY backfill, the standard rule of batch schedulers, to compare the product with it.

The first job that does not fit has a reservation of the units that become free first. A later job starts only
if it does not delay the first job: it uses other units, or it ends before the reservation begins.
"""

from collections.abc import Collection, Iterable, Sequence

from testbed.experiment.trace.fleet import Fleet
from testbed.experiment.trace.jobs import WEEK, Job


class Easy:
    """Decides in the order of arrival, with one reservation.

    Args:
        fleet: The nodes. The caller marks the nodes of started jobs as used before the next decision.
        default: Seconds for which a job without a limit is assumed to run.

    Attributes:
        reserved: The free nodes of the reservation.
    """

    def __init__(self, fleet: Fleet, default: float = WEEK) -> None:
        self.reserved: Collection[int] = ()
        self._fleet, self._default_limit = fleet, default
        self._queue: dict[int, Job] = {}
        self._nodes: dict[int, Sequence[int]] = {}
        self._job_on_node: dict[int, tuple[Job, float]] = {}
        """For each used node, the job and the time at which it started."""

    def arrive(self, job: Job) -> None:
        """Adds a job at the end of the queue."""
        self._queue[job.number] = job

    def leave(self, job: Job) -> None:
        """Frees the nodes of a job."""
        for node in self._nodes.pop(job.number):
            del self._job_on_node[node]

    def decide(self, now: float) -> Sequence[tuple[Job, Sequence[int]]]:
        """Considers each waiting job once, and returns the jobs that start, each with its nodes."""
        started: list[tuple[Job, Sequence[int]]] = []
        reserved_nodes: frozenset[int] = frozenset()
        reservation_start, has_reservation, trial_fleet = 0.0, False, self._fleet.copy()
        failed: set[tuple[int, bool]] = set()
        for job in self._order(now):
            ends_before = not has_reservation or self._ends_before(job, now, reservation_start)
            if (job.nodes, ends_before) in failed:
                continue
            nodes = trial_fleet.choose(job.size, job.units, () if ends_before else reserved_nodes)
            if nodes is not None:
                trial_fleet.take(nodes)
                self._start(job, nodes, now)
                started.append((job, nodes))
            elif has_reservation:
                failed.add((job.nodes, ends_before))
            elif reservation := self._reservation(job, now):
                has_reservation, (reservation_start, reserved_nodes) = True, reservation
        self.reserved = [node for free in trial_fleet.free for node in free if node in reserved_nodes]
        return started

    def _order(self, _now: float) -> Iterable[Job]:
        """Returns the waiting jobs in order."""
        return list(self._queue.values())

    def _ends_before(self, job: Job, now: float, begin: float) -> bool:
        """Returns whether a job ends before the reservation begins, by its time limit."""
        return now + (self._default_limit if job.limit is None else job.limit) <= begin

    def _assumed_end(self, job: Job, start: float, now: float) -> float:
        """Returns the time at which a running job is assumed to end."""
        return max(start + (self._default_limit if job.limit is None else job.limit), now)

    def _start(self, job: Job, nodes: Sequence[int], now: float) -> None:
        del self._queue[job.number]
        self._nodes[job.number] = nodes
        self._job_on_node.update((node, (job, now)) for node in nodes)

    def _reservation(self, job: Job, now: float) -> tuple[float, frozenset[int]] | None:
        """Returns the latest start of a job, and its nodes; None if it can never start."""
        ends = {
            node: self._assumed_end(running, start, now)
            for node, (running, start) in self._job_on_node.items()
        }
        candidates = sorted(
            (max(ends.get(node, now) for node in unit), unit) for unit in self._fleet.units[job.size]
        )[: job.units]
        if len(candidates) < job.units:
            return None
        return candidates[-1][0], frozenset(node for _, unit in candidates for node in unit)
