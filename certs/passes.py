"""The passes of the loop: each done, counted and said; how long until the next."""

import logging
from dataclasses import dataclass, field
from datetime import UTC, datetime

from certs.authority import CertificateError
from certs.decide import Action
from certs.metrics import Metrics
from certs.rotate import PassResult, Rotator
from kube.api import ApiError
from kube.backoff import jitter

_log = logging.getLogger("certs")


@dataclass(slots=True)
class Passes:
    """Does passes and tells about them.

    Attributes:
        rotator: Does them.
        metrics: Told about everything.
        interval: Seconds between passes: how long a wrong caBundle lasts at most, roughly.
    """

    rotator: Rotator
    metrics: Metrics
    interval: float
    _said: str = field(default="", init=False)

    def __call__(self) -> float:
        """Do a pass; returns the seconds until the next one."""
        try:
            result = self.rotator.run()
        except (ApiError, CertificateError) as error:
            self.metrics.failed()
            _log.error("a pass failed: %s", error)
            return self.interval * jitter()
        now = datetime.now(UTC)
        self.metrics.passed(result, now)
        self._report(result)
        wait = self.interval * jitter()
        if result.last.until is not None:
            wait = min(wait, max((result.last.until - now).total_seconds(), 0.0))
        return wait

    def _report(self, result: PassResult) -> None:
        notes = result.notes()
        text = "; ".join([result.last.why, *notes])
        # Said once, not with every pass; the steps have been said as they were taken.
        if text != self._said or result.steps:
            quiet = result.last.action in {Action.KEEP, Action.WAIT} and not notes
            _log.log(logging.INFO if quiet else logging.WARNING, "%s: %s", result.last.action.value, text)
        self._said = text
