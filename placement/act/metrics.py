"""The Prometheus metrics of the loop, in a registry without metrics of the process and the interpreter."""

from collections import Counter as Counts
from datetime import datetime
from functools import partial
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from placement.decide.plan import Decision
from placement.messages import EventReason, Reason

PREFIX: Final = "ultraserver_placement"
BUCKETS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)


class Metrics:
    """The metrics of one loop. `PassRunner` increases the public counters."""

    def __init__(self) -> None:
        """Creates the metrics. Values with fixed labels begin at zero, so that rates have a first value."""
        self.registry = CollectorRegistry()
        gauge = partial(Gauge, namespace=PREFIX, registry=self.registry)
        counter = partial(Counter, namespace=PREFIX, registry=self.registry)
        histogram = partial(Histogram, namespace=PREFIX, registry=self.registry)
        self._waiting = gauge("waiting_jobs", "Jobs that wait; from the leader only.", ["reason"])
        self._oldest_wait = gauge(
            "oldest_wait_seconds",
            "The longest time for which a waiting job has waited; from the leader only.",
        )
        self._unsettled = gauge("unsettled_jobs", "Jobs that were admitted and lack a node for some worker.")
        about_units = "Units, by the number of their nodes that a job can have, and by state."
        self._units = gauge("units", about_units, ["nodes", "state"])
        self._unmet = gauge(
            "guarantee_unmet",
            "Units that a guarantee still owes and that are not free.",
            ["namespaces", "unit"],
        )
        self._leader = gauge("leader", "1 while this replica holds the Lease.")
        self._decided = gauge("last_decision_timestamp_seconds", "Unix time of the last decision.")
        self._seconds = histogram("decision_seconds", "Duration of a decision.", buckets=BUCKETS)
        self.admissions = counter("admissions", "Jobs that were admitted.")
        self.evictions = counter(
            "evictions", "Pods that were deleted because their job did not get all nodes in time."
        )
        self.preemptions = counter("preemptions", "Jobs that were preempted.")
        self._departures = counter(
            "node_losses", "Jobs that left a failed node: moved or restarted.", ["how"]
        )
        for event_reason in (EventReason.MOVED, EventReason.RESTARTED):
            self._departures.labels(event_reason.lower())
        self._failures = counter("failures", "Errors, by kind.", ["kind"])
        for reason in Reason:
            self._waiting.labels(reason)
        for kind in ("watch", "write", "decision"):
            self._failures.labels(kind)

    def set_leader(self, is_leader: bool) -> None:  # noqa: FBT001 - the loop calls it back
        """Records whether this replica leads. Removes a follower's old values, which would cause alerts."""
        self._leader.set(is_leader)
        if not is_leader:
            for gauge in (*map(self._waiting.labels, Reason), self._oldest_wait, self._unsettled):
                gauge.set(0)
            self._units.clear()
            self._unmet.clear()

    def record_decision(self, decision: Decision, seconds: float, now: datetime) -> None:
        """Records the duration of a decision, and sets the gauges."""
        self._seconds.observe(seconds)
        self._decided.set(now.timestamp())
        reasons = Counts(waiting.reason for waiting in decision.waiting)
        for reason in Reason:
            self._waiting.labels(reason).set(reasons[reason])
        waits = [(now - waiting.job.created).total_seconds() for waiting in decision.waiting]
        self._oldest_wait.set(max(waits, default=0.0))
        self._unsettled.set(len(decision.memory.unsettled))
        counts = Counts[tuple[int, str]]()  # units of several families may have the same size
        for key, kind in decision.cluster.units.kinds.items():
            if kind.max_nodes > 1:
                states = decision.cluster.count_states(key)
                counts.update({(kind.max_nodes, state): count for state, count in states.items()})
        for (size, state), count in counts.items():
            self._units.labels(str(size), state).set(count)
        self._unmet.clear()
        for guarantee, count in decision.cluster.guarantees.unmet_units.items():
            self._unmet.labels(guarantee.team, guarantee.unit).set(count)

    def count_departure(self, reason: EventReason) -> None:
        """Counts a job that has left a failed node."""
        self._departures.labels(reason.lower()).inc()

    def count_failure(self, kind: str) -> None:
        """Counts an error. The kind is ``watch``, ``write``, or ``decision`` for a bug that affects a job."""
        self._failures.labels(kind).inc()
