"""Runs the passes of the loop, with metrics and a log."""

import logging
from dataclasses import dataclass, field
from datetime import UTC, datetime

from certs import messages
from certs.authority import CertificateError
from certs.decide import Action
from certs.metrics import Metrics
from certs.rotate import PassResult, Rotator
from kube.api import ApiError
from kube.backoff import jitter

_log = logging.getLogger("certs")


@dataclass(slots=True)
class PassRunner:
    """Runs passes, counts them and logs them."""

    rotator: Rotator  # runs a pass
    metrics: Metrics  # the metrics of all passes
    interval: float  # the seconds between passes: a wrong caBundle is corrected after about this time
    _last_text: str = field(default="", init=False)  # the result of the last pass that did not fail

    def __call__(self) -> float:
        """Runs a pass; returns the seconds until the next pass, also if the pass failed."""
        try:
            result = self.rotator.run()
        except (ApiError, CertificateError) as error:
            self.metrics.count_failure()
            _log.error("%s", messages.pass_failed(error))
            return self.interval * jitter()
        now = datetime.now(UTC)
        self.metrics.count_success(result, now)
        self._report(result)
        wait = self.interval * jitter()
        if result.last.until is not None:
            wait = min(wait, max((result.last.until - now).total_seconds(), 0.0))
        return wait

    def _report(self, result: PassResult) -> None:
        notes = result.stored.notes
        text = "; ".join([result.last.why, *notes])
        # An unchanged result is logged once. Each step was logged when it was done.
        if text != self._last_text or result.steps:
            is_normal = result.last.action in {Action.KEEP, Action.WAIT} and not notes
            line = messages.step(result.last.action.value, text)
            _log.log(logging.INFO if is_normal else logging.WARNING, "%s", line)
        self._last_text = text
