"""The loop of a program with one active replica at a time: this replica holds the Lease and runs passes."""

import logging
import signal
import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from kube.api import ApiError
from kube.backoff import jitter
from kube.election import Elector

LEAST_SECONDS = 0.1
"""Minimum time between two passes."""

UNABLE_SECONDS = 1.0
"""Time between two checks of whether a program that could not work can work again."""

_log = logging.getLogger("kube.loop")


@dataclass(slots=True)
class Loop:
    """Runs passes while this program leads. Only `wake` and `stop` may be called from other threads.

    Attributes:
        elector: The candidate for the Lease.
        work: Runs a pass, which must be shorter than the Lease; returns the seconds until the next one.
        leads: Called after every election with whether this program leads.
        wait: Waits for the event for at most the given seconds of the elector's clock; returns whether it was
            set.
        able: Returns whether this program could do the work now; if not, it leaves the Lease to another.
    """

    elector: Elector
    work: Callable[[], float]
    leads: Callable[[bool], object]
    wait: Callable[[threading.Event, float], bool] = threading.Event.wait
    able: Callable[[], bool] = lambda: True
    _signal: threading.Event = field(default_factory=threading.Event, init=False)
    _stopped: bool = field(default=False, init=False)
    _leader: bool = field(default=False, init=False)

    def wake(self) -> None:
        """Begins a pass soon, because something has changed."""
        self._signal.set()

    def stop_on_signals(self) -> None:
        """Makes SIGTERM and SIGINT call `stop`; must be called in the main thread."""
        for sign in (signal.SIGTERM, signal.SIGINT):
            # In a thread, because the loop that the handler interrupts may hold the lock that `stop` needs.
            signal.signal(sign, lambda *_: threading.Thread(target=self.stop).start())

    def stop(self) -> None:
        """Ends `run` after the present pass."""
        self._stopped = True
        self._signal.set()

    def run(self) -> None:
        """Runs until `stop`, or until a pass raises; then releases the Lease."""
        try:
            self._lead_and_work()
        finally:
            if self._leader:
                self._release()
                self.leads(False)  # noqa: FBT003 - a callback's parameter has no name

    def _lead_and_work(self) -> None:
        # Three attempts to renew fit into the Lease's duration.
        renew_every, watch = self.elector.duration / 3, self.elector.watch
        renew_at = next_pass = earliest = 0.0
        while not self._stopped:
            if watch() >= renew_at:
                able = self.able()
                self._elect(able=able)
                renew_at = watch() + (renew_every * jitter() if able else UNABLE_SECONDS)
            if not self._leader:
                next_pass = 0.0
            elif watch() >= next_pass:
                wait = self.work()
                earliest = watch() + LEAST_SECONDS
                next_pass = max(watch() + wait, earliest)
            until = min(renew_at, next_pass) if self._leader else renew_at
            if self.wait(self._signal, max(until - watch(), 0.0)):
                self._signal.clear()
                next_pass = min(next_pass, earliest)

    def _elect(self, *, able: bool) -> None:
        try:
            leads = able and self.elector.lead()
        except ApiError as error:
            # A replica that can reach the API server leads instead.
            _log.warning("cannot acquire lease: %s", error)
            leads = False
        if self._leader and not able:
            self._release()
        if leads != self._leader:
            _log.info("became leader" if leads else "no longer leader")
        self._leader = leads
        self.leads(leads)

    def _release(self) -> None:
        try:
            self.elector.release()
        except ApiError as error:
            _log.warning("the lease was not released, it expires by itself: %s", error)
