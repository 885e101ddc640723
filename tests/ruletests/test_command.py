"""``rules test DIR``: what passes, what fails and says why, what cannot be run, and what is written."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from click.testing import CliRunner, Result

from testbed.mpijob import mpijob
from tests.rules.tables import EXTENDS, after, extended
from webhook.cli import main
from webhook.documents import read_documents
from webhook.rules.load import load_default
from webhook.ruletests.folder import write_snapshots

FIRED = {"rules": {"job-label": "fired"}}
JOB = mpijob()
TEAM = """rules:
  - name: team
    reason: r
    match: {role: worker, namespace: team-*}
    warn: "hello $(job.namespace)"
"""


def case(name: str = "one", *, expect: Any = None, obj: Any = JOB, **more: Any) -> dict[str, Any]:
    return {"name": name, "object": obj, "expect": expect or FIRED, **more}


def files(folder: Path, **texts: Any) -> Path:
    """Returns a folder with a file for each; values are written as JSON, which is YAML."""
    for name, value in texts.items():
        text = value if isinstance(value, str) else json.dumps(value)
        (folder / f"{name}.yaml").write_text(text, encoding="utf-8")
    return folder


def ran(folder: Path, *words: str | Path) -> Result:
    arguments = ["rules", "test", str(folder), *map(str, words)]
    return CliRunner().invoke(main, arguments, catch_exceptions=False)


def test_a_case_passes_and_rules_that_never_fired_are_named(tmp_path: Path) -> None:
    """Exit status 0 means that a case ran; the packaged rules are named for the packaged table only."""
    placed = case("two", expect={"outcome": "placed"})
    done = ran(files(tmp_path, a=[case(expect={"outcome": "allowed", **FIRED}), placed]))
    first, last, *_ = done.stdout.splitlines()
    assert (done.exit_code, first) == (0, "2 cases, 0 failed")
    assert last.startswith("never fired: native-gang, pods-not-at-once, ")
    assert " job-label," not in done.stdout
    (table := tmp_path / ".table.yaml").write_text(EXTENDS + TEAM)
    assert ran(tmp_path, "--rules", table).stdout.splitlines()[1] == "never fired: team"


def test_a_case_defines_how_an_object_is_sent(tmp_path: Path) -> None:
    """Namespace, user and time of the request, and a merge patch of a file that several cases share."""
    other = {"metadata": {"name": None, "generateName": "x-"}}
    expect = {"outcome": "warned", "messages": ["hello team-a"], "rules": {"team": "fired"}}
    settings = {"namespace": "team-a", "username": "ada", "operation": "CREATE"}
    one = case(obj="job.yaml", settings=settings, expect=expect, now="2026-11-23T12:00:00+01:00")
    two = case(
        "two", obj="job.yaml", expect={"rules": {"team": "skipped"}, "snapshot": True}, **{"with": other}
    )
    folder = files(tmp_path, a=[one, two], job=JOB)
    (table := tmp_path / ".table.yaml").write_text(EXTENDS + TEAM)
    assert ran(folder, "--rules", table, "--update").exit_code == 0
    (kept,) = read_documents((folder / "a.snapshots.yaml").read_bytes())
    assert kept.value["two"]["metadata"] == {"generateName": "x-"}


def test_an_update_is_what_the_cluster_does_with_one(tmp_path: Path) -> None:
    """What an update takes out of a stored job is put back."""
    suspended = mpijob() | {"spec": {**JOB["spec"], "runPolicy": {"suspend": True}}}
    stored = after(load_default(), suspended)
    one = case(obj=suspended, oldObject=stored, expect={"snapshot": True}, settings={"operation": "UPDATE"})
    folder = files(tmp_path, a=[one, case("two", oldObject=JOB, expect={"patch": []})])
    assert ran(folder, "--update").exit_code == 0
    assert "init-script" in (folder / "a.snapshots.yaml").read_text()


@pytest.mark.parametrize("target", [".git/hooks/pre-commit", "notes.txt"])
def test_update_writes_through_no_link(tmp_path: Path, target: str) -> None:
    """A link in the folder of another user would have a hook of git written, which then runs."""
    folder = files(tmp_path, a=[case(expect={"snapshot": True})], b=[case("two", expect={"snapshot": True})])
    (folder / target).parent.mkdir(parents=True, exist_ok=True)
    (folder / target).write_text("{}")
    (link := folder / "b.snapshots.yaml").symlink_to(target)
    done = ran(folder, "--update")
    assert done.exit_code == 2
    assert f"{link}: is a link to {target}: " in done.stderr
    assert (folder / target).read_text() == "{}"
    assert not (folder / "a.snapshots.yaml").exists()


def test_snapshots_are_written_to_no_hidden_file_and_no_linked_folder(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "linked").symlink_to("real")
    for name in (".git/x.snapshots.yaml", "real/.x.yaml", "linked/x.snapshots.yaml"):
        with pytest.raises(PermissionError, match=r"is hidden|a link to real"):
            write_snapshots(tmp_path, {name: {"one": JOB}})
    assert not [*(tmp_path / "real").iterdir()]


def test_update_replaces_a_file_and_keeps_its_mode(tmp_path: Path) -> None:
    """Another name of the same file, which may be anywhere, keeps what was written there."""
    (old := tmp_path / "old").write_text("{}")
    old.chmod(0o640)
    (kept := tmp_path / "a.snapshots.yaml").hardlink_to(old)
    assert ran(files(tmp_path, a=[case(expect={"snapshot": True})]), "--update").exit_code == 0
    assert (old.read_text(), kept.stat().st_mode & 0o777) == ("{}", 0o640)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.snapshots.yaml", "a.yaml", "old"]


DIFFERENT: dict[str, tuple[dict[str, Any], list[str]]] = {
    "outcome": (
        {"outcome": "denied"},
        ["outcome: expected denied, got changed, allowed: its workers ask for"],
    ),
    "rule": (
        {"rules": {"job-label": "skipped"}},
        ["rules: job-label: expected skipped, got fired: The label"],
    ),
    "unknown rule": (
        {"rules": {"job-lable": "skipped"}},
        ["rules: the packaged table, which is tested without -f, has no rule 'job-lable'; did you"],
    ),
    "judgement": ({"outcome": "not placed"}, ["outcome: expected not placed, got changed, allowed: its"]),
    "message": ({"messages": ["nodes form"]}, ["messages: expected 'nodes form', but the messages are:"]),
    "patch": ({"patch": []}, ["patch: --- expected", "+    node.kubernetes.io/instance-type: trn2u."]),
    "missing snapshot": ({"snapshot": True}, ["snapshot: the case has no snapshot yet"]),
    "no workload": ({"outcome": "no-workload"}, ["outcome: expected no-workload, got changed, allowed"]),
}


@pytest.mark.parametrize("what", DIFFERENT)
def test_a_failed_case_reports_its_place_and_the_difference(tmp_path: Path, what: str) -> None:
    """The line of the case, and for each expectation what was found instead, in the log and in JUnit."""
    expect, message = DIFFERENT[what]
    report = tmp_path / "report.xml"
    done = ran(
        files(tmp_path, a="# a comment\n" + json.dumps([case("o\x01e", expect=expect)])), "--junit", report
    )
    assert done.exit_code == 1
    assert done.stdout.startswith(f"FAIL {tmp_path}/a.yaml:2: o\\x01e\n")
    (suite,) = ET.fromstring(report.read_text())  # noqa: S314 - our own
    assert (suite.get("tests"), suite.get("failures")) == ("1", "1")
    assert suite[0].get("line") == "2"
    for text in message:
        assert text in done.stdout
        assert text in (suite[0][0].text or "")


def test_an_object_of_an_unknown_kind_passes_only_if_expected(
    tmp_path: Path,
) -> None:
    """A misspelt kind checks nothing, and fails."""
    wrong = {**JOB, "kind": "MPIjob"}
    known = case("two", obj={**wrong, "metadata": {"namespace": {}}}, expect={"outcome": "no-workload"})
    two = [case(obj=wrong, expect={"patch": []}), known]
    done = ran(files(tmp_path, a=two))
    assert "outcome: expected a kind of the table, got no-workload, allowed: no workload" in done.stdout
    assert "2 cases, 1 failed" in done.stdout


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "nothing": ({}, ":1: the folder has no YAML file"),
    "no case": ({"a": "[]"}, ":1: the folder has no YAML file"),
    "no YAML": ({"a": "- [\n"}, "a.yaml:2: "),
    "a file of nothing": ({"a": [case()], "b": JOB}, "b.yaml:1: is not a list of cases, and no case uses"),
    "an empty file": ({"a": [case()], "b": "# nothing\n"}, "b.yaml:1: is not a list of cases"),
    "two lists": ({"a": "- a\n---\n- b\n"}, "a.yaml:1: a file of cases must be one YAML document"),
    "two of a name": ({"a": [case()], "b": [case()]}, "b.yaml:1: [0].name: 'one' is also the name of "),
    "an unknown key": ({"a": [case(objct=1)]}, "a.yaml:1: [0].objct: unknown key"),
    "an unknown word": (
        {"a": [case(expect={"outcome": "alowed"})]},
        "[0].expect.outcome: must be placed, not placed, allo",
    ),
    "a word of no list": (
        {"a": [case(expect={"snapshot": False})]},
        "[0].expect.snapshot: must be true, not",
    ),
    "nothing expected": (
        {"a": "- {name: one, object: x.yaml, expect: {}}\n"},
        "[0].expect: is empty",
    ),
    "no object": ({"a": [case(obj=["x"])]}, "a.yaml:1: [0].object: must be an object, or the path"),
    "a time without zone": ({"a": [case(now="2026-11-23T12:00:00")]}, "a.yaml:1: [0].now: "),
    "a time that is a number": (
        {"a": [case(now=1764000000)]},
        "a.yaml:1: [0].now: ",
    ),
    "a file that is not there": (
        {"a": [case(obj="x.yaml")]},
        "[0].object: there is no file x.yaml in ",
    ),
    "a file outside": ({"a": [case(obj="../x.yaml")]}, "[0].object: ../x.yaml is outside of "),
    "an absolute path": ({"a": [case(obj="/etc/x.yaml")]}, "[0].object: /etc/x.yaml is outside of "),
    "two namespaces": (
        {"a": [case(obj=mpijob(namespace="a"), settings={"namespace": "b"})]},
        "[0].settings.namespace: must be 'a', the namespace",
    ),
    "an update of nothing": (
        {"a": [case(settings={"operation": "UPDATE"})]},
        "[0].settings.operation: must be",
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_cannot_be_run_is_refused_with_file_line_and_place(tmp_path: Path, what: str) -> None:
    """A pipeline never passes having checked nothing, nor reads what is not the cases' own."""
    texts, message = REFUSED[what]
    done = ran(files(tmp_path, **texts))
    assert (done.exit_code, done.stdout) == (2, "")
    assert message in done.stderr


