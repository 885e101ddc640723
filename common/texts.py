"""Makes texts that any user may have written safe and short for terminals, logs and Events."""

import difflib
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import zip_longest
from textwrap import TextWrapper, fill
from typing import Final

WIDTH: Final = 100
"""Width of a line for people, in characters."""
MIN_COLUMN_WIDTH: Final = 10
"""Minimum width of a column, in characters."""

MIN_SIMILARITY: Final = 0.83
"""Minimum similarity of a name and its misspelling; `minReplicas` and `maxReplicas` are less similar."""

MAX_MESSAGE_LENGTH: Final = 1000
"""The maximum length of a warning, a denial or a reason. A longer quotation of an object is of no use."""

MAX_NAME_LENGTH: Final = 200
"""The maximum length of a name for which similar names are searched."""


def printable(text: str, max_length: int = 0) -> str:
    """Returns the text with Python's escapes for all characters that are not printable.

    Escape sequences, line ends and characters that change the direction of writing then have no effect.

    Args:
        text: Text that any user may have written.
        max_length: The maximum length. A longer text ends in an ellipsis; 0 means no maximum.
    """
    result = text[: max_length + 1] if max_length else text
    if not result.isprintable():
        result = "".join(
            character if character.isprintable() else character.encode("unicode_escape").decode()
            for character in result
        )
    return f"{result[: max_length - 1]}…" if 0 < max_length < len(result) else result


def cut(message: str) -> str:
    """Returns a message, which may quote any text, as one printable line of limited length.

    The result keeps the beginning, which names the subject, and the end, which names the remedy.
    """
    if len(message) > MAX_MESSAGE_LENGTH:
        half = MAX_MESSAGE_LENGTH // 2
        message = f"{message[: half - 2]} … {message[1 - half :]}"
    return printable(" ".join(message.splitlines()), MAX_MESSAGE_LENGTH)


def join_names(names: Sequence[str], maximum: int = 4) -> str:
    """Returns names as one text, with at most ``maximum`` of them: ``a, b and 3 more``."""
    omitted = len(names) - maximum
    return ", ".join(names[:maximum]) + (f" and {omitted} more" if omitted > 0 else "")


def count_text(number: int, noun: str) -> str:
    """Returns a number with its noun: ``1 worker`` or ``2 workers``."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def fold(text: str, first: str = "") -> str:
    """Returns a text in lines of at most `WIDTH`. The first line begins with ``first``."""
    return fill(
        text,
        WIDTH,
        initial_indent=first,
        subsequent_indent=" " * len(first),
        break_long_words=False,
        break_on_hyphens=False,
    )


@lru_cache(maxsize=4096)
def nearest(word: str, known_names: tuple[str, ...]) -> str | None:
    """Returns a known name that differs only in case or letter order, or a similar known name, or None."""
    if len(word) > MAX_NAME_LENGTH:
        return None
    by_case, lower = {name.lower(): name for name in known_names}, word.lower()
    anagrams = (name for name in by_case if sorted(name) == sorted(lower))
    candidates = (*anagrams, *difflib.get_close_matches(lower, by_case, n=1, cutoff=MIN_SIMILARITY))
    return by_case[candidates[0]] if candidates else None


def did_you_mean(name: str, known_names: Iterable[str]) -> str:
    """Returns the end of a message about an unknown name: the most similar known name, or an empty text."""
    candidates = difflib.get_close_matches(name, known_names, n=1)
    return f"; did you mean {candidates[0]!r}?" if candidates else ""


def columns(rows: Sequence[Sequence[str]], width: int = 0) -> Iterator[str]:
    """Yields each row as aligned columns. With a width, all columns except the first are wrapped to fit."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    while (
        width and sum(widths) + 2 * len(widths) - 2 > width and (widest := max(widths[1:])) > MIN_COLUMN_WIDTH
    ):
        widths[widths.index(widest, 1)] -= 1
    for row in rows:
        cells = [
            _wrapped(*cell_and_width) if width else [cell_and_width[0]]
            for cell_and_width in zip(row, widths, strict=True)
        ]
        for line in zip_longest(*cells, fillvalue=""):
            yield "  ".join(map(str.ljust, line, widths)).rstrip()


def _wrapped(cell: str, width: int) -> list[str]:
    wrapper = TextWrapper(width)
    wrapper.wordsep_re = re.compile(r"(\s+)|(?<=[/|])(?=\S)")  # lines also end after / and | in names
    return wrapper.wrap(cell) or [""]
