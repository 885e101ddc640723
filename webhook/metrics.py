"""What can be counted about the webhook; nothing is labelled by an object's name.

Every worker process counts for itself. With several of them prometheus_client adds them up through files in
``PROMETHEUS_MULTIPROC_DIR``, which it looks for when it is imported: ``settings.prepare`` comes before that.
"""

import os
from collections.abc import Callable, Iterable, Iterator
from http import HTTPStatus
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest, multiprocess
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from webhook.serving.tls import TlsStatus
from webhook.settings import MULTIPROCESS
from webhook.watched import Watched, WatchStatus

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
        # Counters of their own process: added up over several, they never run backwards.
        self._changes = {
            (what, result): Counter(
                f"{PREFIX}_{what}_changes_{result}",
                f"Changed {what} files, {result}; each process counts.",
                registry=self.registry,
            )
            for what in ("table", "certificate")
            for result in ("reloaded", "refused")
        }

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
            for rule in rules if endpoint == "mutate" else ():
                self._rules.labels(rule).inc()

    def failed(self) -> None:
        """Counts a review that could not be evaluated."""
        self._failed.inc()

    def watch(self, what: str, watched: Watched[Any]) -> None:
        """Counts the changes of watched files: ``table`` or ``certificate``."""
        watched.reloaded = self._changes[what, "reloaded"].inc
        watched.refused = self._changes[what, "refused"].inc

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

    def __init__(
        self,
        revision: Callable[[], str],
        table: Callable[[], WatchStatus],
        certificate: Callable[[], TlsStatus],
    ) -> None:
        """Takes the ways to find out."""
        self._revision, self._table, self._certificate = revision, table, certificate

    def collect(self) -> Iterator[Metric]:
        """The gauges."""
        certificate = self._certificate()
        info = GaugeMetricFamily(f"{PREFIX}_table_info", "The rule table in use.", labels=("revision",))
        info.add_metric((self._revision(),), 1)
        yield info
        for what, problem in (("table", self._table().problem), ("certificate", certificate.error)):
            yield GaugeMetricFamily(
                f"{PREFIX}_{what}_stale", f"1 while the {what} files cannot be used.", value=bool(problem)
            )
        yield GaugeMetricFamily(
            f"{PREFIX}_certificate_expiry_seconds",
            "Unix time at which the serving certificate ends.",
            value=certificate.expires.timestamp(),
        )