@pytest.mark.parametrize(
    ("to", "why"),
    [
        ("..", "cases/linked: a link that leads out of its folder"),
        ("../secret.yaml", "cases/linked: a link that leads out of its folder"),
        ("../gone.yaml", "gone.yaml: No such file or directory"),
        (".", "cases/linked: not a regular file"),
    ],
)
def test_links_out_of_the_folder_and_to_folders_are_refused(tmp_path: Path, to: str, why: str) -> None:
    """Neither a file nor a folder elsewhere is read, or written by --update."""
    (tmp_path / "secret.yaml").write_text("[]")
    (folder := tmp_path / "cases").mkdir()
    (files(folder, a=[case()]) / "linked").symlink_to(to)
    done = ran(folder, "--update")
    assert done.exit_code == 2
    assert why in done.stderr


def test_update_writes_snapshots_of_cases_without_other_differences(tmp_path: Path) -> None:
    """A snapshot is what a user looked at: a case that fails otherwise keeps its old one."""
    cases = [
        case("good", expect={"snapshot": True}),
        case("bad", expect={"snapshot": True, "outcome": "denied"}),
        case("none", expect=FIRED),
    ]
    old = {"good": {"a": 1}, "bad": {"b": 2}, "gone": {"c": 3}}
    folder = files(tmp_path, **{"a": cases, "a.snapshots": old})
    assert ran(folder, "--update").exit_code == 1
    (kept,) = read_documents((folder / "a.snapshots.yaml").read_bytes())
    assert kept.value.keys() == {"good", "bad"}
    assert kept.value["bad"] == {"b": 2}
    assert "ultraserver-webhook.io/added" not in str(kept.value["good"])
    assert "2 cases, 0 failed" in ran(files(tmp_path, a=[cases[0], cases[2]])).stdout


