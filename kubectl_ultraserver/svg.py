"""The UltraServers as a picture for a browser: one card each, light or dark as the browser is."""

from collections.abc import Iterator, Sequence
from html import escape
from typing import Final

from common.texts import printable
from kubectl_ultraserver.servers import MISSING, Server, Spot, counts
from kubectl_ultraserver.terminal import number_of

COLUMNS: Final = 4
WIDTH, HEIGHT = 330, 128
"""Of a card, in pixels, with the space around it."""
TOP: Final = 84
"""Pixels above the first card."""
HUES: Final = 12

STYLE: Final = """
svg { background: #fff; font: 12px ui-monospace, Menlo, Consolas, monospace; fill: #1f2328; }
.head { font: bold 18px system-ui, sans-serif; }
.card { fill: #f6f8fa; stroke: #d1d9e0; }
.broken .card { stroke: #cf222e; stroke-width: 2; }
.dim { fill: #59636e; }
.bad { fill: #cf222e; font-weight: bold; }
.spot { stroke: #59636e; fill: #fff; }
.sick { stroke: #cf222e; stroke-width: 2.5; stroke-dasharray: 5 3; }
.missing { fill: none; stroke: #afb8c1; stroke-dasharray: 2 4; }
"""
DARK: Final = """
svg { background: #0d1117; fill: #e6edf3; }
.card { fill: #161b22; stroke: #30363d; }
.broken .card { stroke: #f85149; }
.dim { fill: #9198a1; }
.bad { fill: #ff7b72; }
.spot { stroke: #9198a1; fill: #0d1117; }
.sick { stroke: #f85149; }
"""


def svg(found: Sequence[Server]) -> str:
    """The picture as a document of its own."""
    columns = max(min(COLUMNS, len(found)), 2)
    lines = -(-len(found) // columns)
    width, height = columns * WIDTH + 16, TOP + lines * HEIGHT + 16
    title = counts(found)
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}">\n<title>{_text(title)}</title>\n<style>{_style()}</style>\n'
        f'<text class="head" x="16" y="32">{_text(title)}</text>\n'
    )
    cards = (
        part
        for place, server in enumerate(found)
        for part in _card(server, 16 + place % columns * WIDTH, TOP + place // columns * HEIGHT)
    )
    return "".join([head, *_legend(), *cards, "</svg>\n"])


def _style() -> str:
    light = "".join(f".t{hue} {{ fill: hsl({hue * 360 // HUES} 75% 82%); }}\n" for hue in range(HUES))
    dark = "".join(f".t{hue} {{ fill: hsl({hue * 360 // HUES} 45% 28%); }}\n" for hue in range(HUES))
    return f"{STYLE}{light}@media (prefers-color-scheme: dark) {{{DARK}{dark}}}\n"


def _legend() -> Iterator[str]:
    signs = (
        ("spot", "free"),
        ("spot t7", "taken"),
        ("spot sick", "cordoned or not ready"),
        ("spot missing", "missing"),
    )
    left = 16
    for style, text in signs:
        yield f'<rect class="{style}" x="{left}" y="48" width="20" height="16" rx="3"/>'
        yield f'<text x="{left + 26}" y="61">{text}</text>\n'
        left += 50 + 8 * len(text)


def _card(server: Server, left: int, top: int) -> Iterator[str]:
    style = "broken" if server.broken else "whole"
    yield f'<g class="{style}" transform="translate({left} {top})">'
    yield f'<rect class="card" width="{WIDTH - 14}" height="{HEIGHT - 12}" rx="6"/>'
    yield f'<text x="10" y="19">{_text(server.id or "in no working UltraServer", 40)}</text>\n'
    for place, spot in enumerate(server.spots):
        yield from _spot(spot, 10 + place * 74 + place // 2 * 6)
    said = [(", ".join(server.tenants), "dim"), ("; ".join(server.troubles), "bad")]
    for line, (text, style) in enumerate([part for part in said if part[0]] or [("free", "dim")]):
        yield f'<text class="{style}" x="10" y="{88 + 18 * line}">'
        yield f"{_text(text, 41)}<title>{_text(text)}</title></text>"
    yield "</g>\n"


def _spot(spot: Spot, left: int) -> Iterator[str]:
    tenant = spot.tenants[0] if spot.tenants else ""
    style = "spot"
    if tenant:
        style += f" t{number_of(tenant, HUES)}"
    if not spot.healthy:
        style += " missing" if spot.state == MISSING else " sick"
    tip = "; ".join(
        (f"node {spot.node}" if spot.node else "no node", spot.state, *(spot.tenants or ("free",)))
    )
    name = tenant.rpartition("/")[2] if tenant else spot.state if not spot.healthy else ""
    yield f"<g><title>{_text(tip)}</title>"
    yield f'<rect class="{style}" x="{left}" y="28" width="68" height="42" rx="4"/>'
    yield f'<text class="dim" x="{left + 5}" y="43">{_text(spot.number or "-")}</text>'
    yield f'<text x="{left + 5}" y="61">{_text(name, 8)}</text></g>\n'


def _text(text: str, longest: int = 0) -> str:
    """A text for XML, which forbids most control characters even escaped."""
    return escape(printable(text, longest))
