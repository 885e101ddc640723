"""How long to wait before the next try."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

JITTER = 0.2
"""By how much of it a wait varies: programs that were started together do not stay in step."""


@dataclass(slots=True)
class Backoff:
    """Waits that double.

    Attributes:
        first: Seconds of the first wait, about.
        most: Seconds of the longest, about.
    """

    first: float = 0.5
    most: float = 30.0
    _next: float = field(default=0.0, init=False)

    def next(self) -> float:
        """Seconds to wait now."""
        wait = self._next or self.first
        self._next = min(2 * wait, self.most)
        return wait * jitter()

    def reset(self) -> None:
        """Begin with the first again: something went well."""
        self._next = 0.0


def jitter() -> float:
    """A factor near 1."""
    return random.uniform(1 - JITTER, 1 + JITTER)  # noqa: S311 - spreads load, hides nothing
