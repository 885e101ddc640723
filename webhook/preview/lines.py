"""The diff of an object as YAML: as text, and line by line with the rule that set each added line."""

import re
from bisect import bisect_left
from collections.abc import Callable, Iterator
from difflib import unified_diff
from typing import Final

from common.pointers import numbered, parse_pointer
from webhook.documents import dump_yaml, read_documents
from webhook.objects.tree import Json, digest
from webhook.preview.report import Preview

LINES: Final = 20
"""Maximum number of lines of a text in a diff; longer ones are cut."""
MOST: Final = 20_000
"""Maximum number of lines that are compared: the time grows with their square, to half a second for these."""


def unified(before: Json, after: Json, source: str = "", target: str = "") -> str:
    """Returns a unified diff of two objects as YAML, long texts abridged; empty if they are equal."""
    return _unified(dump_yaml(abridged(before)), dump_yaml(abridged(after)), source, target)


def _unified(before: str, after: str, source: str = "", target: str = "") -> str:
    old, new = (text.splitlines(keepends=True) for text in (before, after))
    if old != new and max(len(old), len(new)) > MOST:
        why = f"{len(new)} lines, of which {MOST} are compared at most: -o yaml shows them"
        return f"--- {source}\n+++ {target}\n@@ -1 +1 @@ {why}\n"
    return "".join(unified_diff(old, new, source, target))


def diff_lines(item: Preview) -> Iterator[tuple[str, str, str]]:
    """Yields each line of an object's diff: sign, text and the rule that set it; nothing without a change.

    The sign is ``+``, ``-``, a space, or ``@`` for omitted lines; the rule is empty if no rule set the line.
    """
    before, after = (dump_yaml(abridged(obj)) for obj in (item.seen.object, item.seen.outcome.after))
    rules, at = _rules(item, after), 0
    for text in _unified(before, after).splitlines()[2:]:
        if place := re.match(r"@@ -\S+ \+(\d+)\S* @@ ?(.*)", text):
            at = int(place[1])
            yield "@", place[2] or f"line {at}", ""
            continue
        yield text[0], text[1:], rules(at) if text[0] == "+" else ""
        at += text[0] != "-"


def abridged(value: Json) -> Json:
    """Returns a value with long texts cut; a digest distinguishes two such texts.

    A script of 300 lines does not answer "what would be changed"; ``-o yaml`` has all of it.
    """
    if isinstance(value, dict):
        return {key: abridged(item) for key, item in value.items()}
    if isinstance(value, list):
        return [abridged(item) for item in value]
    if not isinstance(value, str) or value.count("\n") <= LINES:
        return value
    first, _, rest = value.partition("\n")
    return f"{first}\n... {rest.count(chr(10))} more lines ({digest(value)}), -o yaml shows them\n"


def _rules(item: Preview, stored: str) -> Callable[[int], str]:
    """Returns a function that returns the rule of a line: of its change, or else of the next one."""
    (document,) = read_documents(stored, "after")
    spans: list[tuple[int, str]] = []
    for change in (change for change in item.item["changes"] if change["after"] is not None):
        after, path = change["after"], numbered(parse_pointer(change["path"]))
        length = len(dump_yaml([abridged(after)]).splitlines())  # a text of its own has a line with dots
        # A map or list below a key begins on the line after it, but an item on the line of its dash.
        below = isinstance(after, dict | list) and after and not isinstance(path[-1], int)
        setter = change["rule"]["name"] if change["rule"] else "the webhook's own record"
        spans.append((document.line_of(path) + length - (not below), setter))
    spans.sort()
    ends, setters = [end for end, _ in spans], [*(setter for _, setter in spans), ""]
    return lambda line: setters[bisect_left(ends, line)]
