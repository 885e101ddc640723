"""Times as Kubernetes writes them."""

from datetime import UTC, datetime


def time_of(found: object) -> datetime | None:
    """A time as the API server writes it; None for anything else."""
    try:
        when = datetime.fromisoformat(found if isinstance(found, str) else "")
    except ValueError:
        return None
    return when if when.tzinfo else when.replace(tzinfo=UTC)
