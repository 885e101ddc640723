"""Tests of ``rules test DIR``: passing and failing cases, unusable folders, snapshots and reports."""

import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from click.testing import CliRunner, Result

from testbed.mpijob import mpijob
from tests.rules.tables import EXTENDS, extend_table, mutate
from webhook.cli import main
from webhook.documents import read_documents
from webhook.rules.load import load_default
from webhook.ruletests import messages
from webhook.ruletests.folder import write_snapshots

FIRED = {"rules": {"job-label": "fired"}}
JOB = mpijob()
TEAM = """rules:
  - name: team
    reason: r
    match: {role: worker, namespace: team-*}
    warn: "hello $(job.namespace)"
"""


def case(name: str = "one", *, expect: Any = None, obj: Any = JOB, **fields: Any) -> dict[str, Any]:
    return {"name": name, "object": obj, "expect": expect or FIRED, **fields}


def write_files(folder: Path, **texts: Any) -> Path:
    """Writes files into a folder and returns the folder. A value that is not a text is written as JSON."""
    for name, value in texts.items():
        text = value if isinstance(value, str) else json.dumps(value)
        (folder / f"{name}.yaml").write_text(text, encoding="utf-8")
    return folder


def run_tests(folder: Path, *options: str | Path) -> Result:
    arguments = ["rules", "test", str(folder), *map(str, options)]
    return CliRunner().invoke(main, arguments, catch_exceptions=False)


def test_a_case_passes_and_rules_that_never_fired_are_listed(tmp_path: Path) -> None:
    """With the user's own table, only the rules of this table are listed, and not the packaged rules."""
    second_case = case("two", expect={"outcome": "placed"})
    result = run_tests(write_files(tmp_path, a=[case(expect={"outcome": "allowed", **FIRED}), second_case]))
    summary, never_fired, *_ = result.stdout.splitlines()
    assert (result.exit_code, summary) == (0, messages.summary(2, 0))
    assert never_fired.startswith("never fired: native-gang, pods-not-at-once, ")
    assert " job-label," not in result.stdout
    (table := tmp_path / ".table.yaml").write_text(EXTENDS + TEAM)
    assert run_tests(tmp_path, "--rules", table).stdout.splitlines()[1] == "never fired: team"


def test_a_case_defines_how_an_object_is_sent(tmp_path: Path) -> None:
    """A case can set the request's namespace, user and time, and patch an object that cases share."""
    patch = {"metadata": {"name": None, "generateName": "x-"}}
    expect = {"outcome": "warned", "messages": ["hello team-a"], "rules": {"team": "fired"}}
    settings = {"namespace": "team-a", "username": "ada", "operation": "CREATE"}
    first_case = case(obj="job.yaml", settings=settings, expect=expect, now="2026-11-23T12:00:00+01:00")
    second_case = case(
        "two", obj="job.yaml", expect={"rules": {"team": "skipped"}, "snapshot": True}, **{"with": patch}
    )
    folder = write_files(tmp_path, a=[first_case, second_case], job=JOB)
    (table := tmp_path / ".table.yaml").write_text(EXTENDS + TEAM)
    assert run_tests(folder, "--rules", table, "--update").exit_code == 0
    (snapshots,) = read_documents((folder / "a.snapshots.yaml").read_bytes())
    assert snapshots.value["two"]["metadata"] == {"generateName": "x-"}


def test_a_case_with_an_old_object_is_an_update(tmp_path: Path) -> None:
    """The additions that the update removes from the stored job are put back."""
    suspended = mpijob() | {"spec": {**JOB["spec"], "runPolicy": {"suspend": True}}}
    stored = mutate(load_default(), suspended)
    first_case = case(
        obj=suspended, oldObject=stored, expect={"snapshot": True}, settings={"operation": "UPDATE"}
    )
    folder = write_files(tmp_path, a=[first_case, case("two", oldObject=JOB, expect={"patch": []})])
    assert run_tests(folder, "--update").exit_code == 0
    assert "init-script" in (folder / "a.snapshots.yaml").read_text()


