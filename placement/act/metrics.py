"""The loop's Prometheus metrics, in their own registry: without those of process and interpreter."""

from collections import Counter as Counts
from datetime import datetime
from typing import Any, Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from placement.decide.plan import Decision
from placement.messages import EventReason, Reason

PREFIX: Final = "ultraserver_placement"
SECONDS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)


class Metrics:
    """The metrics of one loop; the code that admits a job or deletes a worker counts that itself."""

    def __init__(self) -> None:
        """Begins at zero, with every label present, so that rates have a first value."""
        self.registry = CollectorRegistry()
        own: dict[str, Any] = {"namespace": PREFIX, "registry": self.registry}
        self._waiting = Gauge("waiting_jobs", "Jobs that wait; from the leader only.", ["reason"], **own)
        self._oldest = Gauge(
            "oldest_wait_seconds", "How long the oldest of them waits; from the leader only.", **own
        )
        self._unsettled = Gauge(
            "unsettled_jobs", "Jobs that were admitted and lack a node for some worker.", **own
        )
        self._units = Gauge(
            "node_groups",
            "Units by the number of nodes that a job can have, and state.",
            ["nodes", "state"],
            **own,
        )
        self._unmet = Gauge(
            "guarantee_unmet",
            "Units that a guarantee still owes and that are not free.",
            ["namespaces", "unit"],
            **own,
        )
        self._leader = Gauge("leader", "1 while this replica holds the Lease.", **own)
        self._last = Gauge("last_decision_timestamp_seconds", "When it last decided, Unix time.", **own)
        self._seconds = Histogram("decision_seconds", "Time of a decision.", buckets=SECONDS, **own)
        self.openings = Counter("openings", "Jobs that were admitted.", **own)
        self.deletions = Counter("deletions", "Workers deleted to be recreated.", **own)
        self.preemptions = Counter("preemptions", "Jobs that were preempted.", **own)
        self._left = Counter("node_losses", "Jobs that left a failed node, by what they did.", ["how"], **own)
        for how in (EventReason.MOVED, EventReason.RESTARTED):
            self._left.labels(how.lower())
        self._failures = Counter("failures", "What failed, by kind.", ["kind"], **own)
        for reason in Reason:
            self._waiting.labels(reason)
        for kind in ("watch", "write", "decision"):
            self._failures.labels(kind)

    def leads(self, leader: bool) -> None:  # noqa: FBT001 - the loop calls it back
        """Stores whether this replica leads; removes a follower's old values, which would cause alerts."""
        self._leader.set(leader)
        if not leader:
            for gauge in (*map(self._waiting.labels, Reason), self._oldest, self._unsettled):
                gauge.set(0)
            self._units.clear()
            self._unmet.clear()

    def decided(self, decision: Decision, seconds: float, now: datetime) -> None:
        """Counts a decision, and sets the gauges."""
        self._seconds.observe(seconds)
        self._last.set(now.timestamp())
        reasons = Counts(waiting.reason for waiting in decision.waiting)
        for reason in Reason:
            self._waiting.labels(reason).set(reasons[reason])
        waits = [(now - waiting.job.created).total_seconds() for waiting in decision.waiting]
        self._oldest.set(max(waits, default=0.0))
        self._unsettled.set(len(decision.memory.unsettled))
        counts = Counts[tuple[int, str]]()  # units of several families may have one size
        for key, kind in decision.cluster.units.kinds.items():
            if kind.usable > 1:
                states = decision.cluster.count_states(key)
                counts.update({(kind.usable, state): count for state, count in states.items()})
        for (size, state), count in counts.items():
            self._units.labels(str(size), state).set(count)
        self._unmet.clear()
        for guarantee, count in decision.cluster.guarantees.unmet_units.items():
            self._unmet.labels(guarantee.team, guarantee.unit).set(count)

    def left(self, how: EventReason) -> None:
        """Counts a job that has left a failed node."""
        self._left.labels(how.lower()).inc()

    def failed(self, kind: str) -> None:
        """Counts an error: of a ``watch``, a ``write``, or a ``decision`` about one job."""
        self._failures.labels(kind).inc()
