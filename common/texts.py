"""Texts that any user may have written, for terminals, logs and Events."""

import difflib
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import zip_longest
from textwrap import TextWrapper, fill
from typing import Final

WIDTH: Final = 100
"""Width of a line for people, in characters."""
NARROWEST: Final = 10
"""Minimum width of a column, in characters."""

CLOSE: Final = 0.83
"""Minimum similarity of a name and its misspelling; `minReplicas` and `maxReplicas` are less similar."""

LONGEST_MESSAGE: Final = 1000
"""Maximum length of a warning, a denial or a reason; a longer quotation of an object is of no use."""

LONGEST_NAME: Final = 200
"""Maximum length of a name for which a similar known name is looked for."""


def printable(text: str, longest: int = 0) -> str:
    """Returns the text with Python's escapes for all characters that are not printable.

    Escape sequences, line ends and characters that change the direction of writing then have no effect.

    Args:
        text: Text that any user may have written.
        longest: Maximum length, with an ellipsis as the last character if there was more; 0 keeps all.
    """
    result = text[: longest + 1] if longest else text
    if not result.isprintable():
        result = "".join(
            one if one.isprintable() else one.encode("unicode_escape").decode() for one in result
        )
    return f"{result[: longest - 1]}…" if 0 < longest < len(result) else result


def cut(message: str) -> str:
    """Returns a message, which may quote any text of an object, as one printable line of limited length.

    The beginning, which names the subject, and the end, which says what to do, stay.
    """
    if len(message) > LONGEST_MESSAGE:
        half = LONGEST_MESSAGE // 2
        message = f"{message[: half - 2]} … {message[1 - half :]}"
    return printable(" ".join(message.splitlines()), LONGEST_MESSAGE)


def join_names(names: Sequence[str], maximum: int) -> str:
    """Returns names as one text, with at most ``most`` of them: ``a, b and 3 more``."""
    more = len(names) - maximum
    return ", ".join(names[:maximum]) + (f" and {more} more" if more > 0 else "")


def counted(number: int, noun: str) -> str:
    """Returns a number of things: ``1 worker`` or ``2 workers``."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def folded(text: str, first: str = "") -> str:
    """Returns a text after the first words of its line, in lines of at most `WIDTH`, indented alike."""
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
    """Returns the known name of which the word is a misspelling, in case, order or a letter or two."""
    if len(word) > LONGEST_NAME:
        return None
    by_case, lower = {name.lower(): name for name in known}, word.lower()
    other_order = (each for each in by_case if sorted(each) == sorted(lower))
    close = (*other_order, *difflib.get_close_matches(lower, by_case, n=1, cutoff=CLOSE))
    return by_case[close[0]] if close else None


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Returns the end of a message about an unknown name: the most similar known one, or an empty text."""
    close = difflib.get_close_matches(name, known, n=1)
    return f"; did you mean {close[0]!r}?" if close else ""


def columns(rows: Sequence[Sequence[str]], width: int = 0) -> Iterator[str]:
    """Yields a line for each row, in columns; with a width, all cells except the first are wrapped to fit."""
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
