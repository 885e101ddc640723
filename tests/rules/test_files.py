"""Tests of rule tables in several files: each file changes the table of the files before it."""

import re
from functools import partial
from pathlib import Path

import pytest
import yaml

from common.tablefiles import MOST_BYTES, MOST_FILES, PROFILES, packaged_texts
from tests.helpers import load_text
from tests.rules.tables import EXTENDS, STANDALONE, mount_config_map
from webhook.compose import load_changed
from webhook.documents import dump_yaml
from webhook.rows.policies import Mode
from webhook.rows.table import Table
from webhook.rules import messages
from webhook.rules.load import default_draft, installed_draft, load_installed, load_texts
from webhook.rules.problems import TableError
from webhook.rules.source import TableSource

ROW = "rules:\n  - name: {0}\n    reason: for {0}\n    match: {{role: worker}}\n    warn: {0}\n"


def write_tables(folder: Path, **files: str) -> Path:
    folder.mkdir(exist_ok=True)
    for name, text in files.items():
        (folder / f"{name}.yaml").write_text(EXTENDS + text)
    return folder


def own_rules(table: Table) -> list[str]:
    return [rule.name for rule in table.rules if rule.name in {"a", "b", "c"}]


def load_problems(folder: Path) -> list[str]:
    with pytest.raises(TableError) as caught:
        load_installed(folder)
    return [str(problem).removeprefix(f"{folder}/") for problem in caught.value.problems]


def test_no_packaged_row_uses_a_yaml_anchor() -> None:
    """Protects users who copy a packaged row into their own table."""
    for profile in PROFILES:
        for text in packaged_texts(profile).values():
            tokens = yaml.scan(text)
            assert [token for token in tokens if isinstance(token, yaml.AnchorToken | yaml.AliasToken)] == []


def test_the_files_of_a_directory_are_one_table_and_later_files_take_precedence(tmp_path: Path) -> None:
    folder = write_tables(
        tmp_path,
        **{
            "10-one": "values: {waitSeconds: '1', own: one}\n" + ROW.format("a"),
            "20-two": "values: {waitSeconds: '2'}\nmode: shadow\n" + ROW.format("b"),
            "rules": "rules:\n  - {name: a, mode: 'off'}\n",
        },
    )
    (folder / "notes.txt").write_text("[")
    (folder / ".hidden.yaml").write_text("[")
    table = load_installed(folder)
    values = installed_draft(folder).raw["values"]
    assert (values["waitSeconds"], values["own"]) == ("2", "one")
    assert own_rules(table) == ["a", "b"]
    assert (table.mode, table.rules[-2].mode) == (Mode.SHADOW, Mode.OFF)


def test_a_new_shape_of_a_later_file_is_tried_first(tmp_path: Path) -> None:
    shape = "families: [{{name: trn2u, shapes: [{{name: {0}, workers: {1}, nodeConfig: 1}}]}}]\n"
    folder = write_tables(tmp_path, a=shape.format("threes", "multiple of 3"), b=shape.format("three", 3))
    assert [shape.name for shape in load_installed(folder).shapes[:3]] == ["three", "threes", "single-node"]


def test_a_rule_can_need_a_rule_of_an_earlier_file_but_not_of_a_later_file(tmp_path: Path) -> None:
    needing = ROW.format("b") + "    needs: a\n"
    assert own_rules(
        load_installed(write_tables(tmp_path / "x", **{"1": ROW.format("a"), "2": needing}))
    ) == ["a", "b"]
    (problem,) = load_problems(write_tables(tmp_path / "y", **{"1": needing, "2": ROW.format("a")}))
    assert problem == f"1.yaml:9: rules[0].needs: {messages.not_earlier('a')}"


def test_a_problem_has_its_file_and_line(tmp_path: Path) -> None:
    folder = write_tables(
        tmp_path,
        **{
            "1": ROW.format("a") + ROW.format("b").removeprefix("rules:\n"),
            "2": "rules:\n  - name: b\n    needs: nothing\n  - name: a\n    warn: '$(job.nam)'\n",
            "3": "rules:\n  - name: a\n    reason: again\n",
        },
    )
    lines = load_problems(folder)
    assert [line.split(": ")[:2] for line in lines] == [
        ["2.yaml:6", "rules[0].needs"],
        ["2.yaml:8", "rules[1].warn"],
    ]


