"""Tests of the output and the exit codes of the command line."""

import contextlib
import json
import os
import pty
import re
import shutil
import subprocess
import sys
import termios
import threading
from pathlib import Path
from typing import IO, Any

import jsonpatch
import pytest
from click.testing import CliRunner, Result
from jsonschema import Draft202012Validator

from contract import keys
from testbed import chart
from testbed.mpijob import mpijob
from tests.helpers import unfold
from tests.rules.tables import EXTENDS, HEAD
from webhook import messages
from webhook.cli import main
from webhook.documents import dump_yaml, read_documents
from webhook.preview.lines import diff_as_yaml
from webhook.rules.load import default_draft, installed_draft, load_installed

GOOD = EXTENDS + "values: {waitSeconds: '60'}\n"
BAD = EXTENDS + "valeus: {}\nrules: [{name: X}]\n"
DENIED = mpijob(annotations={"ultraserver-webhook.io/node-config": "3"})
PLAIN = mpijob(resource=None)

PLACED = (
    "placed: 4 workers on one whole UltraServer, shared with no other job; "
    "the job waits until all 4 nodes are free"
)


def run(*arguments: str | Path, text: str | bytes | None = None) -> Result:
    """Runs the command line in this process. An exception fails the test."""
    result = CliRunner().invoke(main, [str(word) for word in arguments], input=text, catch_exceptions=False)
    assert "Traceback" not in result.output
    return result


@pytest.fixture
def job(tmp_path: Path) -> Path:
    return _file(tmp_path / "job.yaml", mpijob())


def _file(path: Path, *objects: Any) -> Path:
    path.write_text("---\n".join(map(dump_yaml, objects)), encoding="utf-8")
    return path


def test_preview_of_a_file_shows_the_sentence_and_then_a_diff(job: Path) -> None:
    """The default output is short: a sentence and a diff, without rules and JSON pointers."""
    result = run("preview", job)
    assert result.exit_code == 1
    title, *sentence, head = result.stdout.splitlines()[:4]
    assert title == f"{job}:1: MPIJob default/train"
    assert " ".join(line.strip() for line in sentence) == PLACED
    assert head == f"--- {job}:1 (MPIJob default/train)"
    assert result.stderr == ""
    assert "+            node.kubernetes.io/instance-type: trn2u.48xlarge" in result.stdout
    assert not [line for line in result.stdout.splitlines()[3:] if line.startswith("-")][1:]
    assert "\x1b[" not in result.output


def test_preview_reads_its_arguments_the_files_of_option_f_and_standard_input(
    job: Path, tmp_path: Path
) -> None:
    other = _file(tmp_path / "other.yaml", mpijob(2, name="other"))
    third = dump_yaml(mpijob(16, name="third"))
    result = run("preview", job, "-", "-f", other, "-o", "json", text=third)
    items = json.loads(result.stdout)["items"]
    files = [str(job), "<stdin>", str(other)]
    assert [item["source"] for item in items] == [{"file": file, "line": 1} for file in files]
    assert (
        run("preview", "-o", "json", text=third).stdout
        == run("preview", "-f", "-", "-o", "json", text=third).stdout
    )


def test_preview_o_yaml_prints_the_changed_object(job: Path) -> None:
    (document,) = read_documents(run("preview", "-o", "yaml", job).stdout)
    (item,) = json.loads(run("preview", "-o", "json", job).stdout)["items"]
    assert document.value == jsonpatch.apply_patch(mpijob(), item["patch"])


def test_preview_o_patch_prints_one_patch_per_line(tmp_path: Path) -> None:
    two = _file(tmp_path / "two.yaml", mpijob(2), PLAIN)
    first, second = run("preview", "-o", "patch", two).stdout.splitlines()
    assert jsonpatch.apply_patch(mpijob(2), json.loads(first)) != mpijob(2)
    assert second == "[]"


