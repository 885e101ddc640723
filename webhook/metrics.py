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


class Metrics(Collector):
    """The counters of one process, and the state it is in.

    Attributes:
        registry: Of the counters.
    """

    def __init__(self, state: CurrentState) -> None:
        """Count reviews, and changes of the state's files, from now on."""
        self._state = state
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
        state.tables.watched.on_change = partial(self._reload, "table")
        if state.tls:
            state.tls.watched.on_change = partial(self._reload, "certificate")

    def answered(
        self, endpoint: str, status: int, verdict: str = "", rules: Iterable[str] = (), seconds: float = 0.0
    ) -> None:
        """Counts an answer."""
        if status in {HTTPStatus.BAD_REQUEST, HTTPStatus.REQUEST_ENTITY_TOO_LARGE}:
            self._bad.inc()
        elif status != HTTPStatus.OK:
            self._failed.inc()
        else:
            self._reviews.labels(endpoint, verdict).inc()
            self._seconds.labels(endpoint).observe(seconds)
            # Elsewhere the same rules are asked again, and add nothing.
            for rule in rules if endpoint == MUTATE else ():
                self._rules.labels(rule).inc()

    def _reload(self, file: str, result: str) -> None:
        self._reloads.labels(file, result).inc()

    def text(self) -> bytes:
        """All of it in Prometheus' text format, added up over processes where there are several."""
        now = CollectorRegistry()
        now.register(self)
        counted = self.registry
        if MULTIPROCESS in os.environ:
            counted = CollectorRegistry()
            multiprocess.MultiProcessCollector(counted)  # type: ignore[no-untyped-call]
        return generate_latest(counted) + generate_latest(now)

    def collect(self) -> Iterator[Metric]:
        """The current state as gauges, the same in every process."""
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
