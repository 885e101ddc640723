"""How long to wait before the next try."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

JITTER = 0.2
"""By how much of it a wait varies: programs that were started together do not stay in step."""


def waits(first: float = 0.5, most: float = 30.0) -> Iterator[float]:
    """Seconds to wait before each further try: they double.

    Args:
        first: The first, about.
        most: The longest, about.
    """
    while True:
        yield first * jitter()
        first = min(2 * first, most)


def jitter() -> float:
    """A factor near 1."""
    return random.uniform(1 - JITTER, 1 + JITTER)  # noqa: S311 - spreads load, hides nothing
