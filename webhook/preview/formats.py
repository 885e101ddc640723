"""Previews as people, tools and pipelines read them: what ``-o`` takes, here and over HTTP."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final
from xml.etree.ElementTree import SubElement

from common.junit import as_xml, testcase
from common.texts import WIDTH, printable
from webhook.documents import dump_yaml
from webhook.preview.cases import FAILURES, Case
from webhook.preview.lines import unified
from webhook.preview.pods import told
from webhook.preview.report import document
from webhook.preview.run import Preview
from webhook.preview.sentence import headline, totals
from webhook.preview.why import as_why

AFTER = "after ultraserver-webhook"

COMMANDS: Final = {**dict.fromkeys(FAILURES, "error"), "changed": "notice"}
"""GitHub's commands, by what a finding is about; anything else is a warning."""


def as_diff(previews: Iterable[Preview], rows: Callable[[Preview], str] = lambda _: "") -> str:
    """The sentence on every document and a unified diff of its YAML; then how many have each verdict.

    Of what is in shadow there is a diff of its own; the rows of a document come before its diff.
    """
    items = list(previews)
    texts = [f"{headline(item)}\n{rows(item)}{''.join(_diffs(item))}" for item in items]
    return "".join([*texts, f"{totals(items)}\n" if len(items) > 1 else ""])


def _diffs(item: Preview) -> Iterator[str]:
    after, title = item.outcome.after, printable(f"{item.source} ({item.title})")
    yield _cut(unified(item.object, after, title, AFTER))
    if item.outcome.would:
        enforced = unified(
            after, item.outcome.would.after, f"{title} {AFTER}", "if what is in shadow were enforced"
        )
        yield _cut(enforced)
    for pod, like in told(item.pods or ()):
        yield from () if like else _diffs(pod)


def _cut(diff: str) -> str:
    """A diff with lines of at most `WIDTH` columns below its head; an ellipsis ends those that are cut."""
    lines = diff.splitlines()
    cut = [line if len(line) <= WIDTH else f"{line[: WIDTH - 1]}…" for line in lines[2:]]
    return "".join(f"{line}\n" for line in (*lines[:2], *cut))


def as_yaml(previews: Iterable[Preview]) -> str:
    """Every document as it would be stored, in one stream; each Pod below a comment that says which it is."""
    parts = (part for item in previews for part in item.parts)
    said = ((f"# {printable(part.title)}\n" if part.share else "", part.outcome.after) for part in parts)
    return "---\n".join(comment + dump_yaml(after) for comment, after in said)


def as_json(previews: Iterable[Preview]) -> str:
    """Everything about every document, as ``preview.schema.json`` describes it."""
    return json.dumps(document(previews), indent=2) + "\n"


def as_patch(previews: Iterable[Preview]) -> str:
    """The RFC 6902 patch of each document, one JSON list a line."""
    return "".join(json.dumps(list(item.outcome.operations)) + "\n" for item in previews)


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


FORMATS: Final[Mapping[str, Callable[[Iterable[Preview]], str]]] = {
    "diff": as_diff,
    "yaml": as_yaml,
    "json": as_json,
    "why": as_why,
    "patch": as_patch,
}
"""What a preview is shown as."""

WITHOUT_PODS: Final = frozenset({"patch"})
"""Formats that have no place for the Pods of a job."""

PIPELINES: Final[Mapping[str, Callable[[Sequence[Case]], str]]] = {
    "github": as_annotations,
    "junit": as_junit,
}
"""What ``-o`` takes as well."""
