"""A timeline of the experiment as a drawing: nodes at work, nodes held in part, jobs that wait."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from testbed.experiment.arrivals import Row

WIDTH, HEIGHT, LEFT, TOP = 720, 260, 50, 20
LINES = (
    (2, "#1a7f37", "nodes at work"),
    (3, "#cf222e", "nodes held in part"),
    (1, "#6e7781", "jobs that wait"),
)


def drawn(rows: Sequence[Row], healthy: int) -> str:
    """An SVG of the rows, one line for each figure."""
    longest = max(row[0] for row in rows) or 1
    highest = max(healthy, *(max(row[1:]) for row in rows)) or 1

    def point(second: float, figure: float) -> str:
        return f"{LEFT + WIDTH * second / longest:.1f},{TOP + HEIGHT * (1 - figure / highest):.1f}"

    parts = [_line(f"{point(0, healthy)} {point(longest, healthy)}", "#d0d7de")]
    parts += [_line(f"{point(0, 0)} {point(longest, 0)}", "#24292f")]
    parts += [_text(LEFT - 6, TOP + HEIGHT * (1 - healthy / highest) + 4, str(healthy), "end")]
    parts += [_text(LEFT - 6, TOP + HEIGHT + 4, "0", "end")]
    parts += [_text(LEFT + WIDTH, TOP + HEIGHT + 18, f"{longest} s", "end")]
    for number, (column, colour, name) in enumerate(LINES):
        parts.append(_line(" ".join(point(row[0], row[column]) for row in rows), colour))
        parts.append(_text(LEFT + 180 * number, TOP + HEIGHT + 36, name, "start", colour))
    size = f'viewBox="0 0 {LEFT + WIDTH + 20} {TOP + HEIGHT + 46}"'
    style = 'font-family="sans-serif" font-size="12"'
    body = "\n".join(parts)
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size} {style}>\n{body}\n</svg>\n'


def _line(points: str, colour: str) -> str:
    return f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="1.5"/>'


def _text(x: float, y: float, text: str, anchor: str, colour: str = "#24292f") -> str:
    return f'<text x="{x:.0f}" y="{y:.0f}" text-anchor="{anchor}" fill="{colour}">{text}</text>'
