"""Work that may take long: what an application needs to know of it."""

from collections.abc import Callable
from typing import Any

Work = Callable[..., Any]
"""``work(size, function, *arguments)`` gives ``function(table, *arguments)`` with the table in use.

``size`` are the bytes that it works on; shorter work passes longer work that came little before it. Function
and arguments go to another process: the function is one of a module, and all can be pickled.

Raises:
    BusyError: Too much work is waiting.
    TooLargeError: It takes too much memory.
    FailedError: It took too long.
"""


class BusyError(Exception):
    """Too much long work is waiting; it may be tried again in a second."""

    def __init__(self, why: str = "too much work is waiting; try again") -> None:
        super().__init__(why)


class FailedError(Exception):
    """Long work that did not come to an end; the message says why."""


class TooLargeError(FailedError):
    """What is to be worked on takes more memory than one piece of work may; the message says how much."""
