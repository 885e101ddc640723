"""What the schema cannot see of shapes: rows that can never be chosen, or that nothing acts on."""

from collections import defaultdict
from collections.abc import Iterable, Iterator

from webhook.documents import Path
from webhook.rows.placeholders import JOB, names
from webhook.rows.table import Shape
from webhook.rules.rows import Rows, listed

Found = Iterator[tuple[Path, str]]

COUNTS = range(1, 1025)
"""Worker counts that reachability is tried with; shapes repeat long before the end."""


NAMED = 12
"""Most rows that a message names, so that a long table does not make long messages."""


def shape_problems(rows: Rows) -> Found:
    """Every problem of a table's shapes: path and message."""
    covered: dict[int, set[int]] = defaultdict(set)
    earlier: dict[int, list[str]] = defaultdict(list)
    for index, shape in enumerate(rows.table.shapes):
        at: Path = ("shapes", index)
        counts = set(_counts(shape))
        if counts <= covered[shape.node_config]:
            names_ = ", ".join(earlier[shape.node_config][:NAMED])
            yield (
                (*at, "workers"),
                f"unreachable: {names_} with the same node config fits every such count and is tried first",
            )
        covered[shape.node_config] |= counts
        earlier[shape.node_config].append(shape.name)
        yield from _sizes(shape, at)
        yield from _strictness(rows, shape, at)
        for part in ("warn", "deny"):
            for quoted in names(getattr(shape, part)):
                if quoted not in JOB or (quoted == "shape.topologyKey" and not shape.topology_key):
                    yield (*at, part), f"unknown placeholder $({quoted}); known are {listed(JOB)}"


def _sizes(shape: Shape, at: Path) -> Found:
    if shape.workers.number % shape.node_config:
        yield (*at, "workers"), f"{shape.workers} is not made of units of {shape.node_config} (nodeConfig)"
    several = shape.workers.multiple or shape.workers.number > shape.node_config
    # With node config 1 there is no unit: a table may keep such workers together by a topology of its own.
    if shape.together == "required" and shape.node_config > 1 and several:
        yield (*at, "together"), f"one unit of {shape.node_config} cannot hold {shape.workers}: use preferred"


def _strictness(rows: Rows, shape: Shape, at: Path) -> Found:
    for name, wanted in (("together", shape.together), ("apart", shape.apart)):
        if wanted != "none" and not shape.topology_key:
            yield (*at, name), f"{name} needs a topologyKey"
        elif wanted != "none" and (name, wanted) not in rows.acted_on:
            yield (*at, name), f"no rule of the table acts on {name}: {wanted}; add one that matches it"


def _counts(shape: Shape) -> Iterable[int]:
    return (n for n in {*COUNTS, shape.workers.number} if n in shape.workers)
