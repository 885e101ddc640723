"""Long work, one piece at a time in a process of its own, beside the loop that serves.

What waits stands in the order of its arrival, put back by what it weighs: short work passes long work that
came little before it, and nothing waits for ever because others keep coming.
"""

import time
from bisect import insort
from collections.abc import Callable
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any

from gevent.event import Event

from webhook.serving.template import Template
from webhook.work import BusyError

_BYTES_A_SECOND = 256 * 1024
"""What a piece weighs: about the rate at which reviews are evaluated."""


@dataclass(eq=False, slots=True)
class _Turn:
    """A piece of work that waits.

    Attributes:
        weight: The time of its arrival and of its work; what has the least is next.
    """

    weight: float
    size: int
    event: Event = field(default_factory=Event)


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
        self._most, self._most_bytes = waiting, waiting_bytes
        self._waiting: list[_Turn] = []
        self._current: _Turn | None = None
        self._template = Template(nice, memory)

    def __call__(self, size: int, function: Callable[..., Any], *arguments: Any) -> Any:  # noqa: ANN401
        """See `webhook.work.Work`."""
        until = time.monotonic() + self._seconds
        turn = self._enter(size)
        try:
            turn.event.wait(self._seconds)
            # The turn may come in the same moment as the end of the wait, so the event is not asked.
            if turn is not self._current:
                raise BusyError
            return self._template.run(until - time.monotonic(), function, *arguments)
        finally:
            if turn is self._current:
                self._next()
            elif turn in self._waiting:
                self._waiting.remove(turn)

    def _enter(self, size: int) -> _Turn:
        """A turn in the queue; while too much waits, the last in order has to go."""
        turn = _Turn(time.monotonic() + size / _BYTES_A_SECOND, size)
        insort(self._waiting, turn, key=attrgetter("weight"))
        if self._current is None:
            self._next()
        while len(self._waiting) > self._most or sum(each.size for each in self._waiting) > self._most_bytes:
            self._waiting.pop().event.set()
        return turn

    def _next(self) -> None:
        """Give the turn to the next one."""
        self._current = self._waiting.pop(0) if self._waiting else None
        if self._current:
            self._current.event.set()
