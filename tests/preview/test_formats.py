"""Tests of previews for pipelines: annotations of GitHub workflows, JUnit XML, and exit statuses."""

import re
from pathlib import Path
from typing import Any
from urllib.parse import unquote
from xml.etree.ElementTree import Element, fromstring

import pytest
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st

from common.texts import printable
from testbed.mpijob import mpijob
from tests.helpers import unfold
from tests.rules.tables import EXTENDS
from webhook.cli import main
from webhook.documents import dump_yaml
from webhook.engine import Request, evaluate
from webhook.preview import messages
from webhook.preview.formats import PIPELINES, Case, Finding
from webhook.rules.load import load_installed

HOSTILE = "x%0A\r\n::stop-commands::,file=b: ##[add-mask]\x1b]0;\u202e\x00\u0085::error::]]><&\ufffe\ud800"
ANY = st.text(st.characters(codec=None), max_size=20) | st.just(HOSTILE)
CASES = st.builds(
    lambda *texts: Case(texts[0], 7, texts[1], [Finding(texts[2], 9, texts[3])], texts[4]),
    *(ANY, ANY, st.sampled_from(["refused", "unreadable", "warning", "change"]), ANY, ANY),
)
NO_CANDIDATE = mpijob(resource=None)
DENIED = mpijob(annotations={"ultraserver-webhook.io/node-config": "3"})
OPTED_OUT = mpijob(annotations={"ultraserver-webhook.io/inject": "false"})
CONFIG_MAP = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}}


def run(folder: Path, text: str, *words: str) -> Result:
    """Returns the result of the preview of a file with this text."""
    (folder / "job.yaml").write_text(text, encoding="utf-8")
    arguments = ["preview", str(folder / "job.yaml"), *words]
    return CliRunner().invoke(main, arguments, catch_exceptions=False)


def parse_command(line: str) -> tuple[str, dict[str, str], str]:
    """Returns command, properties and message of a line, parsed as GitHub's runner does."""
    match = re.fullmatch(r"::([a-z]+) (.*?)::(.*)", line, re.DOTALL)
    assert match, line
    properties = dict(field.split("=", 1) for field in match[2].split(","))
    return match[1], {key: unquote(value) for key, value in properties.items()}, unquote(match[3])


def parse_report(report: str) -> Element:
    """Returns the root element of a JUnit report."""
    return fromstring(report)  # noqa: S314 - the report is from the product


@given(CASES)
def test_text_of_a_user_reaches_the_runner_but_adds_no_command(case: Case) -> None:
    """Protects workflows from commands in the text of a job: each finding is one line with one command."""
    text = PIPELINES["github"]([case])
    (line,) = re.split(r"[\r\n\x85\u2028\u2029]", text.removesuffix("\n"))
    command, properties, message = parse_command(line)
    assert command == {"warning": "warning", "change": "notice"}.get(case.findings[0].kind, "error")
    expected = {"file": case.file, "line": "9", "title": case.title, "message": case.findings[0].text}
    actual = {**properties, "message": message}
    assert {key: printable(actual[key]) for key in actual} == {
        key: printable(expected[key]) for key in expected
    }


def test_line_ends_and_percent_signs_are_escaped_as_github_documents() -> None:
    """Protects the line breaks of messages, and unusual names of files and jobs."""
    case = Case("a:b", 1, "a,b", [Finding("warning", 2, "a\r\nb%0A:,")])
    assert PIPELINES["github"]([case]) == "::warning file=a%3Ab,line=2,title=a%2Cb::a%0D%0Ab%250A:,\n"


@given(CASES)
def test_junit_stays_well_formed_with_any_text(case: Case) -> None:
    """Protects programs that parse reports from control characters, surrogates and markup in names."""
    (suite,) = parse_report(PIPELINES["junit"]([case]))
    (test,) = suite
    assert (test.attrib["name"], test.attrib["file"]) == (printable(case.title), printable(case.file))
    assert printable(case.findings[0].text) in (test.findtext("system-out") or "")


