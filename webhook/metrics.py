"""What can be counted about the webhook; nothing is labelled by an object's name.

Every worker process counts for itself. With several of them prometheus_client adds them up through files in
``PROMETHEUS_MULTIPROC_DIR``, which it looks for when it is imported: ``settings.prepare`` comes before that.
"""

import os
from collections.abc import Callable, Iterator

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest, multiprocess
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from webhook.engine import Outcome
from webhook.rules.source import TableStatus
from webhook.serving.tls import TlsStatus
from webhook.settings import MULTIPROCESS

PREFIX = "ultraserver_webhook"

BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 1.0)
"""Seconds; an evaluation takes about a millisecond, an API server waits for ten seconds at most."""


class Metrics:
    """The counters of one process."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._reviews = Counter(
            f"{PREFIX}_reviews", "Reviews answered.", ("door", "verdict"), registry=self.registry
        )
        self._rules = Counter(f"{PREFIX}_rules_fired", "Rules that fired.", ("rule",), registry=self.registry)
        self._bad = Counter(f"{PREFIX}_bad_requests", "Bodies that were no review.", registry=self.registry)
        self._failed = Counter(
            f"{PREFIX}_failures", "Reviews that met a mistake of our own.", registry=self.registry
        )
        self._seconds = Histogram(
            f"{PREFIX}_review_seconds", "Time to answer.", ("door",), buckets=BUCKETS, registry=self.registry
        )

    def reviewed(self, door: str, outcome: Outcome | None, seconds: float) -> None:
        """Counts a review that was answered; None for an object that is not ours."""
        self._reviews.labels(door, outcome.verdict if outcome else "not ours").inc()
        self._seconds.labels(door).observe(seconds)
        # Elsewhere the same rules are asked again, and add nothing.
        for rule in outcome.fired() if outcome and door == "mutate" else ():
            self._rules.labels(rule).inc()

    def bad_request(self) -> None:
        """Counts a body that was no review."""
        self._bad.inc()

    def failed(self) -> None:
        """Counts a review that could not be evaluated."""
        self._failed.inc()

    def text(self, state: Collector) -> bytes:
        """All of it in Prometheus' text format, added up over processes where there are several.

        Args:
            state: what is the case now, the same in every process.
        """
        now = CollectorRegistry()
        now.register(state)
        counted = self.registry
        if MULTIPROCESS in os.environ:
            counted = CollectorRegistry()
            multiprocess.MultiProcessCollector(counted)  # type: ignore[no-untyped-call]
        return generate_latest(counted) + generate_latest(now)


class StateCollector(Collector):
    """What is the case now, read when asked: the table in use and the end of the certificate."""

    def __init__(self, table: Callable[[], TableStatus], tls: Callable[[], TlsStatus]) -> None:
        """Takes the ways to find out."""
        self._table, self._tls = table, tls

    def collect(self) -> Iterator[Metric]:
        """The gauges."""
        status = self._table()
        info = GaugeMetricFamily(f"{PREFIX}_table_info", "The rule table in use.", labels=("revision",))
        info.add_metric((status.revision,), 1)
        yield info
        yield GaugeMetricFamily(
            f"{PREFIX}_table_stale", "1 while the table's file cannot be used.", value=bool(status.problem)
        )
        tls = self._tls()
        yield GaugeMetricFamily(
            f"{PREFIX}_certificate_expiry_seconds",
            "Unix time at which the serving certificate ends.",
            value=tls.expires.timestamp(),
        )
        for what, state in (("table", status), ("certificate", tls)):
            for result, count in (("taken_up", state.reloads), ("refused", state.failures)):
                yield CounterMetricFamily(
                    f"{PREFIX}_{what}_changes_{result}",
                    f"Changed {what} files, {result.replace('_', ' ')}.",
                    value=count,
                )
