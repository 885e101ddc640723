"""Waits of tests and tools, which end in time and name what they wait for."""

import contextlib
import math
import time
from collections.abc import Callable, Iterator
from typing import TypeVar

T = TypeVar("T")

PATIENCE = 90.0
"""The maximum seconds of a wait, enough for a busy machine."""

POLL_SECONDS = 0.1

_ends = math.inf
"""The time at which every wait ends, by the monotonic clock."""


class NotYetError(AssertionError):
    """A wait ended without its event; the message has the last observation."""


@contextlib.contextmanager
def limit_waits(seconds: float) -> Iterator[None]:
    """Ends every wait after this many seconds, so that its message says what it waited for and saw last."""
    global _ends  # noqa: PLW0603 - also for waits in other threads
    before, _ends = _ends, time.monotonic() + seconds
    try:
        yield
    finally:
        _ends = before


def seconds_left(seconds: float) -> float:
    """Returns the seconds that a wait may take, which are fewer if `at_most` ends it earlier."""
    return max(min(seconds, _ends - time.monotonic()), 0.0)


def until(condition: Callable[[], T], what: str, seconds: float = PATIENCE, every: float = POLL_SECONDS) -> T:
    """Waits for something that has no event, such as a file, a log, a port or a program.

    ``Kubectl.wait_for`` waits for objects of the API server: it uses a watch.

    Args:
        condition: The function that is called until its result is true.
        what: What the wait is for, in a few words.
        seconds: The maximum seconds of the wait.
        every: The seconds between two calls.

    Returns:
        The first result of the condition that is not empty, zero or false.

    Raises:
        NotYetError: The time is over.
    """
    seconds = seconds_left(seconds)
    deadline = time.monotonic() + seconds
    while not (result := condition()):
        if time.monotonic() > deadline:
            raise NotYetError(f"waited {seconds:.0f} s for {what}; last seen: {result!r}")
        time.sleep(every)  # noqa: TID251 - the only place that polls
    return result
