"""Tests that the webhook loads a changed rule table, and keeps the last valid table."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import NoReturn

import pytest

from common.tablefiles import read_texts
from tests.rules.tables import mount_config_map
from webhook.compose import load_changed
from webhook.rows.policies import Mode
from webhook.rules.source import TableSource
from webhook.work import BusyError, FailedError


def config_map(folder: Path, text: str, version: str) -> Path:
    """Writes a version of a mounted ConfigMap with one rule table. Returns the path of the table."""
    return mount_config_map(folder, version, rules=text) / "rules.yaml"


def test_a_table_that_changes_during_the_first_load_is_loaded_again_by_the_first_refresh(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = config_map(tmp_path, "", "..1")

    def read_then_change(path: Path) -> Sequence[tuple[str, bytes]]:
        result = read_texts(path)
        config_map(tmp_path, "mode: off\n", "..2")
        return result

    monkeypatch.setattr("webhook.rules.source.read_texts", read_then_change)
    source = TableSource(path)
    assert source.table().mode is Mode.ENFORCE
    monkeypatch.undo()
    source.refresh(partial(load_changed, source.work))
    assert source.table().mode is Mode.OFF


def test_a_table_whose_check_takes_too_long_is_reported_as_a_problem(tmp_path: Path) -> None:
    source = TableSource(config_map(tmp_path, "", "..1"))
    config_map(tmp_path, "mode: shadow\n", "..2")

    def raise_failed(*_: object) -> NoReturn:
        raise FailedError("it took longer than 8 s")

    source.refresh(partial(load_changed, raise_failed))
    assert "longer than 8 s" in source.watched.problem


def test_a_table_is_loaded_later_if_the_work_process_is_busy(tmp_path: Path) -> None:
    source = TableSource(config_map(tmp_path, "", "..1"))
    before = source.table()
    config_map(tmp_path, "mode: shadow\n", "..2")

    def raise_busy(*_: object) -> NoReturn:
        raise BusyError("later")

    with pytest.raises(BusyError):
        source.refresh(partial(load_changed, raise_busy))
    assert source.watched.problem == ""
    source.refresh(partial(load_changed, source.work))
    assert source.table() is not before


def test_a_changed_table_is_used_only_if_it_is_valid(tmp_path: Path) -> None:
    source = TableSource(config_map(tmp_path, "", "..1"))
    load = partial(load_changed, source.work)
    config_map(tmp_path, "mode: shadow\n", "..2")
    source.refresh(load)
    assert source.table().mode is Mode.SHADOW
    config_map(tmp_path, "mode: none\n", "..3")
    source.refresh(load)
    assert "rules.yaml:4: mode: must be " in source.watched.problem
    assert source.table().mode is Mode.SHADOW
