"""The table in use: reloaded when its file changes, kept when the new one is broken."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import NoReturn

import pytest

from common.tablefiles import read_texts
from tests.rules.tables import mounted
from webhook.compose import load_changed
from webhook.rows.policies import Mode
from webhook.rules.source import TableSource
from webhook.work import BusyError, FailedError


def config_map(folder: Path, text: str, version: str) -> Path:
    """Returns the one file of a mounted ConfigMap."""
    return mounted(folder, version, rules=text) / "rules.yaml"


def test_a_table_that_changes_right_after_it_was_read_at_the_start_is_read_at_the_first_look(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = config_map(tmp_path, "", "..1")

    def overtaken(path: Path) -> Sequence[tuple[str, bytes]]:
        result = read_texts(path)
        config_map(tmp_path, "mode: off\n", "..2")
        return result

    monkeypatch.setattr("webhook.rules.source.read_texts", overtaken)
    source = TableSource(path)
    assert source.table().mode is Mode.ENFORCE
    monkeypatch.undo()
    source.refresh(partial(load_changed, source.work))
    assert source.table().mode is Mode.OFF


def test_a_table_that_cannot_be_checked_within_its_bounds_is_a_problem_like_any_other(tmp_path: Path) -> None:
    source = TableSource(config_map(tmp_path, "", "..1"))
    config_map(tmp_path, "mode: shadow\n", "..2")

    def fails(*_: object) -> NoReturn:
        raise FailedError("it took longer than 8 s")

    source.refresh(partial(load_changed, fails))
    assert "longer than 8 s" in source.watched.problem


def test_while_other_work_waits_the_table_is_read_later(tmp_path: Path) -> None:
    source = TableSource(config_map(tmp_path, "", "..1"))
    before = source.table()
    config_map(tmp_path, "mode: shadow\n", "..2")

    def busy(*_: object) -> NoReturn:
        raise BusyError("later")

    with pytest.raises(BusyError):
        source.refresh(partial(load_changed, busy))
    assert source.watched.problem == ""
    source.refresh(partial(load_changed, source.work))
    assert source.table() is not before


def test_a_changed_table_is_checked_by_long_work_and_then_in_use(tmp_path: Path) -> None:
    source = TableSource(config_map(tmp_path, "", "..1"))
    load = partial(load_changed, source.work)
    config_map(tmp_path, "mode: shadow\n", "..2")
    source.refresh(load)
    assert source.table().mode is Mode.SHADOW
    config_map(tmp_path, "mode: none\n", "..3")
    source.refresh(load)
    assert "rules.yaml:4: mode: must be " in source.watched.problem
    assert source.table().mode is Mode.SHADOW
