"""Texts that anybody may have written, for terminals, logs and Events."""

from collections.abc import Iterator, Sequence


def printable(text: str, longest: int = 0) -> str:
    """The text with everything that is not printable written as Python writes it in quotes.

    Escape sequences, line ends and signs that change the direction of writing then command nothing.

    Args:
        text: whatever somebody wrote.
        longest: characters that are left, the last one an ellipsis where there were more; 0 leaves all.
    """
    kept = text[: longest + 1] if longest else text
    if not kept.isprintable():
        kept = "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in kept)
    return f"{kept[: longest - 1]}…" if 0 < longest < len(kept) else kept


def columns(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """A line for each row, in columns."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        yield "  ".join(map(str.ljust, row, widths)).rstrip()
