"""The budget of work that one evaluation may spend on what an object says was added to it.

Taking back is the one part of an evaluation whose price an author could choose: a record says where to look
and what to compare with. So it is paid for in units, proportional to the object's size, and a record that
costs more was not written by the webhook (ADR 0011). No clock: the same object costs the same everywhere.
"""

from typing import Final

from webhook.objects.tree import Json, canonical

FLOOR: Final = 1 << 16
"""Units that every evaluation has: no ordinary job needs more, so its size need not be found out."""

PER_CHARACTER: Final = 12
"""Units for each character of the object as JSON.

An honest record costs two at most for lists and maps: an added element is digested once, and once more as a
part of an added container. A node selector term costs one for each expression that a table added, and four
for the search that finds nothing left, or eight where it has fields as well: room for four to eight
expressions of a table in a job that is nothing but terms.
"""


class OverBudgetError(Exception):
    """More work than the object's size allows for."""


class Budget:
    """Units left to one evaluation. One unit is a character digested, or an element looked at."""

    def __init__(self, obj: Json) -> None:
        """The budget for an object; its size is found out only once the floor is spent."""
        self.left = FLOOR
        self._unmeasured: Json = obj

    def spend(self, units: int) -> None:
        """Takes units away.

        Raises:
            OverBudgetError: if there are none left.
        """
        self.left -= units
        if self.left < 0 and self._unmeasured is not None:
            self.left += PER_CHARACTER * len(canonical(self._unmeasured))
            self._unmeasured = None
        if self.left < 0:
            raise OverBudgetError