@pytest.mark.parametrize("target", [".git/hooks/pre-commit", "notes.txt"])
def test_update_does_not_write_through_a_link(tmp_path: Path, target: str) -> None:
    """Protects users who test another user's folder: a link could lead to a Git hook, which runs later."""
    folder = write_files(
        tmp_path, a=[case(expect={"snapshot": True})], b=[case("two", expect={"snapshot": True})]
    )
    (folder / target).parent.mkdir(parents=True, exist_ok=True)
    (folder / target).write_text("{}")
    (link := folder / "b.snapshots.yaml").symlink_to(target)
    result = run_tests(folder, "--update")
    assert result.exit_code == 2
    assert f"{link}: {messages.is_link(target)}" in result.stderr
    assert (folder / target).read_text() == "{}"
    assert not (folder / "a.snapshots.yaml").exists()


def test_snapshots_are_not_written_to_hidden_files_or_linked_folders(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "linked").symlink_to("real")
    for name in (".git/x.snapshots.yaml", "real/.x.yaml", "linked/x.snapshots.yaml"):
        reason = messages.is_link("real") if name.startswith("linked") else messages.IS_HIDDEN
        with pytest.raises(PermissionError, match=re.escape(reason)):
            write_snapshots(tmp_path, {name: {"one": JOB}})
    assert not [*(tmp_path / "real").iterdir()]


def test_update_replaces_a_file_and_keeps_its_mode(tmp_path: Path) -> None:
    """A hard link to the old file, which may be in any folder, keeps its content."""
    (old_file := tmp_path / "old").write_text("{}")
    old_file.chmod(0o640)
    (snapshots := tmp_path / "a.snapshots.yaml").hardlink_to(old_file)
    assert run_tests(write_files(tmp_path, a=[case(expect={"snapshot": True})]), "--update").exit_code == 0
    assert (old_file.read_text(), snapshots.stat().st_mode & 0o777) == ("{}", 0o640)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.snapshots.yaml", "a.yaml", "old"]


FAILING_EXPECTATIONS: dict[str, tuple[dict[str, Any], list[str]]] = {
    "outcome": (
        {"outcome": "denied"},
        [f"outcome: {messages.other_outcome('denied', 'changed, allowed', '')}its workers ask for"],
    ),
    "rule": (
        {"rules": {"job-label": "skipped"}},
        [f"rules: job-label: {messages.other_outcome('skipped', 'fired', '')}The label"],
    ),
    "rule for other objects": (
        {"rules": {"blocks-whole": "fired"}},
        [f"rules: blocks-whole: {messages.other_outcome('fired', 'skipped', messages.FOR_OTHER_OBJECTS)}"],
    ),
    "shadow": (
        {"shadow": "unchanged"},
        [f"shadow: {messages.other_enforced('unchanged', 'changed', 'its workers ask for')}"],
    ),
    "unknown rule": (
        {"rules": {"job-lable": "skipped"}},
        [f"rules: {messages.no_packaged_rule('job-lable', '; did you mean ')}'job-label'?"],
    ),
    "verdict": (
        {"outcome": "not placed"},
        [f"outcome: {messages.other_outcome('not placed', 'changed, allowed', 'its')}"],
    ),
    "message": ({"messages": ["nodes form"]}, [f"messages: {messages.no_message('nodes form', 'nothing')}"]),
    "patch": ({"patch": []}, ["patch: --- expected", "+    node.kubernetes.io/instance-type: trn2u."]),
    "missing snapshot": ({"snapshot": True}, [f"snapshot: {messages.NO_SNAPSHOT}"]),
    "no workload": (
        {"outcome": "no-workload"},
        [f"outcome: {messages.other_outcome('no-workload', 'changed, allowed', '')}"],
    ),
}


@pytest.mark.parametrize("case_name", FAILING_EXPECTATIONS)
def test_a_failed_case_is_reported_with_its_position_and_the_difference(
    tmp_path: Path, case_name: str
) -> None:
    """The output and the JUnit report have the line of the case, the expected value and the actual value."""
    expect, message = FAILING_EXPECTATIONS[case_name]
    report = tmp_path / "report.xml"
    result = run_tests(
        write_files(tmp_path, a="# a comment\n" + json.dumps([case("o\x01e", expect=expect)])),
        "--junit",
        report,
    )
    assert result.exit_code == 1
    assert result.stdout.startswith(f"FAIL {tmp_path}/a.yaml:2: o\\x01e\n")
    (suite,) = ET.fromstring(report.read_text())  # noqa: S314 - the product wrote it
    assert (suite.get("tests"), suite.get("failures")) == ("1", "1")
    assert suite[0].get("line") == "2"
    for text in message:
        assert text in result.stdout
        assert text in (suite[0][0].text or "")