def test_a_diff_shows_that_long_texts_differ_after_their_first_line() -> None:
    before, after = ({"script": f"first\n{word}\n" + 30 * "x\n"} for word in ("old", "new"))
    diff = diff_as_yaml(before, after, "a", "b")
    assert diff.count("more lines") == 2
    assert "old" not in diff
    assert "more lines" not in diff_as_yaml({}, {"command": 300 * "x"}, "a", "b")


def test_option_n_of_preview_sets_the_namespace_of_objects_without_a_namespace(tmp_path: Path) -> None:
    """Like kubectl, preview refuses an object of another namespace than ``-n``."""
    both = _file(tmp_path / "both.yaml", mpijob(), mpijob(namespace="ml"))
    items = json.loads(run("preview", "-n", "ml", "-o", "json", both).stdout)["items"]
    assert [item["job"]["id"] for item in items] == ["ml.train", "ml.train"]
    other = _file(tmp_path / "other.yaml", mpijob(namespace="own"))
    assert run("preview", other).exit_code == 1
    for words in (("-n=ml", other), ("-n", "default", other), ("-n", "ml", "--old", other, both)):
        result = run("preview", *words)
        assert (result.exit_code, result.stdout) == (2, "")
        assert max(map(len, result.stderr.splitlines())) <= 100
        output = unfold(result.stderr)
        assert output.startswith(f"error: {other}:5:1: this object is for namespace")
        assert "use --namespace=own" in output


@pytest.mark.parametrize(
    ("objects", "code"),
    [
        ([PLAIN], 0),
        ([mpijob()], 1),
        ([DENIED], 2),
        ([PLAIN, mpijob()], 1),
        ([mpijob(), DENIED, PLAIN], 2),
        ([{"apiVersion": "v1", "kind": "Pod"}], 0),
    ],
    ids=["unchanged", "changed", "denied", "one changed", "one denied", "another kind"],
)
@pytest.mark.parametrize("form", ["diff", "yaml", "json", "why", "patch"])
def test_preview_exits_like_kubectl_diff(tmp_path: Path, objects: list[Any], code: int, form: str) -> None:
    assert run("preview", _file(tmp_path / "x.yaml", *objects), "-o", form).exit_code == code


def test_preview_of_a_denied_job_has_the_reason(tmp_path: Path) -> None:
    result = run("preview", _file(tmp_path / "x.yaml", DENIED))
    refusal = "  refused: the node config must be one of 4, 2, 1:"
    assert result.stdout.splitlines()[1].startswith(refusal)
    assert "@@" not in result.stdout


def test_preview_uses_the_table_of_option_rules(job: Path, tmp_path: Path) -> None:
    table = tmp_path / "rules.yaml"
    table.write_text(
        EXTENDS + "families: [{name: trn2u, shapes: [{name: few, workers: 4, nodeConfig: 1, warn: w}]}]\n"
    )
    assert "\n  placed: 4 workers on any 4 nodes;" in run("preview", "--rules", table, job).stdout


def test_an_invalid_namespace_is_refused_with_the_same_message_as_over_http(job: Path) -> None:
    result = run("preview", "-n", "Bad_NS", job)
    assert (result.exit_code, result.stdout) == (2, "")
    message = "parameter namespace is 'Bad_NS'; it must be a name of 1 to 63 characters"
    assert message in " ".join(result.stderr.split())


UNREADABLE = {
    "a missing file": (None, "No such file or directory"),
    "invalid YAML": ("a: [\n", "x.yaml:2:"),
    "a text": ("hello\n", "x.yaml:1:1: a Kubernetes object is a map"),
    "an empty file": ("# nothing\n", "there are no objects"),
}


@pytest.mark.parametrize(("text", "message"), UNREADABLE.values(), ids=UNREADABLE)
def test_preview_of_an_unreadable_file_exits_with_2_and_the_line(
    tmp_path: Path, text: str | None, message: str
) -> None:
    path = tmp_path / "x.yaml"
    if text is not None:
        path.write_text(text)
    result = run("preview", path)
    assert (result.exit_code, result.stdout) == (2, "")
    assert message in unfold(result.stderr)
    assert result.stderr.startswith("error: ")