def test_a_refusal_is_reported_once_with_the_line_of_the_field(tmp_path: Path) -> None:
    """The key of the field has a slash. The runner also reads standard error, which must be empty."""
    text = dump_yaml(DENIED)
    (number,) = (number for number, line in enumerate(text.splitlines(), 1) if "/node-config" in line)
    result = run(tmp_path, text, "-o", "github")
    assert (result.exit_code, result.stderr) == (2, "")
    assert result.stdout.startswith(
        f"::error file={tmp_path}/job.yaml,line={number},title=MPIJob default/train::"
    )


@pytest.mark.parametrize(
    ("output_format", "sign"), [("github", "::error file={},line={},"), ("junit", '<error type="')]
)
@pytest.mark.parametrize(("text", "line"), [("a: [\n", 2), ("\nhello\n", 2), ("# nothing\n", 1)])
def test_unreadable_documents_are_reported_in_the_requested_format(
    tmp_path: Path, output_format: str, sign: str, text: str, line: int
) -> None:
    """Protects users of reports: an unreadable document is in the report, and not only on standard error."""
    result = run(tmp_path, text, "-o", output_format)
    assert (result.exit_code, result.stderr) == (2, "")
    assert sign.format(tmp_path / "job.yaml", line) in result.stdout


def test_each_problem_of_a_wrong_table_is_an_annotation_with_its_line(tmp_path: Path) -> None:
    table = tmp_path / "rules.yaml"
    table.write_text(EXTENDS + "valeus: {}\nrules: [{name: X}]\n")
    output = run(tmp_path, dump_yaml(NO_CANDIDATE), "-o", "github", "--rules", str(table)).stdout.splitlines()
    assert [parse_command(line)[1]["line"] for line in output] == ["4", "5"]


OBJECTS = {
    "changed": ([mpijob()], 1, 1),
    "a stored job": ([evaluate(load_installed(), Request(mpijob())).after], 0, 0),
    "another kind": ([CONFIG_MAP], 0, 2),
    "not a candidate": ([NO_CANDIDATE], 0, 2),
    "opted out": ([OPTED_OUT], 0, 2),
    "one of two": ([mpijob(), NO_CANDIDATE], 1, 2),
    "in a List": ([{"apiVersion": "v1", "kind": "List", "items": [mpijob(), CONFIG_MAP]}], 1, 2),
    "refused": ([DENIED], 2, 2),
    "no object": ([], 2, 2),
}


@pytest.mark.parametrize("output_format", ["diff", "json", "github", "junit"])
@pytest.mark.parametrize(("objects", "code", "code_with_must_place"), OBJECTS.values(), ids=OBJECTS)
def test_must_place_fails_for_every_object_that_is_not_a_candidate(
    tmp_path: Path, objects: list[Any], code: int, code_with_must_place: int, output_format: str
) -> None:
    """Protects users from a pipeline that passes although it checked no job."""
    text = "---\n".join(map(dump_yaml, objects))
    assert run(tmp_path, text, "-o", output_format).exit_code == code
    result = run(tmp_path, text, "-o", output_format, "--must-place")
    assert result.exit_code == code_with_must_place
    assert (messages.not_a_candidate("") in result.output) == (code < code_with_must_place)


@pytest.mark.parametrize(
    ("obj", "text"),
    [
        (
            mpijob(namespace="kube-system"),
            messages.not_a_candidate(messages.not_called("kube-system")),
        ),
        (
            mpijob(worker_spec={"nodeSelector": {"kubernetes.io/arch": "arm64"}}),
            f"not placed: {messages.no_node('')}",
        ),
    ],
)
def test_must_place_fails_a_candidate_that_is_never_placed(tmp_path: Path, obj: Any, text: str) -> None:
    """Protects users from a pipeline that passes a job which is never placed."""
    result = run(tmp_path, dump_yaml(obj), "-o", "json", "--must-place")
    assert result.exit_code == 2
    assert f"  failed   {text}".rstrip() in unfold(result.stderr)


def test_a_document_that_the_webhook_ignores_is_skipped_in_a_report(tmp_path: Path) -> None:
    """Protects the number of passed documents in a report from documents that were not checked."""
    (suite,) = parse_report(
        run(tmp_path, "---\n".join(map(dump_yaml, [CONFIG_MAP, mpijob(), OPTED_OUT])), "-o", "junit").stdout
    )
    assert [suite.get(key) for key in ("tests", "failures", "errors", "skipped")] == ["3", "0", "0", "2"]
    assert [case.find("skipped") is not None for case in suite] == [True, False, True]
