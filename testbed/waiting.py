"""How tests and tools wait: for something that they name, and not for ever."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

PATIENCE = 90.0
"""Seconds within which anything that is waited for happens, on a busy machine."""

EVERY = 0.1


class NotYetError(AssertionError):
    """What was waited for did not come about in time; the message has what was seen last."""


def until(condition: Callable[[], T], what: str, seconds: float = PATIENCE, every: float = EVERY) -> T:
    """Waits for what has no event to follow: what a file, a log, a port or a program of its own says.

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
    deadline = time.monotonic() + seconds
    while not (said := condition()):
        if time.monotonic() > deadline:
            raise NotYetError(f"waited {seconds:.0f} s for {what}; last seen: {said!r}")
        time.sleep(every)  # noqa: TID251 - the one place that polls
    return said
