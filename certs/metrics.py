"""What the loop tells Prometheus. Counters of its own registry: no process or interpreter figures."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, Counter, Gauge

if TYPE_CHECKING:
    from datetime import datetime

    from certs.rotate import PassResult

PREFIX = "ultraserver_certs"


class Metrics:
    """The figures of one loop."""

    def __init__(self) -> None:
        """Begin at zero, with every result of a pass present, so that rates have something to start from."""
        self.registry = CollectorRegistry()
        self._expiry = self._gauge(
            "expiry_timestamp_seconds",
            "When a certificate ends, Unix time; from the leader only.",
            "certificate",
        )
        self._bundle = self._gauge(
            "trusted_authorities",
            "Authorities in the bundle; more than one while an authority is being replaced.",
        )
        self._missing = self._gauge(
            "missing_webhook_configurations", "Webhook configurations that are named and do not exist."
        )
        self._provided = self._gauge(
            "provided_certificate",
            "1 while a provided certificate is served; 0 while this program's own is.",
        )
        self._refused = self._gauge(
            "provided_certificate_refused",
            "1 while the Secret with a provided certificate exists and cannot be served.",
        )
        self._leader = self._gauge("leader", "1 while this replica is the leader.")
        self._success = self._gauge(
            "last_success_timestamp_seconds", "When a pass last succeeded, Unix time."
        )
        self._passes = Counter(f"{PREFIX}_passes", "Passes, by result.", ["result"], registry=self.registry)
        self._steps = Counter(f"{PREFIX}_steps", "Steps taken, by kind.", ["step"], registry=self.registry)
        self._conflicts = Counter(
            f"{PREFIX}_conflicts", "Writes that conflicted with another one.", registry=self.registry
        )
        for result in ("kept", "changed", "failed"):
            self._passes.labels(result)

    def leads(self, leader: bool) -> None:  # noqa: FBT001 - the loop calls it back
        """Note whether this replica is the leader. What a follower last knew is not an alert, so it goes."""
        self._leader.set(leader)
        if not leader:
            self._expiry.clear()

    def passed(self, result: PassResult, now: datetime) -> None:
        """Note a pass that came to its end."""
        self._passes.labels("changed" if result.steps else "kept").inc()
        for step in result.steps:
            self._steps.labels(step.action.value.replace(" ", "-")).inc()
        self._conflicts.inc(result.conflicts)
        held = result.stored
        self._missing.set(len(held.missing))
        self._refused.set(bool(held.refused))
        self._provided.set(held.takes)
        self._bundle.set(len(held.bundle))
        for name, secret in (("authority", held.authority), ("leaf", held.serving)):
            if secret.certificate:
                self._expiry.labels(name).set(secret.certificate.not_valid_after_utc.timestamp())
        self._success.set(now.timestamp())

    def failed(self) -> None:
        """Note a pass that failed."""
        self._passes.labels("failed").inc()

    def _gauge(self, name: str, text: str, *labels: str) -> Gauge:
        return Gauge(f"{PREFIX}_{name}", text, labels, registry=self.registry)
