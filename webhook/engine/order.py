"""Keeping elements where they were: what was taken back and added again stays at its place in the list."""

from webhook.engine.patch import paired
from webhook.engine.tree import Json


def as_received(received: Json, desired: Json) -> Json:
    """``desired`` with the elements of every changed list in the order that ``received`` has them.

    An evaluation that finds its own additions takes them back and adds them again at the end. Where
    another webhook appended after them this would be a change of order, and a patch, for nothing.
    """
    if received is desired:
        return received
    if isinstance(received, dict) and isinstance(desired, dict):
        values = {key: as_received(received[key], value) for key, value in desired.items() if key in received}
        if all(values[key] is desired[key] for key in values):
            return desired
        return {**desired, **values}
    if isinstance(received, list) and isinstance(desired, list):
        return _list(received, desired)
    return desired


def _list(received: list[Json], desired: list[Json]) -> list[Json]:
    start = next((i for i, (a, b) in enumerate(zip(received, desired, strict=False)) if a is not b), None)
    if start is None:
        return desired  # only appended to, or cut at the end
    places = paired(desired, received)
    order = sorted(range(len(desired)), key=lambda i: (places[i] is None, places[i] or 0))
    result = []
    for i in order:
        place = places[i]
        result.append(desired[i] if place is None else as_received(received[place], desired[i]))
    return result
