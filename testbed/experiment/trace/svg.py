"""Draws a run as SVG: the fleet over time, and waits by size."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from xml.sax.saxutils import escape

from testbed.experiment.trace.jobs import DAY
from testbed.experiment.trace.simulate import Sample

WIDTH, HEIGHT = 860, 470
LEFT, RIGHT = 90, 830
COLOURS = {"busy": "#3b6ea8", "reserved": "#e0a030", "fragmented": "#c05040", "waiting": "#555555"}
BARS = ("#3b6ea8", "#e0a030", "#5a9a68", "#9060a0")
COLUMNS = 370
"""The number of points over time: a point for every two pixels, with the mean of many samples."""


def picture(
    title: str, samples: Sequence[Sample], usable: int, waits: Mapping[str, Mapping[str, float]]
) -> str:
    """Returns the picture as an SVG document.

    Args:
        title: The title of the picture.
        samples: The samples of the fleet.
        usable: The number of nodes that are not sick.
        waits: The mean wait in hours, by policy and by size.
    """
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        _text(LEFT, 18, title, size=14),
        *_fleet(_columns(samples), usable, samples[-1].at),
        *_bars(waits),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _columns(samples: Sequence[Sample]) -> list[list[float]]:
    """Returns the mean busy, reserved, fragmented and waiting nodes for equal parts of the time."""
    begin = samples[0].at
    step = max(samples[-1].at - begin, 1e-9) / COLUMNS
    sums = [[0.0] * 4 for _ in range(COLUMNS)]
    for sample, after in pairwise(samples):
        values = (sample.busy, sample.reserved, sample.fragmented, sample.waiting)
        at = sample.at
        column = min(int((at - begin) / step), COLUMNS - 1)
        while at < after.at and column < COLUMNS:
            end = min(after.at, begin + (column + 1) * step) if column < COLUMNS - 1 else after.at
            for index, value in enumerate(values):
                sums[column][index] += value * (end - at) / step
            at, column = end, column + 1
    return sums


def _fleet(columns: list[list[float]], usable: int, end: float) -> Iterable[str]:
    """Yields the nodes over time, and below them the number of nodes that waiting jobs need."""
    top, bottom, below = 40, 190, 270
    width = (RIGHT - LEFT) / len(columns)

    def area(low: list[float], high: list[float], name: str) -> str:
        upper = [f"{LEFT + i * width:.1f},{_scaled(v, usable, top, bottom):.1f}" for i, v in enumerate(high)]
        lower = [f"{LEFT + i * width:.1f},{_scaled(v, usable, top, bottom):.1f}" for i, v in enumerate(low)]
        return f'<polygon points="{" ".join(upper + lower[::-1])}" fill="{COLOURS[name]}"/>'

    busy = [column[0] for column in columns]
    reserved = [column[0] + column[1] for column in columns]
    # A node can be both reserved and fragmented: such a node is drawn as reserved.
    fragmented = [
        min(max(r, column[0] + column[2]), usable) for r, column in zip(reserved, columns, strict=True)
    ]
    yield area([0.0] * len(columns), busy, "busy")
    yield area(busy, reserved, "reserved")
    yield area(reserved, fragmented, "fragmented")
    max_waiting = max(*(column[3] for column in columns), 1.0)
    points = [
        f"{LEFT + i * width:.1f},{_scaled(column[3], max_waiting, bottom + 15, below):.1f}"
        for i, column in enumerate(columns)
    ]
    yield f'<polyline points="{" ".join(points)}" fill="none" stroke="{COLOURS["waiting"]}"/>'
    yield from _axis(usable, top, bottom, "nodes")
    yield from _axis(max_waiting, bottom + 15, below, "asked for")
    for day in range(0, int(end / DAY) + 1, 7):
        yield _text(LEFT + (RIGHT - LEFT) * day * DAY / max(end, 1e-9), below + 14, f"day {day}", "middle")
    names = ("busy", "reserved", "fragmented")
    texts = ("at work", "reserved for a waiting job", "free in a partly used UltraServer")
    yield from _legend([(COLOURS[name], text) for name, text in zip(names, texts, strict=True)], 34)


def _bars(waits: Mapping[str, Mapping[str, float]]) -> Iterable[str]:
    """Yields the bars of the mean wait of each size."""
    top, bottom = 330, 440
    sizes = list(dict.fromkeys(size for by_size in waits.values() for size in by_size))
    max_hours = max((value for by_size in waits.values() for value in by_size.values()), default=0.0) or 1.0
    group = (RIGHT - LEFT) / max(len(sizes), 1)
    width = group * 0.8 / max(len(waits), 1)
    for index, size in enumerate(sizes):
        for number, by_size in enumerate(waits.values()):
            x = LEFT + index * group + group * 0.1 + number * width
            y = _scaled(by_size.get(size, 0.0), max_hours, top, bottom)
            colour = BARS[number % len(BARS)]
            yield (
                f'<rect x="{x:.1f}" y="{y:.1f}" width="{width - 2:.1f}" height="{bottom - y:.1f}" '
                f'fill="{colour}"/>'
            )
            yield _text(x, y - 3, f"{by_size.get(size, 0.0):.1f}")
        yield _text(LEFT + (index + 0.35) * group, bottom + 14, f"{size} nodes")
    yield from _axis(max_hours, top, bottom, "hours waited")
    if len(waits) > 1:
        yield from _legend([(BARS[i % len(BARS)], name) for i, name in enumerate(waits)], top - 22)


def _axis(maximum: float, top: float, bottom: float, name: str) -> Iterable[str]:
    yield f'<path d="M{LEFT},{top} V{bottom} H{RIGHT}" fill="none" stroke="black"/>'
    yield _text(LEFT - 6, top + 8, f"{maximum:.0f}", anchor="end")
    yield _text(LEFT - 6, bottom, "0", anchor="end")
    yield _text(LEFT - 6, (top + bottom) / 2, name, anchor="end", size=9)


def _legend(entries: Sequence[tuple[str, str]], y: float) -> Iterable[str]:
    x = float(LEFT)
    for colour, text in entries:
        yield f'<rect x="{x}" y="{y - 8}" width="9" height="9" fill="{colour}"/>'
        yield _text(x + 13, y, text)
        x += 40 + 6 * len(text)


def _scaled(value: float, maximum: float, top: float, bottom: float) -> float:
    return bottom - (bottom - top) * value / maximum


def _text(x: float, y: float, text: str, anchor: str = "start", size: int = 11) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}">{escape(text)}</text>'