def test_the_problems_of_all_files_are_reported_at_once(tmp_path: Path) -> None:
    lines = load_problems(write_tables(tmp_path, a="mode: perhaps\n", b="modes: {}\n"))
    assert [line.split(":")[:2] for line in lines] == [["a.yaml", "4"], ["b.yaml", "4"]]
    (tmp_path / "0.yaml").write_text("a: b: c\n")
    (tmp_path / "c.yaml").write_text("")
    assert [line.split(":")[0] for line in load_problems(tmp_path)] == [
        "0.yaml",
        "a.yaml",
        "b.yaml",
        "c.yaml",
    ]
    unnamed = "rules:\n  - name: unnamed\n    warn: x\n"
    lines = load_problems(write_tables(tmp_path / "strays", a=unnamed, b=unnamed.replace("unnamed", "none")))
    assert [line.split(": ")[:2] for line in lines] == [["a.yaml:5", "rules[0]"], ["b.yaml:5", "rules[0]"]]


def test_only_the_first_file_can_omit_extends() -> None:
    table = dump_yaml(default_draft().raw)
    texts = [("1.yaml", table), ("2.yaml", EXTENDS + ROW.format("a"))]
    assert own_rules(load_texts(texts, "table")) == ["a"]
    # The first file can also omit the optional sections.
    assert own_rules(load_texts([("1.yaml", STANDALONE), texts[1]], "table")) == ["a"]
    with pytest.raises(TableError, match="^" + re.escape(f"2.yaml:1: {messages.EXTENDS_MISSING}")):
        load_texts([("1.yaml", EXTENDS), ("2.yaml", table)], "table")


def test_a_directory_without_a_table_is_refused(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("")
    with pytest.raises(TableError, match=re.escape(messages.no_files(".yaml or .yml"))):
        load_installed(tmp_path)


def test_all_files_together_have_a_maximum_size_and_number() -> None:
    texts = [(f"{number}.yaml", EXTENDS + "#" * (MOST_BYTES // 2)) for number in range(2)]
    with pytest.raises(TableError, match=messages.too_long(MOST_BYTES)):
        load_texts(texts, "table")
    with pytest.raises(TableError, match=messages.too_many_files(65, MOST_FILES)):
        load_texts([(f"{number}.yaml", EXTENDS) for number in range(MOST_FILES + 1)], "table")


def test_an_added_changed_or_removed_file_changes_the_table_in_use(tmp_path: Path) -> None:
    source = TableSource(mount_config_map(tmp_path, "..1", rules=""))
    assert source.table().revision == load_text(EXTENDS, "x").revision
    for version, files, rows in (
        ("..2", {"10-one": ROW.format("a"), "rules": ""}, ["a"]),
        ("..3", {"10-one": ROW.format("b"), "rules": ROW.format("c")}, ["b", "c"]),
        ("..4", {"rules": ROW.format("c")}, ["c"]),
    ):
        source.refresh(partial(load_changed, source.work))
        before = source.table()
        mount_config_map(tmp_path, version, **files)
        assert source.table() is before
        source.refresh(partial(load_changed, source.work))
        assert own_rules(source.table()) == rows
    assert source.watched.problem == ""


@pytest.mark.parametrize("name", ["", "rules.yaml"], ids=["directory", "file"])
def test_a_removed_table_leaves_the_last_valid_table_in_use(tmp_path: Path, name: str) -> None:
    folder = write_tables(tmp_path / "rules", rules=ROW.format("a"))
    source = TableSource(folder / name)
    valid = source.table()
    folder.rename(tmp_path / "removed")
    source.refresh(partial(load_changed, source.work))
    assert source.table() is valid
    assert "rules" in source.watched.problem
    (tmp_path / "removed").rename(folder)
    source.refresh(partial(load_changed, source.work))
    assert source.watched.problem == ""
