"""Times as Kubernetes writes them."""

import re
from datetime import UTC, datetime, timedelta
from typing import Final

MOST_SECONDS: Final = 10 * 365 * 86400
"""Longer than anything lasts."""

_DURATION: Final = re.compile(r"(?:(\d{1,4})d)?(?:(\d{1,5})h)?(?:(\d{1,7})m)?(?:(\d{1,9})s)?", re.ASCII)


def stamp(when: datetime | float) -> str:
    """Returns a time in UTC, or a Unix time, as the API server writes it."""
    moment = when if isinstance(when, datetime) else datetime.fromtimestamp(when, UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%SZ}"


def time_of(text: object) -> datetime | None:
    """Returns a time that the API server wrote; None for any other value."""
    try:
        when = datetime.fromisoformat(text if isinstance(text, str) else "")
    except ValueError:
        return None
    return when if when.tzinfo else when.replace(tzinfo=UTC)


def duration(text: object) -> timedelta | None:
    """Returns a length of time such as ``30m``, ``4h``, ``1d12h`` or ``90s``; None for any other value."""
    parts = _DURATION.fullmatch(text) if isinstance(text, str) else None
    days, hours, minutes, seconds = (int(part or 0) for part in (parts.groups() if parts else ("",) * 4))
    length = timedelta(days, seconds, hours=hours, minutes=minutes)
    return length if 0 < length.total_seconds() < MOST_SECONDS else None


def clock(time: datetime, now: datetime) -> str:
    """Returns a time for a reader: the hour, with the date on another day."""
    return f"{time:%H:%M}" if time.date() == now.date() else f"{time:%Y-%m-%d %H:%M}"


def about(time: timedelta) -> str:
    """Returns a length of time for a reader: ``5 min``, ``2 h`` or ``3 days``."""
    minutes = max(round(time.total_seconds() / 60), 1)
    if minutes < 120:  # noqa: PLR2004 - two hours
        return f"{minutes} min"
    hours = round(minutes / 60)
    return f"{hours} h" if hours < 48 else f"{round(hours / 24)} days"  # noqa: PLR2004 - two days
