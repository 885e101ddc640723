"""How long to wait before the next try."""

import random
from collections.abc import Iterator

JITTER = 0.2
"""By how much of it a wait varies: programs that were started together do not stay in step."""


def waits() -> Iterator[float]:
    """Seconds to wait before each further try: they double, from half a second to half a minute, about."""
    wait = 0.5
    while True:
        yield wait * jitter()
        wait = min(2 * wait, 30.0)


def jitter() -> float:
    """A factor near 1."""
    return random.uniform(1 - JITTER, 1 + JITTER)  # noqa: S311 - spreads load, hides nothing
