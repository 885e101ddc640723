"""Messages about rows. A message that only one check or condition composes is in that code instead."""

from typing import Final

NOT_UNIQUE: Final = "has a value twice"
NO_SINGLE_DEVICE: Final = "one device is valid on every instance type: add 1"
NO_SUCH_SHAPE: Final = "unreachable: no shape of the table has these values"
NO_DEVICE_COUNTS: Final = "unreachable: the table has no deviceCounts"
reserved_role: Final = "{!r} cannot be a role: placeholders and match use this word for something else".format
takes_no_values: Final = "operator {} takes no values".format
needs_values: Final = "operator {} needs values".format
