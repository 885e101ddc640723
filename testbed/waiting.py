"""How tests and tools wait: for something that they name, and not for ever."""

import contextlib
import math
import time
from collections.abc import Callable, Iterator
from typing import TypeVar

T = TypeVar("T")

PATIENCE = 90.0
"""Seconds within which anything that is waited for happens, on a busy machine."""

EVERY = 0.1

_ends = math.inf
"""Why another program ended a wait, without knowing what the wait was for."""


class NotYetError(AssertionError):
    """What was waited for did not come about in time; the message has what was seen last."""


@contextlib.contextmanager
def at_most(seconds: float) -> Iterator[None]:
    """Ends every wait within this many seconds from now, so that it says what it waited for and saw."""
    global _ends  # noqa: PLW0603 - also for waits in other threads
    before, _ends = _ends, time.monotonic() + seconds
    try:
        yield
    finally:
        _ends = before


def left(seconds: float) -> float:
    """Returns how many of the seconds that a wait would take it may take."""
    return max(min(seconds, _ends - time.monotonic()), 0.0)


def until(condition: Callable[[], T], what: str, seconds: float = PATIENCE, every: float = EVERY) -> T:
    """Waits for something without an event to follow: a file, a log, a port or a program.

    What the API server has is followed by a watch instead: ``Kubectl.wait_for``.

    Args:
        condition: called again and again.
        what: is waited for, in a few words.
        seconds: how long.
        every: seconds between two calls.

    Returns:
        What the condition said, once that is not empty, zero or false.

    Raises:
        NotYetError: the time is over.
    """
    seconds = left(seconds)
    deadline = time.monotonic() + seconds
    while not (result := condition()):
        if time.monotonic() > deadline:
            raise NotYetError(f"waited {seconds:.0f} s for {what}; last seen: {result!r}")
        time.sleep(every)  # noqa: TID251 - the one place that polls
    return result
