"""Where the workers of a job run, as values that a page draws and lists."""

from typing import Final, NamedTuple

from contract.place import Place
from webhook.preview.run import Preview
from webhook.preview.sentence import PAIR, SERVER, place_of

NODES: Final = 4
"""Nodes of an UltraServer."""
MOST: Final = 12
"""Units that are drawn; the others are counted."""


class Unit(NamedTuple):
    """One UltraServer, pair or node, and what is on it.

    Attributes:
        name: for people.
        nodes: by place, the number of the worker there; None where another job may be.
    """

    name: str
    nodes: tuple[int | None, ...]


class Picture(NamedTuple):
    """The units of a job.

    Attributes:
        units: the first ones, at most `MOST`.
        more: how many others there are.
    """

    units: tuple[Unit, ...]
    more: int


def picture(item: Preview) -> Picture | None:
    """Returns the units of a job, or of one group of it; None where nothing is placed."""
    place = place_of(item)
    if place is None:
        return None
    blocks = max(1, place.workers // place.size)
    return Picture(tuple(_unit(place, number) for number in range(min(blocks, MOST))), max(0, blocks - MOST))


def _unit(place: Place, number: int) -> Unit:
    first = number * place.size
    workers: tuple[int | None, ...] = tuple(range(first, min(first + place.size, place.workers)))
    if place.unit == SERVER:
        return Unit(f"UltraServer {number + 1}", workers)
    if place.unit == PAIR:
        return Unit(f"pair {number + 1}", (*workers, *[None] * (NODES - len(workers))))
    return Unit(f"{'node' if place.size == 1 else 'unit'} {number + 1}", workers)
