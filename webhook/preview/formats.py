"""Previews in the formats of ``-o``, which HTTP has as well: for people, tools and CI."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple
from xml.etree.ElementTree import SubElement

from common.junit import as_xml, testcase
from common.texts import printable
from webhook.documents import dump_yaml
from webhook.preview.report import Preview
from webhook.preview.text import as_text, as_why

FAILURES: Final = ("unreadable", "refused", "not placed")
"""The subjects of findings that fail a case; others are "warning", "hint", "note" and "change"."""

COMMANDS: Final = {**dict.fromkeys(FAILURES, "error"), "change": "notice"}
"""GitHub's commands, by the subject of a finding; others are warnings."""


def as_yaml(previews: Iterable[Preview]) -> str:
    """Returns every document as it would be stored, in one stream, each Pod below a comment that names it."""
    parts = (part for item in previews for part in item.parts)
    texts = (
        f"# {printable(part.seen.title)}\n" * bool(part.seen.share) + dump_yaml(part.seen.outcome.after)
        for part in parts
    )
    return "---\n".join(texts)


def as_json(previews: Iterable[Preview]) -> str:
    """Returns all reports, as ``preview.schema.json`` describes them."""
    kind = {"apiVersion": "ultraserver-webhook.io/v1alpha1", "kind": "Preview"}
    items = [preview.item | {"received": preview.seen.object} for preview in previews]
    return json.dumps(kind | {"items": items}, indent=2) + "\n"


def as_patch(previews: Iterable[Preview]) -> str:
    """Returns the RFC 6902 patch of each document, one JSON list a line."""
    return "".join(json.dumps(preview.item["patch"]) + "\n" for preview in previews)


class Finding(NamedTuple):
    """A message, its line, and its subject."""

    about: str
    line: int
    text: str


class Case(NamedTuple):
    """A document, or a file that cannot be read; ``skipped`` says why a document is not a candidate."""

    file: str
    line: int
    title: str
    findings: list[Finding]
    skipped: str = ""

    def about(self, *about: str) -> list[Finding]:
        """Returns the findings about one of these subjects."""
        return [finding for finding in self.findings if finding.about in about]


def case_of(shown: Preview, *, must_place: bool) -> Case:
    """Returns the case of a document; with ``must_place`` one that is not placed fails."""
    item, (file, line) = shown.item, shown.item["source"].values()
    barred = item["job"] and item["verdict"] == "not placed" and not item["shadow"]
    placed = item["denials"] or (item["job"] and not barred)
    skipped = item["sentence"] if barred else f"not a candidate: {item['reason']}"
    findings = [Finding("not placed", line, skipped)] if must_place and not placed else []
    for part in shown.parts:
        pod = f"Pod {part.seen.share}: " if part.seen.share else ""
        findings += [Finding(about, part.line_of(text), f"{pod}{text}") for about, text in part.texts]
    findings += [Finding("change", line, item["sentence"])] if item["patch"] else []
    return Case(file, line, shown.seen.title, findings, "" if placed or item["patch"] else item["reason"])


def unreadable(file: str, line: int, text: str) -> Case:
    """Returns the case of a file that cannot be read."""
    return Case(file, line, "cannot be read", [Finding("unreadable", line, text)])


def as_annotations(cases: Sequence[Case]) -> str:
    """Returns a command of GitHub's for each finding, on its own line.

    The runner looks for commands in every line, so users' texts are escaped and inside of one.
    """
    return "".join(
        f"::{COMMANDS.get(about, 'warning')} file={_escaped(case.file, ':,')},line={line},"
        f"title={_escaped(case.title, ':,')}::{_escaped(text)}\n"
        for case in cases
        for about, line, text in case.findings
    )


def _escaped(text: str, more: str = "") -> str:
    for sign in f"%\r\n{more}":
        text = text.replace(sign, f"%{ord(sign):02X}")
    return printable(text)


def as_junit(cases: Sequence[Case]) -> str:
    """Returns a test case for each document: failed, in error, skipped as no candidate, or passed."""
    tests = [testcase(case.file, case.line, case.title) for case in cases]
    for test, case in zip(tests, cases, strict=True):
        if failures := case.about(*FAILURES):
            name = "error" if failures[0].about == "unreadable" else "failure"
            SubElement(test, name, type=failures[0].about, message=printable(failures[0].text))
        elif case.skipped:
            SubElement(test, "skipped", message=printable(case.skipped))
        if case.findings:
            lines = (f"{case.file}:{line}: {about}: {text}" for about, line, text in case.findings)
            SubElement(test, "system-out").text = "\n".join(map(printable, lines))
    return as_xml("ultraserver-webhook preview", tests)


FORMATS: Final[Mapping[str, Callable[[Iterable[Preview]], str]]] = {
    "diff": as_text,
    "yaml": as_yaml,
    "json": as_json,
    "why": as_why,
    "patch": as_patch,
}
"""The formats of a preview."""

WITHOUT_PODS: Final = frozenset({"patch"})
"""Formats without the Pods of a job."""

PIPELINES: Final[Mapping[str, Callable[[Sequence[Case]], str]]] = {
    "github": as_annotations,
    "junit": as_junit,
}
"""Formats for CI, which ``-o`` accepts in addition to `FORMATS`."""
