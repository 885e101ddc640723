"""Where the workers of a job run, as values that a page draws and lists."""

from typing import Any, Final

from contract.place import Place
from webhook.preview.run import Preview
from webhook.preview.sentence import PAIR, SERVER, judged

NODES: Final = 4
"""Nodes of an UltraServer."""
MOST: Final = 12
"""Units that are drawn; the others are counted."""


def picture(item: Preview) -> dict[str, Any] | None:
    """Returns the first ``units`` of a job, or of one group of it, and how many ``more`` there are.

    A unit has a ``name`` and ``nodes``: by place the number of the worker there, or None where another job
    may be. None where nothing is placed.
    """
    _, place = judged(item)
    if place is None:
        return None
    blocks = max(1, place.workers // place.size)
    units = [_unit(place, number) for number in range(min(blocks, MOST))]
    return {"units": units, "more": max(0, blocks - MOST)}


def _unit(place: Place, number: int) -> dict[str, Any]:
    first = number * place.size
    nodes: list[int | None] = [*range(first, min(first + place.size, place.workers))]
    if place.unit == PAIR:
        nodes += [None] * (NODES - len(nodes))
    names = {SERVER: "UltraServer", PAIR: "pair"}
    name = names.get(place.unit, "node" if place.size == 1 else "unit")
    return {"name": f"{name} {number + 1}", "nodes": nodes}
