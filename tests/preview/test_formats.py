"""Previews for pipelines: annotations of a GitHub workflow, JUnit's XML, and what makes a pipeline fail."""

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
from tests.rules.tables import EXTENDS
from webhook.cli import main
from webhook.documents import dump_yaml
from webhook.engine import Request, evaluate
from webhook.preview.formats import PIPELINES, Case, Finding
from webhook.rules.load import load_installed

HOSTILE = "x%0A\r\n::stop-commands::,file=b: ##[add-mask]\x1b]0;\u202e\x00\u0085::error::]]><&\ufffe\ud800"
ANY = st.text(st.characters(codec=None), max_size=20) | st.just(HOSTILE)
CASES = st.builds(
    lambda *texts: Case(texts[0], 7, texts[1], [Finding(texts[2], 9, texts[3])], texts[4]),
    *(ANY, ANY, st.sampled_from(["refused", "unreadable", "warning", "change"]), ANY, ANY),
)
PLAIN = mpijob(resource=None)
DENIED = mpijob(annotations={"ultraserver-webhook.io/node-config": "3"})
OUT = mpijob(annotations={"ultraserver-webhook.io/inject": "false"})
MAP = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}}


def run(folder: Path, text: str, *words: str) -> Result:
    """Returns the preview of a file of this text."""
    (folder / "job.yaml").write_text(text, encoding="utf-8")
    arguments = ["preview", str(folder / "job.yaml"), *words]
    return CliRunner().invoke(main, arguments, catch_exceptions=False)


def as_the_runner(line: str) -> tuple[str, dict[str, str], str]:
    """Returns command, properties and message of a line, cut as GitHub's runner cuts it."""
    match = re.fullmatch(r"::([a-z]+) (.*?)::(.*)", line, re.DOTALL)
    assert match, line
    properties = dict(each.split("=", 1) for each in match[2].split(","))
    return match[1], {key: unquote(value) for key, value in properties.items()}, unquote(match[3])


def parsed(report: str) -> Element:
    """Returns the root of a report."""
    return fromstring(report)  # noqa: S314 - ours


@given(CASES)
def test_text_of_a_user_reaches_the_runner_and_runs_no_command(case: Case) -> None:
    """Protects workflows from commands in names: one line a finding, and nothing outside of its command."""
    text = PIPELINES["github"]([case])
    (line,) = re.split(r"[\r\n\x85\u2028\u2029]", text.removesuffix("\n"))
    command, properties, message = as_the_runner(line)
    assert command == {"warning": "warning", "change": "notice"}.get(case.findings[0].kind, "error")
    written = {"file": case.file, "line": "9", "title": case.title, "message": case.findings[0].text}
    states = {**properties, "message": message}
    assert {key: printable(states[key]) for key in states} == {
        key: printable(written[key]) for key in written
    }


def test_line_ends_and_percent_signs_are_escaped_as_github_documents() -> None:
    """Protects a message's lines, and a file's name: what the runner reads is what was written."""
    exact = Case("a:b", 1, "a,b", [Finding("warning", 2, "a\r\nb%0A:,")])
    assert PIPELINES["github"]([exact]) == "::warning file=a%3Ab,line=2,title=a%2Cb::a%0D%0Ab%250A:,\n"


@given(CASES)
def test_junit_stays_well_formed_with_any_text(case: Case) -> None:
    """Protects the parser of a report: control characters, surrogates and markup are text in it."""
    (suite,) = parsed(PIPELINES["junit"]([case]))
    (test,) = suite
    assert (test.attrib["name"], test.attrib["file"]) == (printable(case.title), printable(case.file))
    assert printable(case.findings[0].text) in (test.findtext("system-out") or "")


def test_a_refusal_is_reported_once_with_the_line_of_the_field(tmp_path: Path) -> None:
    """Protects the line of an annotation, here of a key with ``/``; the runner reads standard error, too."""
    text = dump_yaml(DENIED)
    (line,) = (at for at, line in enumerate(text.splitlines(), 1) if "/node-config" in line)
    result = run(tmp_path, text, "-o", "github")
    assert (result.exit_code, result.stderr) == (2, "")
    assert result.stdout.startswith(
        f"::error file={tmp_path}/job.yaml,line={line},title=MPIJob default/train::"
    )


