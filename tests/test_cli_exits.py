"""Tests that texts in files cannot control a terminal or GitHub's runner, with any command and format."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from testbed.mpijob import mpijob
from tests.rules.tables import EXTENDS
from webhook.cli import main
from webhook.documents import dump_yaml, read_documents
from webhook.preview.formats import FORMATS, PIPELINES

HOSTILE = "x\x1b]0;t\x07\u202e\x7f\u0085\u2066 \n::error::x\n\t ::stop-commands::y\n##[add-mask]z"
NAME = HOSTILE + ".yaml"
ALL_FORMATS = [*FORMATS, *PIPELINES]
MARKED = mpijob(annotations={"note": HOSTILE, HOSTILE: "x", "ultraserver-webhook.io/node-config": HOSTILE})
CASE = {"name": "one", "object": MARKED, "expect": {"outcome": "denied"}}
ROW = {"name": "team", "reason": HOSTILE, "match": {"role": "worker"}, "warn": HOSTILE}
TABLES: dict[str, Any] = {
    "key": {HOSTILE: 1},
    "name": {"rules": [ROW | {"name": HOSTILE}]},
    "reason and message": {"rules": [ROW]},
    "match": {"rules": [ROW | {"match": {"role": "worker", "namespace": HOSTILE}}]},
    "value": {"values": {HOSTILE: HOSTILE}},
    "shape": {"families": [{"name": HOSTILE, HOSTILE: HOSTILE}]},
}
CASES: dict[str, Any] = {
    "name": CASE | {"name": HOSTILE},
    "key": CASE | {HOSTILE: 1},
    "object": CASE | {"object": HOSTILE},
    "outcome": CASE | {"expect": {"outcome": HOSTILE}},
    "messages": CASE | {"expect": {"messages": [HOSTILE]}},
    "rule": CASE | {"expect": {"rules": {HOSTILE: "fired"}}},
    "patch": CASE | {"expect": {"patch": [{"op": "add", "path": HOSTILE, "value": HOSTILE}]}},
    "snapshot": CASE | {"expect": {"snapshot": True}},
}
OBJECTS: dict[str, Any] = {
    "values": MARKED,
    "values of a job that is changed": mpijob(annotations={"note": HOSTILE, HOSTILE: "x"}),
    "name": mpijob(HOSTILE),
    "kind": MARKED | {"kind": HOSTILE, "apiVersion": HOSTILE},
    "key": MARKED | {HOSTILE: HOSTILE},
    "namespace": {**MARKED, "metadata": MARKED["metadata"] | {"namespace": HOSTILE}},
}


def write_json(path: Path, value: Any, before: str = "") -> Path:
    """Writes a value as JSON, below a comment with control characters; returns the file."""
    path.write_text(f"# \u202e ::error::x\n{before}{json.dumps(value)}\n", encoding="utf-8")
    return path


def write_table(path: Path, value: Any) -> Path:
    """Writes a rule table that extends the packaged table; returns the file."""
    parts = "".join(f"{json.dumps(key)}: {json.dumps(field)}\n" for key, field in value.items())
    path.write_text(f"# \u202e ::error::x\n{EXTENDS}{parts}", encoding="utf-8")
    return path


def run_clean(*words: str | Path) -> Result:
    """Runs a command, and asserts that its output has no control characters and no forged runner commands."""
    result = CliRunner().invoke(main, [str(word) for word in words], catch_exceptions=False)
    for char in set(result.output) - {"\n", "\t"}:
        assert char.isprintable(), (char, words, result.output)
    for line in result.output.splitlines():
        if line.lstrip().startswith("::"):
            assert "github" in words, (words, line)
            assert re.fullmatch(r"::(error|warning|notice) file=[^,:]*,line=\d+,title=[^,:]*::.*", line), line
    assert "github" in words or "##[" not in result.output
    return result


def previews(*words: str | Path) -> Iterator[Result]:
    """Yields the result of a preview in each format."""
    for form in ALL_FORMATS:
        yield run_clean("preview", *words, "-o", form)


@pytest.mark.parametrize("value", TABLES.values(), ids=TABLES)
def test_the_output_about_a_table_is_clean(value: Any, tmp_path: Path) -> None:
    rules = write_table(tmp_path / NAME, value)
    job, cases = write_json(tmp_path / "job.yaml", MARKED), tmp_path / "cases"
    cases.mkdir()
    write_json(cases / "one.yaml", [CASE])
    for form in ("text", "json"):
        run_clean("rules", "lint", rules, "-o", form)
    for form in ("table", "yaml"):
        run_clean("rules", "show", "-f", rules, "-o", form)
    run_clean("rules", "show", "-f", rules, HOSTILE)
    run_clean("rules", "show", "-f", rules, "team")
    run_clean("rules", "test", cases, "-f", rules)
    assert len([*previews(job, "--rules", rules)]) == len(ALL_FORMATS)


@pytest.mark.parametrize("value", CASES.values(), ids=CASES)
@pytest.mark.parametrize("name", ["one.yaml", NAME])
def test_the_output_about_test_cases_is_clean(value: Any, name: str, tmp_path: Path) -> None:
    write_json(tmp_path / name, [value])
    run_clean("rules", "test", tmp_path)
    run_clean("rules", "test", tmp_path, "--update")


@pytest.mark.parametrize("value", OBJECTS.values(), ids=OBJECTS)
def test_the_output_about_objects_and_their_files_is_clean(value: Any, tmp_path: Path) -> None:
    new, old = write_json(tmp_path / NAME, value), write_json(tmp_path / f"old{NAME}", value)
    for words in (
        (new,),
        (new, "--old", old),
        (new, "--old", tmp_path / f"no{NAME}"),
        (tmp_path / f"no{NAME}",),
    ):
        assert len([*previews(*words)]) == len(ALL_FORMATS)
    for form in sorted({*ALL_FORMATS} - {"patch"}):
        run_clean("preview", new, "--pods", "-o", form)


@pytest.mark.parametrize("text", [f"{{{HOSTILE}", json.dumps({"a": HOSTILE})[:-1], f'"{HOSTILE}": &'])
def test_the_output_about_unreadable_files_is_clean(text: str, tmp_path: Path) -> None:
    path = tmp_path / NAME
    path.write_text(text, encoding="utf-8")
    assert {result.exit_code for result in previews(path)} == {2}
    assert {result.exit_code for result in previews(tmp_path / "job.yaml", "--old", path)} == {2}
    run_clean("rules", "lint", path)
    run_clean("rules", "show", "-f", path)
    run_clean("rules", "test", path)  # click's own message


@pytest.mark.parametrize(
    "text", [*HOSTILE, HOSTILE, "::error::x", "a\n ::b", "##[group]", "a\n\tb\n", "ä 漢 🙂", "🙂\u202e"]
)
def test_dumped_yaml_is_clean_and_reads_back_to_the_same_value(text: str) -> None:
    value = {text: [text, {"a": text}]}
    dumped = dump_yaml(value)
    assert [document.value for document in read_documents(dumped)] == [value]
    assert all(char.isprintable() or char in "\n\t" for char in dumped)
    assert not re.search(r"(?m)^\s*::|##\[", dumped)
    assert text.isascii() or not text.isprintable() or text in dumped or "🙂" in text


def test_colours_of_the_program_are_the_only_escape_sequences(tmp_path: Path) -> None:
    job = write_json(tmp_path / NAME, mpijob(annotations={"note": f"\x1b[31m{HOSTILE}"}))
    output = CliRunner().invoke(main, ["preview", str(job)], color=True).output
    assert set(re.findall(r"\x1b(?:\[\d+m)?", output)) == {f"\x1b[{code}m" for code in (0, 1, 31, 32, 36)} - {
        "\x1b[31m"
    }
