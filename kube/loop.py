"""The loop of a program of which one at a time does the work: hold the Lease, do a pass now and then."""

import logging
import signal
import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from kube.api import ApiError
from kube.backoff import jitter
from kube.election import Elector

LEAST_SECONDS = 0.1
"""Between two passes, however near the next thing to do is."""

UNABLE_SECONDS = 1.0
"""Between two looks whether a program can do its work, while it cannot."""

_log = logging.getLogger("kube.loop")


@dataclass(slots=True)
class Loop:
    """Passes for as long as it is this program's turn. For one thread, but for `wake` and `stop`.

    Attributes:
        elector: Says whose turn it is.
        work: Does a pass, which must not last as long as the Lease; returns the seconds until the next one.
        leads: Told after every election whether this program leads.
        wait: Waits for the event, so many seconds at most; says whether it came. The clock is the elector's.
        able: Whether it could do the work now; while it could not, it leaves the Lease to one that can.
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
        """Have a pass soon: there is something new."""
        self._signal.set()

    def stop_on_signals(self) -> None:
        """Have SIGTERM and SIGINT call `stop`; to be called in the main thread."""
        for sign in (signal.SIGTERM, signal.SIGINT):
            # Not in the handler itself: the loop, which it interrupts, may hold the lock that it needs.
            signal.signal(sign, lambda *_: threading.Thread(target=self.stop).start())

    def stop(self) -> None:
        """End `run` after the present pass."""
        self._stopped = True
        self._signal.set()

    def run(self) -> None:
        """Run until `stop`, or until a pass raises; then give the Lease back."""
        try:
            self._take_turns()
        finally:
            if self._leader:
                self._release()
                self.leads(False)  # noqa: FBT003 - of a callback, which has no names

    def _take_turns(self) -> None:
        # Three tries to renew fit into the Lease's duration.
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
            # Not knowing is not leading; whoever can reach the API server may.
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
