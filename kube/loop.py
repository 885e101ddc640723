"""Runs the passes of a program in one replica at a time: in the replica that holds the Lease."""

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
"""The time until the next call of `Loop.can_work`, after a call that returned False."""

_log = logging.getLogger("kube.loop")


@dataclass(slots=True)
class Loop:
    """Runs passes while this program leads. Only `wake` and `stop` may be called from other threads."""

    elector: Elector  # takes and renews the Lease
    # Runs a pass, which must be shorter than the Lease's duration; returns the seconds until the next pass.
    work: Callable[[], float]
    # Called after each attempt to take or renew the Lease, and when `run` ends in the leader. The argument is
    # whether this program leads.
    on_election: Callable[[bool], object]
    # Waits for an event, for a maximum of seconds of the elector's clock; returns whether the event was set.
    wait: Callable[[threading.Event, float], bool] = threading.Event.wait
    # Returns whether this program could work now. A program that could not work leaves the Lease to another
    # replica.
    can_work: Callable[[], bool] = lambda: True
    _wake_event: threading.Event = field(default_factory=threading.Event, init=False)
    _is_stopped: bool = field(default=False, init=False)
    _is_leader: bool = field(default=False, init=False)

    def wake(self) -> None:
        """Makes `run` begin a pass soon if this program leads, because something has changed."""
        self._wake_event.set()

    def stop_on_signals(self) -> None:
        """Makes SIGTERM and SIGINT call `stop`; must be called in the main thread."""
        for number in (signal.SIGTERM, signal.SIGINT):
            # The interrupted loop may hold the event's lock. `stop` needs this lock, so a thread runs it.
            signal.signal(number, lambda *_: threading.Thread(target=self.stop).start())

    def stop(self) -> None:
        """Ends `run` after the present pass."""
        self._is_stopped = True
        self._wake_event.set()

    def run(self) -> None:
        """Runs passes until `stop`, or until a pass raises an error; then releases the Lease."""
        try:
            self._lead_and_work()
        finally:
            if self._is_leader:
                self._release()
                self.on_election(False)  # noqa: FBT003 - a callback's parameter has no name

    def _lead_and_work(self) -> None:
        # Three attempts to renew fit into the Lease's duration.
        renew_every, clock = self.elector.duration / 3, self.elector.clock
        renew_at = next_pass = earliest_pass = 0.0
        while not self._is_stopped:
            if clock() >= renew_at:
                can_work = self.can_work()
                self._elect(can_work=can_work)
                renew_at = clock() + (renew_every * jitter() if can_work else UNABLE_SECONDS)
            if not self._is_leader:
                next_pass = 0.0
            elif clock() >= next_pass:
                wait = self.work()
                earliest_pass = clock() + MIN_SECONDS
                next_pass = max(clock() + wait, earliest_pass)
            next_event = min(renew_at, next_pass) if self._is_leader else renew_at
            if self.wait(self._wake_event, max(next_event - clock(), 0.0)):
                self._wake_event.clear()
                next_pass = min(next_pass, earliest_pass)

    def _elect(self, *, can_work: bool) -> None:
        try:
            is_leader = can_work and self.elector.lead()
        except ApiError as error:
            # A replica that can reach the API server leads instead.
            _log.warning("cannot acquire or renew the Lease: %s", error)
            is_leader = False
        if self._is_leader and not can_work:
            self._release()
        if is_leader != self._is_leader:
            _log.info("became leader" if is_leader else "no longer leader")
        self._is_leader = is_leader
        self.on_election(is_leader)

    def _release(self) -> None:
        try:
            self.elector.release()
        except ApiError as error:
            _log.warning("the lease was not released and will expire: %s", error)