@pytest.mark.parametrize(
    ("form", "sign"), [("github", "::error file={},line={},"), ("junit", '<error type="')]
)
@pytest.mark.parametrize(("text", "line"), [("a: [\n", 2), ("\nhello\n", 2), ("# nothing\n", 1)])
def test_unreadable_documents_are_reported_in_the_same_form(
    tmp_path: Path, form: str, sign: str, text: str, line: int
) -> None:
    """Protects a report from being empty, and the runner from commands in an error."""
    result = run(tmp_path, text, "-o", form)
    assert (result.exit_code, result.stderr) == (2, "")
    assert sign.format(tmp_path / "job.yaml", line) in result.stdout


def test_each_problem_of_a_wrong_table_is_an_annotation(tmp_path: Path) -> None:
    """Protects the file and line of a table's mistakes in a workflow."""
    table = tmp_path / "rules.yaml"
    table.write_text(EXTENDS + "valeus: {}\nrules: [{name: X}]\n")
    output = run(tmp_path, dump_yaml(PLAIN), "-o", "github", "--rules", str(table)).stdout.splitlines()
    assert [as_the_runner(line)[1]["line"] for line in output] == ["4", "5"]


MUST = {
    "changed": ([mpijob()], 1, 1),
    "as it is stored": ([evaluate(load_installed(), Request(mpijob())).after], 0, 0),
    "another kind": ([MAP], 0, 2),
    "no candidate": ([PLAIN], 0, 2),
    "opted out": ([OUT], 0, 2),
    "one of two": ([mpijob(), PLAIN], 1, 2),
    "in a List": ([{"apiVersion": "v1", "kind": "List", "items": [mpijob(), MAP]}], 1, 2),
    "refused": ([DENIED], 2, 2),
    "none": ([], 2, 2),
}


@pytest.mark.parametrize("form", ["diff", "json", "github", "junit"])
@pytest.mark.parametrize(("objects", "code", "must"), MUST.values(), ids=MUST)
def test_must_place_fails_for_everything_that_is_no_candidate(
    tmp_path: Path, objects: list[Any], code: int, must: int, form: str
) -> None:
    """Protects a pipeline from passing having checked nothing."""
    text = "---\n".join(map(dump_yaml, objects))
    assert run(tmp_path, text, "-o", form).exit_code == code
    result = run(tmp_path, text, "-o", form, "--must-place")
    assert result.exit_code == must
    assert ("not a candidate: " in result.output) == (code < must)


@pytest.mark.parametrize(
    ("obj", "text"),
    [
        (
            mpijob(namespace="kube-system"),
            "not a candidate: the webhook is not called for namespace kube-sys",
        ),
        (
            mpijob(worker_spec={"nodeSelector": {"kubernetes.io/arch": "arm64"}}),
            "not placed: no node can take its workers",
        ),
    ],
)
def test_must_place_fails_a_candidate_that_is_never_placed(tmp_path: Path, obj: Any, text: str) -> None:
    """Protects a pipeline from passing a job that nothing will place."""
    result = run(tmp_path, dump_yaml(obj), "-o", "json", "--must-place")
    assert result.exit_code == 2
    assert f"  failed   {text}" in result.stderr


def test_a_document_that_is_left_alone_is_skipped_in_a_report(tmp_path: Path) -> None:
    """Protects a report's numbers: what was not checked has not passed."""
    (suite,) = parsed(run(tmp_path, "---\n".join(map(dump_yaml, [MAP, mpijob(), OUT])), "-o", "junit").stdout)
    assert [suite.get(key) for key in ("tests", "failures", "errors", "skipped")] == ["3", "0", "0", "2"]
    assert [case.find("skipped") is not None for case in suite] == [True, False, True]
