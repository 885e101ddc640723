"""The budget of work that one evaluation may spend on an object's own record.

Taking back is the only part of an evaluation whose cost a user could choose, because the record has the
positions and digests to compare. So it is paid for in units, in proportion to the object's size, and a record
that costs more is not the webhook's (ADR 0002). There is no clock: an object always costs the same.
"""

from typing import Final

from webhook.objects.tree import Json, canonical

FLOOR: Final = 1 << 16
"""Units of every evaluation: ordinary jobs need fewer, so that their size need not be computed."""

PER_CHARACTER: Final = 12
"""Units for each character of the object as JSON.

A genuine record costs at most two for lists and maps: an added element is digested once, and once more as
a part of an added container. A node selector term costs one for each expression that a table added, and four
for the search that ends without a match, or eight if it also has fields: enough for four to eight expressions
of a table in a job that consists of terms only.
"""


class OverBudgetError(Exception):
    """The record needs more work than the object's size permits."""


class Budget:
    """The units left to one evaluation. One unit is a digested character, or an examined element."""

    def __init__(self, obj: Json) -> None:
        """Stores the object; computes its size only after the first units are spent."""
        self.left = FLOOR
        self._unmeasured: Json = obj

    def spend(self, units: int) -> None:
        """Takes units away.

        Raises:
            OverBudgetError: There are not enough left.
        """
        self.left -= units
        if self.left < 0 and self._unmeasured is not None:
            self.left += PER_CHARACTER * len(canonical(self._unmeasured))
            self._unmeasured = None
        if self.left < 0:
            raise OverBudgetError
