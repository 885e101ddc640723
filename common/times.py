"""Reads and writes times, for Kubernetes and for people."""

from datetime import UTC, datetime, timedelta
from typing import Final

from common.quantities import seconds

EARLIEST: Final = datetime.min.replace(tzinfo=UTC)
"""A time before every other time."""


def stamp(time: datetime | float) -> str:
    """Returns a time in UTC, or a Unix time, as the API server writes it."""
    moment = time if isinstance(time, datetime) else datetime.fromtimestamp(time, UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%SZ}"


def time_of(text: object) -> datetime | None:
    """Returns a time that the API server wrote; None for any other value."""
    try:
        time = datetime.fromisoformat(text if isinstance(text, str) else "")
    except ValueError:
        return None
    return time if time.tzinfo else time.replace(tzinfo=UTC)


def duration(text: object) -> timedelta | None:
    """Returns a length of time such as ``30m``, ``4h``, ``1d12h`` or ``90s``; None for any other value."""
    length = seconds(text)
    return None if length is None else timedelta(seconds=length)


def clock_text(time: datetime, now: datetime) -> str:
    """Returns a time for a reader: hour and minute, with the date if ``now`` is on another day."""
    return f"{time:%H:%M}" if time.date() == now.date() else f"{time:%Y-%m-%d %H:%M}"


def length_text(length: timedelta) -> str:
    """Returns a length of time for a reader: ``5 min``, ``2 h`` or ``3 days``."""
    minutes = max(round(length.total_seconds() / 60), 1)
    if minutes < 120:  # noqa: PLR2004 - two hours
        return f"{minutes} min"
    hours = round(minutes / 60)
    return f"{hours} h" if hours < 48 else f"{round(hours / 24)} days"  # noqa: PLR2004 - two days
