"""Waits for conditions. If a wait times out, its error names the condition."""

import contextlib
import math
import time
from collections.abc import Callable, Iterator
from typing import TypeVar

T = TypeVar("T")

PATIENCE = 90.0
"""The default timeout of a wait in seconds, which is long enough for a busy machine."""

POLL_SECONDS = 0.1

_deadline = math.inf
"""The time of ``time.monotonic`` at which every wait ends."""


class NotYetError(AssertionError):
    """A wait timed out; the message has the last observation."""


@contextlib.contextmanager
def limit_waits(seconds: float) -> Iterator[None]:
    """Ends every wait after this many seconds, with an error that has the condition and last observation."""
    global _deadline  # noqa: PLW0603 - the limit also applies to waits in other threads
    previous_deadline, _deadline = _deadline, time.monotonic() + seconds
    try:
        yield
    finally:
        _deadline = previous_deadline


def seconds_left(seconds: float) -> float:
    """Returns this timeout of a wait, or a shorter timeout if `limit_waits` ends the wait earlier."""
    return max(min(seconds, _deadline - time.monotonic()), 0.0)


def until(condition: Callable[[], T], what: str, seconds: float = PATIENCE, every: float = POLL_SECONDS) -> T:
    """Calls a condition until it holds. Use it for files, logs, ports and programs, which have no events.

    For objects of the API server, use ``Kubectl.wait_for``, which watches them.

    Args:
        condition: The function that is called until its result is true.
        what: The condition in a few words, for the error.
        seconds: The maximum seconds of the wait.
        every: The seconds between two calls.

    Returns:
        The first result of the condition that is not empty, zero or false.

    Raises:
        NotYetError: The condition does not hold in time.
    """
    seconds = seconds_left(seconds)
    deadline = time.monotonic() + seconds
    while not (result := condition()):
        if time.monotonic() > deadline:
            raise NotYetError(f"waited {seconds:.0f} s for {what}; last seen: {result!r}")
        time.sleep(every)  # noqa: TID251 - the only place that polls
    return result
