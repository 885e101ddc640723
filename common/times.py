"""Times as Kubernetes writes them."""

from datetime import UTC, datetime


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
