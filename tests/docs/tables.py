"""The tables of the README made from the packaged rule table; ``python -m tests.docs`` writes them."""

from collections.abc import Sequence

from webhook.rules.load import load_default

SHAPES = ("shape", "workers", "node config", "together", "apart", "topology key")
RULES = ("rule", "on", "why")


def tables() -> dict[tuple[str, ...], str]:
    """Each table as Markdown, by its head."""
    table = load_default()
    shapes = [
        (
            f"`{shape.name}`",
            str(shape.workers),
            str(shape.node_config),
            shape.together,
            shape.apart,
            f"`{shape.topology_key.rpartition('/')[2]}`" if shape.topology_key else "",
        )
        for shape in table.shapes
    ]
    rules = [(f"`{rule.name}`", rule.match.role, rule.reason) for rule in table.rules]
    return {SHAPES: _markdown(SHAPES, shapes), RULES: _markdown(RULES, rules)}


def updated(text: str) -> str:
    """A document with every such table as it is now."""
    for head, table in tables().items():
        before, start, rest = text.partition(_row(head))
        while rest.startswith("|"):
            rest = rest.partition("\n")[2]
        text = before + (table if start else "") + rest
    return text


def _markdown(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    return "".join(map(_row, (head, ("---",) * len(head), *rows)))


def _row(cells: tuple[str, ...]) -> str:
    return "| " + " | ".join(cells) + " |\n"
