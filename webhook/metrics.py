"""Defines the webhook's metrics. No metric label contains the name of an object."""

import time
from collections.abc import Iterator
from functools import partial
from http import HTTPStatus
from math import inf

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from webhook.engine.outcome import NO_SUMMARY, Summary
from webhook.state import CurrentState

PREFIX = "ultraserver_webhook"

BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 1.0)
"""Upper bounds of the histogram, in seconds. An evaluation takes 0.5 ms; the API server waits up to 5 s."""


class Metrics(Collector):
    """The counters of a server, and gauges of its state.

    Attributes:
        registry: All metrics of a scrape.
    """

    def __init__(self, state: CurrentState) -> None:
        """Creates the counters, and counts changes of the state's files."""
        self._state = state
        self.registry = CollectorRegistry()
        counter = partial(Counter, namespace=PREFIX, registry=self.registry)
        self._reviews = counter("reviews", "Reviews answered.", ("endpoint", "response"))
        self._rules = counter("rules_fired", "Rules that fired.", ("rule",))
        self._shadow_reviews = counter(
            "shadow_reviews",
            "New or resized objects that would have been changed or refused without shadow mode.",
            ("response",),
        )
        self._shadow_rules = counter(
            "shadow_rules",
            "Rules that would fire without shadow mode, and rules and shapes that would refuse an object.",
            ("rule", "state"),
        )
        self._bad_requests = counter(
            "bad_requests", "Bodies that are not a review, or that need too much memory."
        )
        self._failures = counter("failures", "Reviews with an internal error, or that took too long.")
        self._seconds = Histogram(
            "review_seconds",
            "Time to evaluate a review and encode the response.",
            ("endpoint",),
            namespace=PREFIX,
            registry=self.registry,
            buckets=BUCKETS,
        )
        self._reloads = counter(
            "reloads",
            "Changes of the table's or the certificate's files, by result: reloaded or refused.",
            ("file", "result"),
        )
        for file in ("table", "certificate"):
            for result in ("reloaded", "refused"):
                self._reloads.labels(file, result)
        self.registry.register(self)
        state.tables.watched.on_change = lambda result: self._reloads.labels("table", result).inc()
        state.tls.watched.on_change = lambda result: self._reloads.labels("certificate", result).inc()

    def count_answer(
        self,
        endpoint: str,
        status: int,
        summary: Summary = NO_SUMMARY,
        shadow: Summary | None = None,
        seconds: float = 0.0,
    ) -> None:
        """Counts an answer: as a review if its status is 200, otherwise as a bad request or a failure."""
        if status in {HTTPStatus.BAD_REQUEST, HTTPStatus.REQUEST_ENTITY_TOO_LARGE}:
            self._bad_requests.inc()
        elif status != HTTPStatus.OK:
            self._failures.inc()
        else:
            self._reviews.labels(endpoint, summary.response).inc()
            self._seconds.labels(endpoint).observe(seconds)
            # Rules are not counted for other endpoints, which evaluate the same object again.
            if endpoint in {"mutate", "launcher"}:
                for rule in summary.rules:
                    self._rules.labels(rule).inc()
                if shadow:
                    self._count_shadow(shadow)

    def _count_shadow(self, summary: Summary) -> None:
        self._shadow_reviews.labels(summary.response).inc()
        for state, rules in (("fired", summary.rules), ("refused", summary.refusing)):
            for rule in rules:
                self._shadow_rules.labels(rule, state).inc()

    def collect(self) -> Iterator[Metric]:
        """Yields the current state as gauges."""
        info = GaugeMetricFamily(f"{PREFIX}_table_info", "The rule table in use.", labels=("revision",))
        info.add_metric((self._state.table.revision,), 1)
        yield info
        yield from self._policies()
        for file, problem in self._state.problems().items():
            yield GaugeMetricFamily(
                f"{PREFIX}_{file}_stale", f"1 while the {file} files cannot be used.", value=bool(problem)
            )
        yield GaugeMetricFamily(
            f"{PREFIX}_certificate_expiry_timestamp_seconds",
            "The Unix time at which the serving certificate ends.",
            value=self._state.tls.expires.timestamp(),
        )

    def _policies(self) -> Iterator[Metric]:
        end_times = [row.until for row in self._state.table.policies if row.until]
        now = time.time()
        yield GaugeMetricFamily(
            f"{PREFIX}_policies_ended",
            "Policies whose `until` is past, which have no effect.",
            value=sum(end <= now for end in end_times),
        )
        yield GaugeMetricFamily(
            f"{PREFIX}_policy_until_timestamp_seconds",
            "The next `until` of a policy as Unix time; infinite if no `until` is in the future.",
            value=min((end for end in end_times if end > now), default=inf),
        )