def test_an_object_of_an_unknown_kind_passes_only_if_expected(
    tmp_path: Path,
) -> None:
    """Protects users from a case that checks nothing because of a misspelt kind."""
    job = {**JOB, "kind": "MPIjob"}
    second_case = case("two", obj={**job, "metadata": {"namespace": {}}}, expect={"outcome": "no-workload"})
    result = run_tests(write_files(tmp_path, a=[case(obj=job, expect={"patch": []}), second_case]))
    reason = messages.other_outcome(messages.KNOWN_KIND, "no-workload, allowed", "no workload")
    assert f"outcome: {reason}" in result.stdout
    assert messages.summary(2, 1) in result.stdout


UNUSABLE_FILES: dict[str, tuple[dict[str, Any], str]] = {
    "an empty folder": ({}, f":1: {messages.NO_CASES}"),
    "an empty list of cases": ({"a": "[]"}, f":1: {messages.NO_CASES}"),
    "invalid YAML": ({"a": "- [\n"}, "a.yaml:2: "),
    "an unused file": ({"a": [case()], "b": JOB}, f"b.yaml:1: {messages.UNUSED_FILE}"),
    "an empty file": ({"a": [case()], "b": "# nothing\n"}, f"b.yaml:1: {messages.UNUSED_FILE}"),
    "two lists": ({"a": "- a\n---\n- b\n"}, f"a.yaml:1: {messages.SEVERAL_DOCUMENTS}"),
    "two cases with one name": (
        {"a": [case()], "b": [case()]},
        f"b.yaml:1: [0].name: {messages.same_name('one', 'FOLDER').partition('FOLDER')[0]}",
    ),
    "an unknown key": ({"a": [case(objct=1)]}, f"a.yaml:1: [0].objct: {messages.UNKNOWN_KEY}"),
    "an unknown outcome": (
        {"a": [case(expect={"outcome": "alowed"})]},
        "[0].expect.outcome: must be placed, not placed, allo",
    ),
    "a snapshot that is false": (
        {"a": [case(expect={"snapshot": False})]},
        "[0].expect.snapshot: must be true, not",
    ),
    "an empty expectation": (
        {"a": "- {name: one, object: x.yaml, expect: {}}\n"},
        f"[0].expect: {messages.NOTHING_EXPECTED}",
    ),
    "a list as object": ({"a": [case(obj=["x"])]}, f"a.yaml:1: [0].object: {messages.NO_OBJECT}"),
    "a time without zone": ({"a": [case(now="2026-11-23T12:00:00")]}, "a.yaml:1: [0].now: "),
    "a time that is a number": (
        {"a": [case(now=1764000000)]},
        "a.yaml:1: [0].now: ",
    ),
    "a missing file": (
        {"a": [case(obj="x.yaml")]},
        f"[0].object: {messages.no_file('x.yaml', '', '')}",
    ),
    "a file with a text": (
        {"a": [case(obj="b.yaml")], "b": "text"},
        f"[0].object: {messages.not_one_object('b.yaml')}",
    ),
    "a file outside of the folder": (
        {"a": [case(obj="../x.yaml")]},
        f"[0].object: {messages.is_outside('../x.yaml', 'DIR').partition('DIR')[0]}",
    ),
    "an absolute path": (
        {"a": [case(obj="/etc/x.yaml")]},
        f"[0].object: {messages.is_outside('/etc/x.yaml', 'DIR').partition('DIR')[0]}",
    ),
    "two namespaces": (
        {"a": [case(obj=mpijob(namespace="a"), settings={"namespace": "b"})]},
        f"[0].settings.namespace: {messages.other_namespace('a')}",
    ),
    "an update without an old object": (
        {"a": [case(settings={"operation": "UPDATE"})]},
        f"[0].settings.operation: {messages.other_operation('CREATE')}",
    ),
}