@pytest.mark.parametrize("command", [("preview",), ("rules", "show"), ("rules", "show", "-o", "yaml")])
def test_every_command_refuses_a_wrong_table_with_all_its_problems(
    tmp_path: Path, command: tuple[str, ...]
) -> None:
    table = tmp_path / "rules.yaml"
    table.write_text(BAD)
    result = run(*command, "--rules", table, text="")
    assert (result.exit_code, result.stdout) == (2, "")
    assert f"{table}:4: valeus: unknown key 'valeus'" in result.stderr
    assert (
        f"{table}:5: rules[0].name: must be a name of lower case letters, digits and '-', not"
        in result.stderr
    )
    assert messages.wrong_table("", "2 places") in result.stderr


def test_lint_checks_all_files_and_fails_if_a_file_is_wrong(tmp_path: Path) -> None:
    good, bad, missing = (tmp_path / name for name in ("good.yaml", "bad.yaml", "missing.yaml"))
    good.write_text(GOOD)
    bad.write_text(BAD)
    assert run("rules", "lint", good).exit_code == 0
    result = run("rules", "lint", bad, missing, good)
    assert result.exit_code == 1
    assert result.stdout.splitlines() == run("rules", "lint", good).stdout.splitlines()
    assert [line.split(": ")[0] for line in result.stderr.splitlines()] == [
        f"{bad}:4",
        f"{bad}:5",
        str(missing),
    ]


def test_lint_o_json_has_each_table_and_its_problems_with_their_lines(tmp_path: Path) -> None:
    """Protects programs that read the JSON: each problem has its file, line and path."""
    good, bad, missing = (tmp_path / name for name in ("good.yaml", "bad.yaml", "missing.yaml"))
    good.write_text(GOOD)
    bad.write_text(BAD)
    result = run("rules", "lint", "-o", "json", good, bad, missing)
    first, second, third = json.loads(result.stdout)["tables"]
    assert (result.exit_code, result.stderr) == (1, "")
    assert (first["revision"], first["problems"]) == (load_installed(good).revision, [])
    places = [(problem["source"], problem["line"], problem["path"]) for problem in second["problems"]]
    assert places == [(str(bad), 4, "valeus"), (str(bad), 5, "rules[0].name")]
    assert third["problems"][0]["message"] == "No such file or directory"
    assert run("rules", "lint", "-o", "json", good).exit_code == 0


@pytest.mark.limit(5, "starts the program")
def test_show_fits_a_terminal_and_loses_no_word(tmp_path: Path) -> None:
    """In a terminal, no line is wider than the terminal. In a pipe, each row is one line."""
    screen_fd, terminal_fd = pty.openpty()
    termios.tcsetwinsize(terminal_fd, (40, 100))
    with (tmp_path / "shown").open("wb") as file, os.fdopen(screen_fd, "rb", buffering=0) as screen:
        reader = threading.Thread(target=_copy_output, args=(screen, file))
        reader.start()
        subprocess.run([sys.executable, "-m", "webhook", "rules", "show"], stdout=terminal_fd, check=True)
        os.close(terminal_fd)
        reader.join()
    text = (tmp_path / "shown").read_text()
    assert max(map(len, text.splitlines())) <= 100
    whole = run("rules", "show").stdout
    assert sorted("".join(text.split())) == sorted("".join(whole.split()))


def _copy_output(screen: IO[bytes], file: IO[bytes]) -> None:
    with contextlib.suppress(OSError):  # the read after the end of a terminal fails
        shutil.copyfileobj(screen, file)


def test_show_lists_every_shape_and_rule_with_its_reason() -> None:
    lines = run("rules", "show").stdout.splitlines()
    assert lines[0] == f"revision {load_installed().revision}, mode enforce"
    for row in load_installed().shapes:
        assert any(line.startswith(f"{row.name} ") for line in lines)
    for rule in installed_draft().raw["rules"]:
        (line,) = [line for line in lines if line.startswith(f"{rule['name']} ")]
        assert re.search(
            rf"  {re.escape(rule['reason'])}  +packaged [a-z]+:\d+(, packaged placement:\d+)?$", line
        )
        for condition in ("placer", "volume", "mountFree"):
            is_shown = f" {condition} " in line.partition(rule["reason"])[0]
            assert is_shown == (
                condition in (rule if condition == "placer" else {}) or condition in rule["match"]
            )


