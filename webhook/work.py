"""Work that may take long, as views ask for it from `webhook.rules.source.TableSource`."""

from collections.abc import Callable
from typing import Any

Work = Callable[..., Any]
"""``work(size, function, *arguments)`` returns ``function(table, *arguments)`` with the table in use.

``size`` is the number of bytes to work on; shorter work passes longer work that came little before it.
Function and arguments go to another process: the function is a module's, and all can be pickled.

Raises:
    BusyError: Too much work waits.
    TooLargeError: The work needs too much memory.
    FailedError: The work took too long.
"""


class BusyError(Exception):
    """Too much long work waits; the caller may try again in a second."""

    def __init__(self, why: str = "too much work is waiting; try again") -> None:
        super().__init__(why)


class FailedError(Exception):
    """Long work was not completed; the message has the reason."""


class TooLargeError(FailedError):
    """The work needs more memory than one piece may use; the message has the amount."""
