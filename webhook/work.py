"""Defines the type and the errors of functions that do long work for the HTTP endpoints."""

from collections.abc import Callable
from typing import Any

Work = Callable[..., Any]
"""``work(size, function, *arguments)`` returns ``function(table, *arguments)`` with the table in use.

``size`` is the number of bytes that the function reads. A call with a small size can overtake a call with a
large size. The function may run in another process, so the function and the arguments must be picklable.

Raises:
    BusyError: Too much work waits, or this call has waited too long.
    TooLargeError: The work needs too much memory.
    FailedError: The work took too long.
"""


class BusyError(Exception):
    """The error if too much long work waits; the caller can try again in a second."""


class FailedError(Exception):
    """The error if long work was not completed; the message has the reason."""


class TooLargeError(FailedError):
    """The error if long work needs too much memory; the message has the maximum."""
