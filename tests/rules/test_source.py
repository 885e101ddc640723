"""The table in use: reloaded when its file changes, kept when the new one is broken."""

import logging
from pathlib import Path
from typing import NoReturn

import pytest

from webhook.rules.problems import TableError
from webhook.rules.source import TableSource
from webhook.work import BusyError, FailedError

TABLE = "apiVersion: ultraserver-webhook.io/v1alpha1\nkind: RuleTable\nextends: default\n"


def config_map(folder: Path, text: str, version: str) -> Path:
    """The file of a mounted ConfigMap, swapped by links as the kubelet does it."""
    (folder / version).mkdir()
    (folder / version / "rules.yaml").write_text(text)
    fresh = folder / "..data_tmp"
    fresh.symlink_to(version)
    fresh.rename(folder / "..data")
    path = folder / "rules.yaml"
    if not path.is_symlink():
        path.symlink_to("..data/rules.yaml")
    return path


def test_a_changed_file_is_reloaded_by_a_refresh_and_not_inside_a_review(tmp_path: Path) -> None:
    source = TableSource(config_map(tmp_path, TABLE, "..1"))
    before = source.table().revision
    config_map(tmp_path, TABLE + "mode: shadow\n", "..2")
    assert source.table().revision == before
    source.refresh()
    assert source.table().revision != before
    assert source.watched.problem == ""


BROKEN = ["mode: perhaps\n", "rules: [\n", "\x00"]


@pytest.mark.parametrize("line", BROKEN)
def test_a_broken_file_leaves_the_last_good_table_in_use_and_says_so(
    tmp_path: Path, line: str, caplog: pytest.LogCaptureFixture
) -> None:
    path = config_map(tmp_path, TABLE, "..1")
    source = TableSource(path)
    good = source.table()
    config_map(tmp_path, TABLE + line, "..2")
    with caplog.at_level(logging.ERROR):
        source.refresh()
    assert source.table() is good
    assert str(path) in source.watched.problem
    assert "keeping rule table" in caplog.text
    config_map(tmp_path, TABLE + "mode: shadow\n", "..3")
    source.refresh()
    assert source.table() is not good
    assert source.watched.problem == ""


def test_a_file_that_went_away_leaves_the_last_good_table_in_use(tmp_path: Path) -> None:
    path = config_map(tmp_path, TABLE, "..1")
    source = TableSource(path)
    good = source.table()
    path.unlink()
    source.refresh()
    assert source.table() is good
    assert "rules.yaml" in source.watched.problem


def test_a_broken_file_is_read_once_and_not_for_every_review(tmp_path: Path) -> None:
    source = TableSource(config_map(tmp_path, TABLE, "..1"))
    told: list[str] = []
    source.watched.on_change = told.append
    config_map(tmp_path, "nonsense", "..2")
    for _ in range(5):
        source.refresh()
    assert told == ["refused"]


def test_at_the_start_a_broken_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(TableError, match="maybe"):
        TableSource(config_map(tmp_path, TABLE + "mode: maybe\n", "..1"))


def test_a_table_that_cannot_be_checked_within_its_bounds_is_a_problem_like_any_other(tmp_path: Path) -> None:
    source = TableSource(config_map(tmp_path, TABLE, "..1"))
    config_map(tmp_path, TABLE + "mode: shadow\n", "..2")

    def fails(*_: object) -> NoReturn:
        raise FailedError("it took longer than 8 s")

    source.refresh(fails)
    assert "longer than 8 s" in source.watched.problem


def test_while_other_work_waits_the_table_is_read_later(tmp_path: Path) -> None:
    source = TableSource(config_map(tmp_path, TABLE, "..1"))
    before = source.table()
    config_map(tmp_path, TABLE + "mode: shadow\n", "..2")

    def busy(*_: object) -> NoReturn:
        raise BusyError("later")

    with pytest.raises(BusyError):
        source.refresh(busy)
    assert source.watched.problem == ""
    source.refresh()
    assert source.table() is not before


def test_a_text_longer_than_a_config_map_is_no_table(tmp_path: Path) -> None:
    with pytest.raises(TableError, match="1048576 bytes at most"):
        TableSource(config_map(tmp_path, TABLE + "#" * 1024 * 1024, "..1"))
