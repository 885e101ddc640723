"""No text of a file commands a terminal or GitHub's runner, with any command and format."""

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
FORMS = [*FORMATS, *PIPELINES]
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
    "values of what changes": mpijob(annotations={"note": HOSTILE, HOSTILE: "x"}),
    "name": mpijob(HOSTILE),
    "kind": MARKED | {"kind": HOSTILE, "apiVersion": HOSTILE},
    "key": MARKED | {HOSTILE: HOSTILE},
    "namespace": {**MARKED, "metadata": MARKED["metadata"] | {"namespace": HOSTILE}},
}


def written(path: Path, value: Any, before: str = "") -> Path:
    """Returns a file with a value as JSON, below a comment that changes the direction of writing."""
    path.write_text(f"# \u202e ::error::x\n{before}{json.dumps(value)}\n", encoding="utf-8")
    return path


def table(path: Path, value: Any) -> Path:
    """Returns a table that extends the packaged one."""
    parts = "".join(f"{json.dumps(key)}: {json.dumps(each)}\n" for key, each in value.items())
    path.write_text(f"# \u202e ::error::x\n{EXTENDS}{parts}", encoding="utf-8")
    return path


def ran(*words: str | Path) -> Result:
    """Returns a command, of which all that was printed is clean."""
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
    """Yields a preview in every form."""
    for form in FORMS:
        yield ran("preview", *words, "-o", form)


@pytest.mark.parametrize("value", TABLES.values(), ids=TABLES)
def test_texts_of_a_table_are_clean(value: Any, tmp_path: Path) -> None:
    rules = table(tmp_path / NAME, value)
    job, cases = written(tmp_path / "job.yaml", MARKED), tmp_path / "cases"
    cases.mkdir()
    written(cases / "one.yaml", [CASE])
    for form in ("text", "json"):
        ran("rules", "lint", rules, "-o", form)
    for form in ("table", "yaml"):
        ran("rules", "show", "-f", rules, "-o", form)
    ran("rules", "show", "-f", rules, HOSTILE)
    ran("rules", "show", "-f", rules, "team")
    ran("rules", "test", cases, "-f", rules)
    assert len([*previews(job, "--rules", rules)]) == len(FORMS)


@pytest.mark.parametrize("value", CASES.values(), ids=CASES)
@pytest.mark.parametrize("name", ["one.yaml", NAME])
def test_texts_of_test_cases_are_clean(value: Any, name: str, tmp_path: Path) -> None:
    written(tmp_path / name, [value])
    ran("rules", "test", tmp_path)
    ran("rules", "test", tmp_path, "--update")


@pytest.mark.parametrize("value", OBJECTS.values(), ids=OBJECTS)
def test_texts_of_objects_and_the_names_of_their_files_are_clean(value: Any, tmp_path: Path) -> None:
    new, old = written(tmp_path / NAME, value), written(tmp_path / f"old{NAME}", value)
    for words in (
        (new,),
        (new, "--old", old),
        (new, "--old", tmp_path / f"no{NAME}"),
        (tmp_path / f"no{NAME}",),
    ):
        assert len([*previews(*words)]) == len(FORMS)
    for form in sorted({*FORMS} - {"patch"}):
        ran("preview", new, "--pods", "-o", form)


@pytest.mark.parametrize("text", [f"{{{HOSTILE}", json.dumps({"a": HOSTILE})[:-1], f'"{HOSTILE}": &'])
def test_files_that_cannot_be_read_are_clean(text: str, tmp_path: Path) -> None:
    path = tmp_path / NAME
    path.write_text(text, encoding="utf-8")
    assert {result.exit_code for result in previews(path)} == {2}
    assert {result.exit_code for result in previews(tmp_path / "job.yaml", "--old", path)} == {2}
    ran("rules", "lint", path)
    ran("rules", "show", "-f", path)
    ran("rules", "test", path)  # click's own message


@pytest.mark.parametrize(
    "text", [*HOSTILE, HOSTILE, "::error::x", "a\n ::b", "##[group]", "a\n\tb\n", "ä 漢 🙂", "🙂\u202e"]
)
def test_yaml_is_clean_and_gives_the_same_value(text: str) -> None:
    value = {text: [text, {"a": text}]}
    dumped = dump_yaml(value)
    assert [document.value for document in read_documents(dumped)] == [value]
    assert all(char.isprintable() or char in "\n\t" for char in dumped)
    assert not re.search(r"(?m)^\s*::|##\[", dumped)
    assert text.isascii() or not text.isprintable() or text in dumped or "🙂" in text


def test_colours_reach_a_terminal_and_no_other_sequence_does(tmp_path: Path) -> None:
    job = written(tmp_path / NAME, mpijob(annotations={"note": f"\x1b[31m{HOSTILE}"}))
    output = CliRunner().invoke(main, ["preview", str(job)], color=True).output
    assert set(re.findall(r"\x1b(?:\[\d+m)?", output)) == {f"\x1b[{code}m" for code in (0, 1, 31, 32, 36)} - {
        "\x1b[31m"
    }