def test_show_prints_the_mode_of_a_table_and_the_additions_and_lines_of_its_rows(tmp_path: Path) -> None:
    """Protects users from a wrong mode in the output, and from a search for the file of a row."""
    (mine := tmp_path / "mine.yaml").write_text(
        EXTENDS + "mode: off\nrules:\n- {name: job-label, reason: mine}\n"
        "- {name: own, reason: r, match: {role: worker}, warn: w, add: {spec: {nodeSelector: {a: b, c: d}}}}"
    )
    lines = run("rules", "show", "-f", mine).stdout.splitlines()
    assert lines[0].endswith(", mode off")
    rows = {line.split()[0]: line for line in lines if line}
    assert rows["own"].endswith(f"  {mine}:7")
    assert re.search(r" off +worker +always +spec/nodeSelector/a, spec/nodeSelector/c, warn +r ", rows["own"])
    assert re.search(rf" mine +packaged rules:\d+, {mine}:6$", rows["job-label"])
    assert " placer whole-job " in rows["whole-job-workers"]
    assert " spec/schedulingGates " in rows["whole-job-gate"]


def test_show_of_a_name_prints_the_places_of_the_row_and_then_the_merged_row(tmp_path: Path) -> None:
    (mine := tmp_path / "mine.yaml").write_text(
        EXTENDS + "families: [{name: trn2u, shapes: [{name: two-node, warn: slow}]}]\n"
    )
    text = run("rules", "show", "two-node", "--rules", mine).stdout
    first, second, *rest = text.splitlines()
    assert re.fullmatch(r"# packaged families:\d+", first)
    assert second == f"# {mine}:4"
    (row,) = read_documents("\n".join(rest))[0].value["shapes"]
    assert (row["workers"], row["warn"]) == (2, "slow")
    near = run("rules", "show", "two-nodes")
    assert (near.exit_code, "did you mean 'two-node'?" in near.stderr) == (2, True)
    assert '  mode: "off"\n' in run("rules", "show", "kueue-starts-job").stdout
    whole = run("rules", "show", "-o", "yaml").stdout
    assert '  mode: "off"\n' in whole
    assert "mode: false" not in whole
    assert f"write -f {mine}" in run("rules", "show", mine).stderr


def test_lint_show_and_test_accept_option_f_with_and_without_an_equals_sign(
    tmp_path: Path,
) -> None:
    (mine := tmp_path / "mine.yaml").write_text(GOOD)
    (tmp_path / "cases").mkdir()
    _file(tmp_path / "cases" / "one.yaml", mpijob())
    lint = run("rules", "lint", "-f", mine, f"--rules={mine}").stdout.splitlines()
    assert lint == run("rules", "lint", mine, mine).stdout.splitlines()
    assert (
        run("rules", "show", f"-f={mine}", "-o=yaml").stdout
        == run("rules", "show", "--rules", mine, "-o", "yaml").stdout
    )
    tested = run("rules", "test", tmp_path / "cases", "-f", mine)
    assert tested.output == run("rules", "test", tmp_path / "cases", "--rules", mine).output
    for command in (("show",), ("test", tmp_path / "cases")):
        result = run("rules", *command, "-f", mine, "-f", mine)
        assert (result.exit_code, "use one table" in result.stderr) == (2, True)


def test_preview_reads_subfolders_only_with_option_r(tmp_path: Path) -> None:
    (tmp_path / "a" / "b.yaml").mkdir(parents=True)
    _file(tmp_path / "a" / "one.yaml", mpijob(name="one"))
    _file(tmp_path / "a" / "b.yaml" / "two.json", mpijob(name="two"))

    def names(*words: str | Path) -> list[str]:
        items = json.loads(run("preview", "-o=json", "-f", tmp_path / "a", *words).stdout)["items"]
        return [item["object"]["name"] for item in items]

    assert (names(), names("-R")) == (["one"], ["two", "one"])


