"""Previews as pipelines read them: annotations of a GitHub workflow, and JUnit's XML."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final
from xml.etree.ElementTree import SubElement

from common.junit import as_xml, testcase
from common.texts import printable
from webhook.preview.cases import FAILURES, Case

COMMANDS: Final = {**dict.fromkeys(FAILURES, "error"), "changed": "notice"}
"""GitHub's commands, by what a finding is about; anything else is a warning."""


def as_annotations(cases: Sequence[Case]) -> str:
    """A command of GitHub's for each finding, on a line of its own.

    The runner looks for commands in every line, so what somebody wrote stands inside of one, escaped.
    """
    return "".join(
        f"::{COMMANDS.get(found.about, 'warning')} file={_escaped(case.file, ':,')},line={found.line},"
        f"title={_escaped(case.title, ':,')}::{_escaped(found.text)}\n"
        for case in cases
        for found in case.findings
    )


def _escaped(text: str, more: str = "") -> str:
    for sign in f"%\r\n{more}":
        text = text.replace(sign, f"%{ord(sign):02X}")
    return printable(text)


def as_junit(cases: Sequence[Case]) -> str:
    """A test case for each document: failed, in error, skipped as no candidate, or passed."""
    tests = []
    for case in cases:
        test = testcase(case.file, case.line, case.title)
        tests.append(test)
        said = [
            f"{printable(case.file)}:{found.line}: {found.about}: {printable(found.text)}"
            for found in case.findings
        ]
        if failures := case.about(*FAILURES):
            name = "error" if failures[0].about == "unreadable" else "failure"
            SubElement(test, name, type=failures[0].about, message=printable(failures[0].text))
        elif case.skipped:
            SubElement(test, "skipped", message=printable(case.skipped))
        if said:
            SubElement(test, "system-out").text = "\n".join(said)
    return as_xml("ultraserver-webhook preview", tests)


PIPELINES: Final[Mapping[str, Callable[[Sequence[Case]], str]]] = {
    "github": as_annotations,
    "junit": as_junit,
}
"""What ``-o`` takes beside `webhook.preview.run.FORMATS`."""
