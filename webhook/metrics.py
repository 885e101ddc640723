"""What can be counted about the webhook; nothing is labelled by an object's name.

Every worker process counts for itself. With several of them prometheus_client adds them up through files in
``PROMETHEUS_MULTIPROC_DIR``, which it looks for when it is imported: ``settings.prepare`` comes before that.
"""

import os
from collections.abc import Iterable, Iterator
from functools import partial
from http import HTTPStatus

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest, multiprocess
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from webhook.endpoints import MUTATE
from webhook.settings import MULTIPROCESS
from webhook.state import CurrentState

PREFIX = "ultraserver_webhook"

BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 1.0)
"""Seconds; an evaluation takes about a millisecond, an API server waits for ten seconds at most."""


class Metrics:
    """The counters of one process."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._reviews = Counter(
            f"{PREFIX}_reviews", "Reviews answered.", ("endpoint", "verdict"), registry=self.registry
        )
        self._rules = Counter(f"{PREFIX}_rules_fired", "Rules that fired.", ("rule",), registry=self.registry)
        self._bad = Counter(f"{PREFIX}_bad_requests", "Bodies that were no review.", registry=self.registry)
        self._failed = Counter(
            f"{PREFIX}_failures", "Reviews that met an internal error.", registry=self.registry
        )
        self._seconds = Histogram(
            f"{PREFIX}_review_seconds",
            "Time to answer.",
            ("endpoint",),
            buckets=BUCKETS,
            registry=self.registry,
        )
        self._reloads = Counter(
            f"{PREFIX}_reloads",
            "Changes of the table's or the certificate's files, reloaded or refused; each process counts.",
            ("file", "result"),
            registry=self.registry,
        )
        for file in ("table", "certificate"):
            for result in ("reloaded", "refused"):
                self._reloads.labels(file, result)

    def answered(
        self, endpoint: str, status: int, verdict: str, rules: Iterable[str], seconds: float
    ) -> None:
        """Counts an answer."""
        if status in {HTTPStatus.BAD_REQUEST, HTTPStatus.REQUEST_ENTITY_TOO_LARGE}:
            self._bad.inc()
        elif status != HTTPStatus.OK:
            self.failed()
        else:
            self._reviews.labels(endpoint, verdict).inc()
            self._seconds.labels(endpoint).observe(seconds)
            # Elsewhere the same rules are asked again, and add nothing.
            for rule in rules if endpoint == MUTATE else ():
                self._rules.labels(rule).inc()

    def failed(self) -> None:
        """Counts a review that could not be evaluated."""
        self._failed.inc()

    def count_reloads(self, state: CurrentState) -> None:
        """Counts the changes of files from now on."""
        state.tables.watched.on_change = partial(self._reload, "table")
        if state.tls:
            state.tls.watched.on_change = partial(self._reload, "certificate")

    def _reload(self, file: str, result: str) -> None:
        self._reloads.labels(file, result).inc()

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
    """The current state as gauges, read when asked."""

    def __init__(self, state: CurrentState) -> None:
        """Takes the state of this process."""
        self._state = state

    def collect(self) -> Iterator[Metric]:
        """The gauges."""
        info = GaugeMetricFamily(f"{PREFIX}_table_info", "The rule table in use.", labels=("revision",))
        info.add_metric((self._state.table.revision,), 1)
        yield info
        for what, problem in self._state.problems().items():
            yield GaugeMetricFamily(
                f"{PREFIX}_{what}_stale", f"1 while the {what} files cannot be used.", value=bool(problem)
            )
        if ends := self._state.certificate_ends:
            yield GaugeMetricFamily(
                f"{PREFIX}_certificate_expiry_timestamp_seconds",
                "When the serving certificate ends, Unix time.",
                value=ends.timestamp(),
            )