def test_a_snapshot_outlives_changes_of_the_table_that_do_not_touch_the_job(tmp_path: Path) -> None:
    """Records name the table's revision, and are left out."""
    folder = files(tmp_path, a=[case(expect={"snapshot": True})])
    assert ran(folder, "--update").exit_code == 0
    (table := tmp_path / ".table.yaml").write_text(EXTENDS + TEAM)
    assert extended(TEAM).revision != load_default().revision
    assert ran(folder, "--rules", table).exit_code == 0


def test_a_report_is_not_written_through_a_link(tmp_path: Path) -> None:
    """Protects files outside of a checkout, whose author may put a link where a report is written."""
    (target := tmp_path / "target").write_text("as it was", encoding="utf-8")
    (report := tmp_path / "report.xml").symlink_to(target)
    (folder := tmp_path / "cases").mkdir()
    done = ran(files(folder, a=[case(expect={"outcome": "allowed", **FIRED})]), "--junit", report)
    assert (done.exit_code, target.read_text(encoding="utf-8")) == (2, "as it was")
    assert "is a link to" in done.output


@pytest.mark.parametrize("make", [os.mkfifo, lambda path: Path(path).symlink_to(path)])
def test_what_is_no_file_is_named_and_not_waited_for(tmp_path: Path, make: Callable[[str], None]) -> None:
    """Protects a pipeline from a pipe that no one writes to, and from a link to itself."""
    make(str(files(tmp_path, a=[case(expect={"outcome": "allowed", **FIRED})]) / "b.yaml"))
    done = ran(tmp_path)
    assert done.exit_code == 2
    assert "b.yaml" in done.output
