"""The loop of a program of which only one replica works at a time: the holder of the Lease runs passes."""

import logging
import signal
import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from kube.api import ApiError
from kube.backoff import jitter
from kube.election import Elector

MIN_SECONDS = 0.1
"""Minimum time between two passes."""

UNABLE_SECONDS = 1.0
"""The time between two checks of a program that could not work and may be able to work again."""

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
        able: Returns whether this program could work now. A program that could not work leaves the Lease to
            another replica.
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
            # `stop` runs in a thread: the loop that the handler interrupts may hold the lock that it needs.
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
        renew_every, clock = self.elector.duration / 3, self.elector.watch
        renew_at = next_pass = earliest = 0.0
        while not self._stopped:
            if clock() >= renew_at:
                is_able = self.able()
                self._elect(able=is_able)
                renew_at = clock() + (renew_every * jitter() if is_able else UNABLE_SECONDS)
            if not self._leader:
                next_pass = 0.0
            elif clock() >= next_pass:
                wait = self.work()
                earliest = clock() + MIN_SECONDS
                next_pass = max(clock() + wait, earliest)
            next_event = min(renew_at, next_pass) if self._leader else renew_at
            if self.wait(self._signal, max(next_event - clock(), 0.0)):
                self._signal.clear()
                next_pass = min(next_pass, earliest)

    def _elect(self, *, able: bool) -> None:
        try:
            is_leader = able and self.elector.lead()
        except ApiError as error:
            # A replica that can reach the API server leads instead.
            _log.warning("cannot acquire lease: %s", error)
            is_leader = False
        if self._leader and not able:
            self._release()
        if is_leader != self._leader:
            _log.info("became leader" if is_leader else "no longer leader")
        self._leader = is_leader
        self.leads(is_leader)

    def _release(self) -> None:
        try:
            self.elector.release()
        except ApiError as error:
            _log.warning("the lease was not released and will expire: %s", error)
