"""Keeping elements where they were: what was taken back and added again stays at its place in the list."""

from webhook.engine.lists import Kind, kind, paired
from webhook.engine.tree import Json, Path, same


def as_received(received: Json, desired: Json, path: Path = ()) -> Json:
    """``desired`` with every list as it is in ``received`` where the two hold the same elements.

    An evaluation that finds its own additions takes them back and adds them again at the end. Where
    another webhook appended after them this would be a change of order, and a patch, for nothing. What
    is equal is shared with ``received``, so that comparing the two costs only what did change.
    """
    if received is desired:
        return received
    if isinstance(received, dict) and isinstance(desired, dict):
        return _map(received, desired, path)
    if isinstance(received, list) and isinstance(desired, list) and kind(path) is not Kind.VALUE:
        return _list(received, desired, path)
    return received if same(received, desired) else desired


def _map(received: dict[str, Json], desired: dict[str, Json], path: Path) -> Json:
    values = {
        key: as_received(received[key], value, (*path, key)) if key in received else value
        for key, value in desired.items()
    }
    if values.keys() == received.keys() and all(values[key] is received[key] for key in values):
        return received
    return values


def _list(received: list[Json], desired: list[Json], path: Path) -> Json:
    if all(a is b for a, b in zip(received, desired, strict=False)) and len(received) != len(desired):
        return desired  # only appended to, or cut at the end
    if kind(path) is Kind.TERMS:
        # Nobody appends to alternatives without widening them, so each is compared with the one at its place.
        places: list[int | None] = list(range(min(len(received), len(desired))))
        places += [None] * (len(desired) - len(places))
    else:
        places = paired(desired, received, path)
    result = [
        item if place is None else as_received(received[place], item, (*path, place))
        for item, place in zip(desired, places, strict=True)
    ]
    kept = [received[place] for place in places if place is not None]
    if len(kept) == len(received) == len(result) and all(a is b for a, b in zip(result, kept, strict=True)):
        return received
    return result
