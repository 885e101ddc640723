"""The waits between one try and the next."""

import random
from collections.abc import Iterator

JITTER = 0.2
"""The part by which a wait varies, so that programs that were started together do not stay in step."""


def waits() -> Iterator[float]:
    """Yields the seconds to wait before each further try: they double from about 0.5 to about 30."""
    wait = 0.5
    while True:
        yield wait * jitter()
        wait = min(2 * wait, 30.0)


def jitter() -> float:
    """Returns a random factor near 1."""
    return random.uniform(1 - JITTER, 1 + JITTER)  # noqa: S311 - spreads load, hides nothing
