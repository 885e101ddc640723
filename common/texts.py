"""Texts that anybody may have written, for terminals, logs and Events."""

import difflib
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import zip_longest
from textwrap import TextWrapper, fill
from typing import Final

WIDTH: Final = 100
"""Columns of a line for people."""
NARROWEST: Final = 10
"""Characters of a column that is not made narrower."""

CLOSE: Final = 0.83
"""How alike two names are of which one is the other misspelt; `minReplicas`, `maxReplicas` are less so."""

LONGEST_MESSAGE: Final = 1000
"""Characters of a warning, a denial or a reason; what quotes more of an object than that says no more."""

LONGEST_NAME: Final = 200
"""Characters of a name that may be a known one misspelt."""


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


def cut(message: str) -> str:
    """A message of one printable line of bounded length, which may quote whatever an object says.

    The beginning says what it is about, and the end the way out.
    """
    if len(message) > LONGEST_MESSAGE:
        half = LONGEST_MESSAGE // 2
        message = f"{message[: half - 2]} … {message[1 - half :]}"
    return printable(" ".join(message.splitlines()), LONGEST_MESSAGE)


def folded(text: str, first: str = "") -> str:
    """A text behind the first words of its line, in lines of at most `WIDTH` columns, indented alike."""
    return fill(
        text,
        WIDTH,
        initial_indent=first,
        subsequent_indent=" " * len(first),
        break_long_words=False,
        break_on_hyphens=False,
    )


@lru_cache(maxsize=4096)
def nearest(word: str, known: tuple[str, ...]) -> str | None:
    """The known name that a word is in other case, in another order, or with a letter or two wrong."""
    if len(word) > LONGEST_NAME:
        return None
    by_case, lower = {name.lower(): name for name in known}, word.lower()
    other_order = (each for each in by_case if sorted(each) == sorted(lower))
    close = (*other_order, *difflib.get_close_matches(lower, by_case, n=1, cutoff=CLOSE))
    return by_case[close[0]] if close else None


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """The end of a message about an unknown name: the nearest one that is known, or nothing."""
    close = difflib.get_close_matches(name, known, n=1)
    return f"; did you mean {close[0]!r}?" if close else ""


def columns(rows: Sequence[Sequence[str]], width: int = 0) -> Iterator[str]:
    """A line for each row, in columns; with a width, cells beside the first are wrapped to fit in it."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    while width and sum(widths) + 2 * len(widths) - 2 > width and (widest := max(widths[1:])) > NARROWEST:
        widths[widths.index(widest, 1)] -= 1
    for row in rows:
        cells = [_wrapped(*each) if width else [each[0]] for each in zip(row, widths, strict=True)]
        for line in zip_longest(*cells, fillvalue=""):
            yield "  ".join(map(str.ljust, line, widths)).rstrip()


def _wrapped(cell: str, width: int) -> list[str]:
    wrapper = TextWrapper(width)
    wrapper.wordsep_re = re.compile(r"(\s+)|(?<=[/|])(?=\S)")  # also within names and lists of them
    return wrapper.wrap(cell) or [""]
