"""What of a preview is to be looked at: a case for each document, and its findings, each with its line."""

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from common.pointers import numbered
from webhook.documents import Document
from webhook.preview.run import Preview
from webhook.preview.sentence import sentence

FAILURES: Final = ("unreadable", "refused", "not placed")
"""What a finding is about that fails a pipeline; others are about "warning", "hint", "note" and "changed"."""

_PLACE: Final = re.compile(r"(?<!\S)/([^\s;,]+)")


class Finding(NamedTuple):
    """A message, where it belongs, and what it is about."""

    about: str
    line: int
    text: str


class Case(NamedTuple):
    """A document, or a file that cannot be read; ``skipped`` says why a document is not a candidate."""

    file: str
    line: int
    title: str
    findings: tuple[Finding, ...]
    skipped: str = ""

    def about(self, *about: str) -> list[Finding]:
        """The findings about one of these."""
        return [found for found in self.findings if found.about in about]


def case_of(document: Document, shown: Preview, *, must_place: bool) -> Case:
    """The case of a document, Lists opened; with ``must_place`` one that is not a candidate fails."""
    # Of a candidate whose workers take nodes the engine tells the shape.
    placed = "shape" in shown.outcome.facts or shown.outcome.denials
    found = tuple(_findings(document, shown, must_place=must_place and not placed))
    skipped = "" if placed or shown.outcome.operations else shown.outcome.reason
    return Case(document.source, document.line, shown.title, found, skipped)


def unreadable(file: str, line: int, text: str) -> Case:
    """The case of a file of which nothing is shown."""
    return Case(file, line, "cannot be read", (Finding("unreadable", line, text),))


def _findings(document: Document, shown: Preview, *, must_place: bool) -> Iterator[Finding]:
    outcome = shown.outcome
    if must_place:
        yield Finding("not placed", document.line, f"not a candidate: {outcome.reason}")
    for about, messages in (("refused", outcome.denials), ("warning", outcome.warnings)):
        yield from (Finding(about, _line(document, text), text) for text in messages)
    for pod in shown.parts[1:]:
        for about, messages in (("refused", pod.outcome.denials), ("warning", pod.outcome.warnings)):
            yield from (Finding(about, document.line, f"Pod {pod.share}: {text}") for text in messages)
    yield from (Finding("hint", *hint) for hint in shown.hints)
    yield from (Finding("note", document.line, note) for note in shown.notes)
    if shown.outcome.operations:
        yield Finding("changed", document.line, sentence(shown))


def _line(document: Document, text: str) -> int:
    """The line of the place that a message names, of which the last key may hold ``/``."""
    place = _PLACE.search(text)
    parts = place[1].rstrip(":").split("/") if place else []
    steps = numbered(parts)
    ends = ((*steps[:at], "/".join(parts[at:]).replace("~1", "/")) for at in range(len(parts)))
    return max([document.line, *map(document.line_of, ends)])
