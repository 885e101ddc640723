"""Times as Kubernetes writes them."""

from datetime import UTC, datetime


def stamp(when: datetime | float) -> str:
    """A time in UTC, or a Unix time, as the API server writes it."""
    moment = when if isinstance(when, datetime) else datetime.fromtimestamp(when, UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%SZ}"


def time_of(found: object) -> datetime | None:
    """A time as the API server writes it; None for anything else."""
    try:
        when = datetime.fromisoformat(found if isinstance(found, str) else "")
    except ValueError:
        return None
    return when if when.tzinfo else when.replace(tzinfo=UTC)
