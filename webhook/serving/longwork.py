"""Long work, one piece at a time in a process of its own, beside the loop that serves.

What waits stands in the order of its arrival, put back by what it weighs: short work passes long work that
came little before it, and nothing waits for ever because others keep coming.
"""

from __future__ import annotations

import itertools
import pickle
import time
from bisect import insort
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from gevent.event import Event

from webhook.serving.template import Template
from webhook.work import BusyError

if TYPE_CHECKING:
    from collections.abc import Callable

_BYTES_A_SECOND = 256 * 1024
"""What a piece weighs: about the rate at which reviews are evaluated."""


class LongWork:
    """Does work, each piece within one deadline for waiting and working; callable as `webhook.work.Work`."""

    def __init__(
        self,
        *,
        nice: int = 0,
        seconds: float = 4.0,
        memory: int = 32 * 1024 * 1024,
        waiting: int = 64,
        waiting_bytes: int = 6 * 1024 * 1024,
    ) -> None:
        """Start the template process; to be called before a connection is accepted.

        Args:
            nice: How far it stands behind others where there is one processor.
            seconds: From asking for a piece to its end; below the ``timeoutSeconds`` of the manifests (5), or
                work would be done for an API server that no longer waits.
            memory: Most bytes that one piece may take.
            waiting: Most pieces that wait; above it the last in order is refused.
            waiting_bytes: Most bytes, in sum, that the waiting ones work on.
        """
        self._seconds = seconds
        self._queue = _Queue(waiting, waiting_bytes)
        self._template = Template(nice, memory)

    def __call__(self, size: int, function: Callable[..., Any], *arguments: Any) -> Any:  # noqa: ANN401
        """See `webhook.work.Work`."""
        until = time.monotonic() + self._seconds
        self._queue.enter(size, self._seconds)
        try:
            return self._template.run(pickle.dumps((function, arguments)), until - time.monotonic())
        finally:
            self._queue.leave()


@dataclass(order=True, slots=True)
class _Turn:
    """A piece of work that waits.

    Attributes:
        weight: The time of its arrival and of its work; what has the least is next.
        mine: Whether it is this one's turn.
    """

    weight: float
    number: int
    size: int = field(compare=False)
    mine: bool = field(default=False, compare=False)
    event: Event = field(default_factory=Event, compare=False)


class _Queue:
    """Who is next, and who has to go because too much waits."""

    def __init__(self, most: int, most_bytes: int) -> None:
        self._most, self._most_bytes = most, most_bytes
        self._number = itertools.count()
        self._waiting: list[_Turn] = []
        self._busy = False

    def enter(self, size: int, seconds: float) -> None:
        """Wait for the turn of a piece; `leave` ends it.

        Raises:
            BusyError: It did not come in time, or too much waits.
        """
        if not self._busy:
            self._busy = True
            return
        turn = _Turn(time.monotonic() + size / _BYTES_A_SECOND, next(self._number), size)
        insort(self._waiting, turn)
        while len(self._waiting) > self._most or sum(each.size for each in self._waiting) > self._most_bytes:
            self._waiting.pop().event.set()
        try:
            turn.event.wait(seconds)
        except BaseException:  # its peer had to go
            self._give_up(turn)
            raise
        # The turn may come in the same moment as the end of the wait, so the event is not asked.
        if not turn.mine:
            self._give_up(turn)
            raise BusyError

    def leave(self) -> None:
        """Give the turn to the next one."""
        self._busy = bool(self._waiting)
        if self._waiting:
            turn = self._waiting.pop(0)
            turn.mine = True
            turn.event.set()

    def _give_up(self, turn: _Turn) -> None:
        if turn.mine:
            self.leave()
        elif turn in self._waiting:
            self._waiting.remove(turn)
