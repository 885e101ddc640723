"""The loop: hold the Lease, do a pass now and then, say what was done, and end when told to."""

from __future__ import annotations

import logging
import random
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from certs.api import StoreError
from certs.authority import CertificateError
from certs.decide import Action

if TYPE_CHECKING:
    import threading

    from certs.elect import Elector
    from certs.metrics import Metrics
    from certs.rotate import PassResult, Rotator

JITTER = 0.2
"""By how much of it an interval varies: programs that were started together do not stay in step."""

LEAST_SECONDS = 0.1
"""Between two passes, however near the next thing to do is."""

_log = logging.getLogger("certs")


@dataclass(slots=True)
class Loop:
    """Passes for as long as it is this one's turn.

    Attributes:
        rotator: Does the passes.
        elector: Says whose turn it is.
        metrics: Told about everything.
        interval: Seconds between passes: how long a wrong caBundle lasts at most, roughly.
        stop: Set to end the loop.
    """

    rotator: Rotator
    elector: Elector
    metrics: Metrics
    interval: float
    stop: threading.Event
    _leads: bool = field(default=False, init=False)
    _said: str = field(default="", init=False)

    def run(self) -> None:
        """Run until `stop` is set, then give the Lease back."""
        next_pass = 0.0
        # Three tries to renew fit into the Lease's duration.
        renew_every = self.elector.duration / 3
        while not self.stop.is_set():
            self._elect()
            if not self._leads:
                next_pass = 0.0
            elif time.monotonic() >= next_pass:
                next_pass = time.monotonic() + self._pass()
            patience = next_pass - time.monotonic() if self._leads else renew_every
            self.stop.wait(min(max(patience, 0.0), renew_every * _jitter()))
        self._release()

    def _elect(self) -> None:
        try:
            leads = self.elector.lead()
        except StoreError as error:
            # Not knowing is not leading; whoever can reach the API server may.
            _log.warning("cannot acquire lease: %s", error)
            leads = False
        if leads != self._leads:
            _log.info("became leader" if leads else "no longer leader")
        self._leads = leads
        self.metrics.leads(leader=leads)

    def _pass(self) -> float:
        """Do a pass; returns the seconds until the next one."""
        try:
            outcome = self.rotator.run()
        except (StoreError, CertificateError) as error:
            self.metrics.failed()
            _log.error("a pass failed: %s", error)
            return self.interval * _jitter()
        now = datetime.now(UTC)
        self.metrics.passed(outcome, now)
        self._report(outcome)
        wait = self.interval * _jitter()
        if outcome.last.until is not None:
            wait = min(wait, max((outcome.last.until - now).total_seconds(), LEAST_SECONDS))
        return wait

    def _report(self, outcome: PassResult) -> None:
        notes = outcome.notes()
        text = "; ".join([outcome.last.why, *notes])
        # Said once, not with every pass; the steps have been said as they were taken.
        if text != self._said or outcome.steps:
            quiet = outcome.last.action in {Action.KEEP, Action.WAIT} and not notes
            _log.log(logging.INFO if quiet else logging.WARNING, "%s: %s", outcome.last.action.value, text)
        self._said = text

    def _release(self) -> None:
        if not self._leads:
            return
        try:
            self.elector.release()
        except StoreError as error:
            _log.warning("the Lease was not given back, it runs out by itself: %s", error)
        self.metrics.leads(leader=False)


def _jitter() -> float:
    return random.uniform(1 - JITTER, 1 + JITTER)  # noqa: S311 - spreads load, hides nothing
