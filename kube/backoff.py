"""Computes the waits between attempts of a call."""

import random
from collections.abc import Iterator

JITTER = 0.2
"""The fraction by which a wait varies, so that programs that start together retry at different times."""


def waits() -> Iterator[float]:
    """Yields the seconds to wait before the next attempt. They double from about 0.5 to about 30."""
    wait = 0.5
    while True:
        yield wait * jitter()
        wait = min(2 * wait, 30.0)


def jitter() -> float:
    """Returns a random factor between 1 - `JITTER` and 1 + `JITTER`."""
    return random.uniform(1 - JITTER, 1 + JITTER)  # noqa: S311 - spreads load, hides nothing
