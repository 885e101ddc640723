"""A diff line by line, each added line with the rule that set it."""

from bisect import bisect_left
from collections.abc import Callable, Iterator
from difflib import SequenceMatcher
from typing import Final, NamedTuple

from common.pointers import parse_pointer
from webhook.documents import dump_yaml, read_documents
from webhook.preview.run import Preview, abridged

CONTEXT: Final = 3
"""Unchanged lines around what is changed."""


class Line(NamedTuple):
    """One line of a diff.

    Attributes:
        sign: ``+``, ``-``, a space, or ``@`` for lines that are left out.
        text: the line.
        rule: that set it; empty where none did.
    """

    sign: str
    text: str
    rule: str = ""


def diff_lines(item: Preview) -> Iterator[Line]:
    """Yields the diff of an object as YAML; nothing where it is not changed."""
    texts = [dump_yaml(abridged(value)) for value in (item.object, item.outcome.after)]
    before, after = (text.splitlines() for text in texts)
    rules = _rules(item, texts[1])
    for group in SequenceMatcher(None, before, after).get_grouped_opcodes(CONTEXT):
        yield Line("@", f"line {group[0][3] + 1}")
        for tag, old, old_end, new, new_end in group:
            if tag == "equal":
                yield from (Line(" ", text) for text in after[new:new_end])
                continue
            yield from (Line("-", text) for text in before[old:old_end])
            yield from (Line("+", after[at], rules(at + 1)) for at in range(new, new_end))


def _rules(item: Preview, after: str) -> Callable[[int], str]:
    """Returns what gives the rule of a line afterwards: of the change there, or else of the next one."""
    (document,) = read_documents(after, "after")
    spans = []
    for change in item.changes:
        if change.after is not None:
            path = tuple(int(key) if key.isdecimal() else key for key in parse_pointer(change.path))
            first = document.line_of(path)
            length = len(dump_yaml(abridged(change.after)).splitlines())
            # A map or list below a key begins on the line after it, but an item on the line of its dash.
            below = isinstance(change.after, dict | list) and change.after and not isinstance(path[-1], int)
            spans.append((first + length - (not below), change.rule or "the webhook's own record"))
    spans.sort()
    ends = [end for end, _ in spans]

    def rule(line: int) -> str:
        at = bisect_left(ends, line)
        return spans[at][1] if at < len(spans) else ""

    return rule