@pytest.mark.parametrize("case_name", UNUSABLE_FILES)
def test_an_unusable_folder_is_refused_with_file_line_and_path(tmp_path: Path, case_name: str) -> None:
    """Protects pipelines from passing without a check, and from reading files outside of the folder."""
    texts, message = UNUSABLE_FILES[case_name]
    result = run_tests(write_files(tmp_path, **texts))
    assert (result.exit_code, result.stdout) == (2, "")
    assert message in result.stderr


@pytest.mark.parametrize(
    ("target", "reason"),
    [
        ("..", "cases/linked: a link that leads out of its folder"),
        ("../secret.yaml", "cases/linked: a link that leads out of its folder"),
        ("../gone.yaml", "gone.yaml: No such file or directory"),
        (".", "cases/linked: not a regular file"),
    ],
)
def test_links_out_of_the_folder_and_to_folders_are_refused(tmp_path: Path, target: str, reason: str) -> None:
    """Protects files outside of the folder from being read, or from being written by --update."""
    (tmp_path / "secret.yaml").write_text("[]")
    (folder := tmp_path / "cases").mkdir()
    (write_files(folder, a=[case()]) / "linked").symlink_to(target)
    result = run_tests(folder, "--update")
    assert result.exit_code == 2
    assert reason in result.stderr


def test_update_writes_snapshots_of_cases_without_other_differences(tmp_path: Path) -> None:
    """A case that fails for another reason keeps its old snapshot, because its new result may be wrong."""
    cases = [
        case("good", expect={"snapshot": True}),
        case("bad", expect={"snapshot": True, "outcome": "denied"}),
        case("none", expect=FIRED),
    ]
    old_snapshots = {"good": {"a": 1}, "bad": {"b": 2}, "gone": {"c": 3}}
    folder = write_files(tmp_path, **{"a": cases, "a.snapshots": old_snapshots})
    assert run_tests(folder, "--update").exit_code == 1
    (snapshots,) = read_documents((folder / "a.snapshots.yaml").read_bytes())
    assert snapshots.value.keys() == {"good", "bad"}
    assert snapshots.value["bad"] == {"b": 2}
    assert "ultraserver-webhook.io/added" not in str(snapshots.value["good"])
    assert messages.summary(2, 0) in run_tests(write_files(tmp_path, a=[cases[0], cases[2]])).stdout


def test_a_snapshot_does_not_depend_on_changes_of_the_table_for_other_jobs(tmp_path: Path) -> None:
    """Snapshots have no records, because a record has the revision of the table."""
    folder = write_files(tmp_path, a=[case(expect={"snapshot": True})])
    assert run_tests(folder, "--update").exit_code == 0
    (table := tmp_path / ".table.yaml").write_text(EXTENDS + TEAM)
    assert extend_table(TEAM).revision != load_default().revision
    assert run_tests(folder, "--rules", table).exit_code == 0


def test_a_report_is_not_written_through_a_link(tmp_path: Path) -> None:
    """Protects files outside of a checkout, whose author may create a link at the path of the report."""
    (target := tmp_path / "target").write_text("as it was", encoding="utf-8")
    (report := tmp_path / "report.xml").symlink_to(target)
    (folder := tmp_path / "cases").mkdir()
    result = run_tests(
        write_files(folder, a=[case(expect={"outcome": "allowed", **FIRED})]), "--junit", report
    )
    assert (result.exit_code, target.read_text(encoding="utf-8")) == (2, "as it was")
    assert "is a link to" in result.output  # `common.files` composes this text


@pytest.mark.parametrize("create", [os.mkfifo, lambda path: Path(path).symlink_to(path)])
def test_a_named_pipe_or_a_link_to_itself_is_an_error(tmp_path: Path, create: Callable[[str], None]) -> None:
    """Protects pipelines from waiting for a named pipe to which no process writes."""
    create(str(write_files(tmp_path, a=[case(expect={"outcome": "allowed", **FIRED})]) / "b.yaml"))
    result = run_tests(tmp_path)
    assert result.exit_code == 2
    assert "b.yaml" in result.output