def test_commands_include_whole_job_admission_unless_an_option_or_a_table_excludes_it(
    job: Path, tmp_path: Path
) -> None:
    """The default installation has whole-job admission, so by default the patch must have the gate."""
    (mine := tmp_path / "mine.yaml").write_text(EXTENDS + "rules: [{name: whole-job-workers, mode: 'off'}]\n")
    for words, gated in (((), True), (("--without-placement",), False), (("--rules", mine), False)):
        patch = run("preview", job, "-o=patch", *words).stdout
        assert (f"{keys.PREFIX}whole-job" in patch, "placer=gate" in patch) == (gated, gated)
    for words, mode in (((), "enforce"), (("--without-placement",), "off")):
        (line,) = [
            line
            for line in run("rules", "show", *words).stdout.splitlines()
            if line.startswith("whole-job-gate ")
        ]
        assert f" {mode} " in line
    whole = run("rules", "show", "-o=yaml", "-f", chart.RULES, "--without-placement")
    assert (whole.exit_code, "--without-placement does not apply to a directory" in whole.stderr) == (2, True)


def test_show_o_yaml_loads_back_to_the_same_table(tmp_path: Path) -> None:
    mine, printed_table = tmp_path / "mine.yaml", tmp_path / "shown.yaml"
    mine.write_text(GOOD + "rules: [{name: nodes-with-server-id, mode: off}]\n")
    printed_table.write_text(run("rules", "show", "-o", "yaml", "--rules", mine).stdout)
    assert "extends" not in printed_table.read_text()  # the printed table is complete
    assert load_installed(printed_table, placement=False) == load_installed(mine) != load_installed()


def test_the_schema_is_complete_and_valid_and_accepts_the_packaged_table() -> None:
    schema = json.loads(run("rules", "schema").stdout)
    Draft202012Validator.check_schema(schema)
    assert all(ref.startswith("#/") for ref in _references(schema))
    validator = Draft202012Validator(schema)
    validator.validate(default_draft().raw)
    (bad,) = read_documents(BAD)
    assert not validator.is_valid(bad.value)
    (empty,) = read_documents(HEAD)
    assert not validator.is_valid(empty.value)


def _references(node: Any) -> list[str]:
    inner = list(node.values()) if isinstance(node, dict) else node if isinstance(node, list) else []
    own = [node["$ref"]] if isinstance(node, dict) and isinstance(node.get("$ref"), str) else []
    return own + [ref for value in inner for ref in _references(value)]


@pytest.mark.limit(5, "starts the program twice")
def test_the_program_reads_standard_input_and_sets_its_exit_status() -> None:
    program = [sys.executable, "-m", "webhook", "preview"]
    text = dump_yaml(mpijob(name="träin"))
    # A terminal without UTF-8, as in a bare container.
    environment = {**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONIOENCODING": "utf-8"}
    result = subprocess.run(program, input=text.encode(), capture_output=True, check=False, env=environment)
    assert result.returncode == 1
    assert "MPIJob default/träin" in result.stdout.decode()
    broken = subprocess.run([*program, "nowhere.yaml"], capture_output=True, check=False, text=True)
    assert broken.returncode == 2
    assert broken.stderr.startswith("error: ")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_shell_completion_calls_this_program(shell: str) -> None:
    printed = run("completion", shell).stdout
    assert f"_ULTRASERVER_WEBHOOK_COMPLETE={shell}_complete" in printed
    words = {"COMP_WORDS": "ultraserver-webhook preview --must", "COMP_CWORD": "2"}
    environment = {"_ULTRASERVER_WEBHOOK_COMPLETE": "bash_complete", **words}
    result = CliRunner().invoke(main, [], prog_name="ultraserver-webhook", env=environment)
    assert result.stdout == "plain,--must-place\n"
