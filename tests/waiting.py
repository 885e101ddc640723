"""How tests wait: for something to be the case, and so long that a busy machine does not matter."""

import time
from collections.abc import Callable

PATIENCE = 90.0
"""Seconds within which anything that a test waits for happens, on a busy machine."""


def until(condition: Callable[[], object], seconds: float = PATIENCE, every: float = 0.1) -> None:
    """Waits until something is the case.

    Args:
        condition: Asked again and again.
        seconds: How long.
        every: Seconds between two times.

    Raises:
        AssertionError: It is not, and the time is over.
    """
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"not within {seconds:.0f} s"
        time.sleep(every)
