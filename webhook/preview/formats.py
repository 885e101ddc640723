"""Writes previews in the formats of ``-o`` and of HTTP: for people, for programs and for CI."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple
from xml.etree.ElementTree import SubElement

from common.junit import as_xml, testcase
from common.texts import printable
from webhook.documents import dump_yaml
from webhook.preview import messages
from webhook.preview.report import Preview
from webhook.preview.text import as_text, as_why

FAILURES: Final = ("unreadable", "refused", "not placed")
"""The kinds of findings that fail a case; the other kinds are "warning", "hint", "note" and "change"."""

COMMANDS: Final = {**dict.fromkeys(FAILURES, "error"), "change": "notice"}
"""GitHub's workflow command by the kind of finding. For all other kinds, the command is ``warning``."""


def as_yaml(previews: Iterable[Preview]) -> str:
    """Returns the objects with the webhook's changes as YAML documents. A comment names the Pods of a job."""
    parts = (part for item in previews for part in item.parts)
    texts = (
        f"# {printable(part.run.title)}\n" * bool(part.run.share) + dump_yaml(part.run.outcome.after)
        for part in parts
    )
    return "---\n".join(texts)


def as_json(previews: Iterable[Preview]) -> str:
    """Returns all reports, as ``openapi.yaml`` describes them."""
    kind = {"apiVersion": "ultraserver-webhook.io/v1alpha1", "kind": "Preview"}
    items = [preview.report | {"received": preview.run.object} for preview in previews]
    return json.dumps(kind | {"items": items}, indent=2) + "\n"


def as_patch(previews: Iterable[Preview]) -> str:
    """Returns the JSON Patch (RFC 6902) of each object, each as a JSON list on one line."""
    return "".join(json.dumps(preview.report["patch"]) + "\n" for preview in previews)


class Finding(NamedTuple):
    """A message with its kind, such as "warning", and the line that it is about."""

    kind: str
    line: int
    text: str


class Case(NamedTuple):
    """The findings about a document or file; ``skip_reason`` is why the webhook ignores the document."""

    file: str
    line: int
    title: str
    findings: list[Finding]
    skip_reason: str = ""

    def findings_of(self, *kinds: str) -> list[Finding]:
        """Returns the findings of these kinds."""
        return [finding for finding in self.findings if finding.kind in kinds]


def case_of(preview: Preview, *, must_place: bool) -> Case:
    """Returns a document's case. A refused document always fails.

    With ``must_place``, a document that is not placed fails, too, except a job in shadow mode.
    """
    report, (file, line) = preview.report, preview.report["source"].values()
    is_job_not_placed = report["job"] and report["verdict"] == "not placed" and not report["shadow"]
    is_refused_or_placed = report["denials"] or (report["job"] and not is_job_not_placed)
    reason = report["sentence"] if is_job_not_placed else messages.not_a_candidate(report["reason"])
    findings = [Finding("not placed", line, reason)] if must_place and not is_refused_or_placed else []
    for part in preview.parts:
        prefix = f"Pod {part.run.share}: " if part.run.share else ""
        findings += [Finding(kind, part.line_of(text), f"{prefix}{text}") for kind, text in part.texts]
    findings += [Finding("change", line, report["sentence"])] if report["patch"] else []
    skip_reason = "" if is_refused_or_placed or report["patch"] else report["reason"]
    return Case(file, line, preview.run.title, findings, skip_reason)


def unreadable_case(file: str, line: int, text: str) -> Case:
    """Returns the case of a file that cannot be read."""
    return Case(file, line, "cannot be read", [Finding("unreadable", line, text)])


def as_annotations(cases: Sequence[Case]) -> str:
    """Returns a workflow command of GitHub for each finding, each on its own line.

    GitHub reads commands from every line, so the texts of users are escaped and never begin a line.
    """
    return "".join(
        f"::{COMMANDS.get(kind, 'warning')} file={_escape(case.file, ':,')},line={line},"
        f"title={_escape(case.title, ':,')}::{_escape(text)}\n"
        for case in cases
        for kind, line, text in case.findings
    )


def _escape(text: str, more_characters: str = "") -> str:
    for character in f"%\r\n{more_characters}":
        text = text.replace(character, f"%{ord(character):02X}")
    return printable(text)


def as_junit(cases: Sequence[Case]) -> str:
    """Returns a JUnit report. A case with a ``skip_reason`` and without failures is a skipped test."""
    tests = [testcase(case.file, case.line, case.title) for case in cases]
    for test, case in zip(tests, cases, strict=True):
        if failures := case.findings_of(*FAILURES):
            name = "error" if failures[0].kind == "unreadable" else "failure"
            SubElement(test, name, type=failures[0].kind, message=printable(failures[0].text))
        elif case.skip_reason:
            SubElement(test, "skipped", message=printable(case.skip_reason))
        if case.findings:
            lines = (f"{case.file}:{line}: {kind}: {text}" for kind, line, text in case.findings)
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
"""The formats that do not show the Pods of a job."""

PIPELINES: Final[Mapping[str, Callable[[Sequence[Case]], str]]] = {
    "github": as_annotations,
    "junit": as_junit,
}
"""The formats for CI, which ``-o`` accepts in addition to `FORMATS`."""
