"""The loop's Prometheus metrics. Their registry has no metrics of the process and the interpreter."""

from datetime import datetime
from functools import partial

from prometheus_client import CollectorRegistry, Counter, Gauge

from certs.rotate import PassResult

PREFIX = "ultraserver_certs"


class Metrics:
    """The metrics of one loop."""

    def __init__(self) -> None:
        """Creates the metrics. All results of a pass begin at zero, so that rates have a first value."""
        self.registry = CollectorRegistry()
        gauge = partial(Gauge, namespace=PREFIX, registry=self.registry)
        counter = partial(Counter, namespace=PREFIX, registry=self.registry)
        self._expiry = gauge(
            "expiry_timestamp_seconds", "When a certificate ends, Unix time.", ["certificate"]
        )
        self._bundle = gauge(
            "trusted_authorities",
            "Authorities in the bundle, with the old authority while it is being replaced.",
        )
        self._missing = gauge(
            "missing_webhook_configurations",
            "Webhook configurations in this program's options that do not exist.",
        )
        self._provided = gauge(
            "provided_certificate",
            "1 while the certificate to serve is a provided one; 0 while it is this program's own.",
        )
        self._refused = gauge(
            "provided_certificate_refused",
            "1 while the Secret with a provided certificate exists, but this certificate cannot be served.",
        )
        self._success = gauge("last_success_timestamp_seconds", "When a pass last succeeded, Unix time.")
        self._passes = counter("passes", "Passes, by result.", ["result"])
        self._steps = counter("steps", "Steps taken, by kind.", ["step"])
        self._conflicts = counter("conflicts", "Writes that failed after another client's write.")
        for result in ("kept", "changed", "failed"):
            self._passes.labels(result)

    def count_success(self, result: PassResult, now: datetime) -> None:
        """Counts a pass that succeeded, and sets the gauges to the state after the pass."""
        self._passes.labels("changed" if result.steps else "kept").inc()
        for step in result.steps:
            self._steps.labels(step.action.value.replace(" ", "-")).inc()
        self._conflicts.inc(result.conflicts)
        stored = result.stored
        self._missing.set(len(stored.missing_hooks))
        self._refused.set(bool(stored.why_not_served))
        self._provided.set(stored.serves_provided)
        self._bundle.set(len(stored.bundle))
        for name, secret in (("authority", stored.authority), ("leaf", stored.serving)):
            if secret.certificate:
                self._expiry.labels(name).set(secret.certificate.not_valid_after_utc.timestamp())
        self._success.set(now.timestamp())

    def count_failure(self) -> None:
        """Counts a pass that failed."""
        self._passes.labels("failed").inc()
