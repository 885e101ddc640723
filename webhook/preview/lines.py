"""Compares two objects as YAML: as a unified diff, and as lines with the rule that set each added line."""

import re
from bisect import bisect_left
from collections.abc import Callable, Iterator
from difflib import unified_diff
from typing import Final

from common.pointers import parse_pointer, with_positions
from webhook.documents import dump_yaml, read_documents
from webhook.objects.tree import Json, digest
from webhook.preview import messages
from webhook.preview.report import Preview

MAX_TEXT_LINES: Final = 20
"""Maximum number of lines of a text in a diff; longer texts are abridged."""
MAX_LINES: Final = 20_000
"""Maximum number of lines of an object in a diff. A diff of this size takes half a second."""


def diff_as_yaml(before: Json, after: Json, source: str = "", target: str = "") -> str:
    """Returns a unified diff of two objects as YAML with abridged texts; empty if they are equal."""
    return _diff_texts(dump_yaml(abridged(before)), dump_yaml(abridged(after)), source, target)


def _diff_texts(before: str, after: str, source: str = "", target: str = "") -> str:
    old, new = (text.splitlines(keepends=True) for text in (before, after))
    if old != new and max(len(old), len(new)) > MAX_LINES:
        return f"--- {source}\n+++ {target}\n@@ -1 +1 @@ {messages.not_compared(len(new), MAX_LINES)}\n"
    return "".join(unified_diff(old, new, source, target))


def diff_lines(item: Preview) -> Iterator[tuple[str, str, str]]:
    """Yields the sign and the text of each line of an object's diff, and the rule that set the line.

    The sign is ``+``, ``-``, a space, or ``@`` for omitted lines. The rule is empty for a line without ``+``.
    """
    before, after = (dump_yaml(abridged(obj)) for obj in (item.run.object, item.run.outcome.after))
    rule_of_line, number = _rule_of_line(item, after), 0
    for text in _diff_texts(before, after).splitlines()[2:]:
        if header := re.match(r"@@ -\S+ \+(\d+)\S* @@ ?(.*)", text):
            number = int(header[1])
            yield "@", header[2] or f"line {number}", ""
            continue
        yield text[0], text[1:], rule_of_line(number) if text[0] == "+" else ""
        number += text[0] != "-"


def abridged(value: Json) -> Json:
    """Returns a value in which a long text has only its first line, and a digest of the whole text.

    A script of 300 lines would hide the changes; ``-o yaml`` has the whole text.
    """
    if isinstance(value, dict):
        return {key: abridged(item) for key, item in value.items()}
    if isinstance(value, list):
        return [abridged(item) for item in value]
    if not isinstance(value, str) or value.count("\n") <= MAX_TEXT_LINES:
        return value
    first, _, rest = value.partition("\n")
    return f"{first}\n{messages.more_lines(rest.count(chr(10)), digest(value))}\n"


def _rule_of_line(item: Preview, text: str) -> Callable[[int], str]:
    """Returns a function from a line number to the rule of the first change that ends there or later."""
    (document,) = read_documents(text, "after")
    ends_with_rules: list[tuple[int, str]] = []
    for change in (change for change in item.report["changes"] if change["after"] is not None):
        after, path = change["after"], with_positions(parse_pointer(change["path"]))
        # The value is dumped in a list, because YAML ends a bare scalar with a line `...`.
        length = len(dump_yaml([abridged(after)]).splitlines())
        # A map or list begins on the line below its key, but an item of a list on the line of its dash.
        is_below = isinstance(after, dict | list) and after and not isinstance(path[-1], int)
        rule = change["rule"]["name"] if change["rule"] else "the webhook itself"
        ends_with_rules.append((document.line_of(path) + length - (not is_below), rule))
    ends_with_rules.sort()
    ends, rules = [end for end, _ in ends_with_rules], [*(rule for _, rule in ends_with_rules), ""]
    return lambda line: rules[bisect_left(ends, line)]
