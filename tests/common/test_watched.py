"""Tests of values from files: they are reloaded after a change, and kept if the new files are invalid."""

import logging
from pathlib import Path
from unittest.mock import Mock

import pytest

from common import watched
from common.watched import UnusableError, Watched


class Number:
    """A watched file that contains a number."""

    def __init__(self, path: Path) -> None:
        self.path, self.reads, self.until = path, 0, float("inf")
        path.write_text("1")
        self.watched = Watched("number", lambda: [path], self.read, logging.getLogger("test"))
        self.changes: list[str] = []
        self.watched.on_change = self.changes.append

    def read(self) -> int:
        """Returns the number."""
        self.reads += 1
        try:
            return int(self.path.read_text())
        except ValueError as error:
            raise UnusableError(str(error), self.until) from error


@pytest.fixture
def number(tmp_path: Path) -> Number:
    return Number(tmp_path / "number")


def test_a_file_that_did_not_change_is_not_read_again(number: Number) -> None:
    assert [number.watched.refresh() for _ in range(3)] == [1, 1, 1]
    assert number.reads == 1


def test_a_changed_file_is_reloaded_at_the_next_refresh_and_reported(number: Number) -> None:
    number.path.write_text("22")
    assert number.watched.value == 1  # before the next refresh
    assert number.watched.refresh() == 22
    assert number.changes == ["reloaded"]


def test_an_invalid_file_is_read_and_reported_once_and_the_last_valid_value_stays(
    number: Number, caplog: pytest.LogCaptureFixture
) -> None:
    number.path.write_text("two")
    assert [number.watched.refresh() for _ in range(3)] == [1, 1, 1]
    assert (number.reads, number.changes) == (2, ["refused"])
    assert "two" in number.watched.problem
    assert caplog.text.count("keeping number as it was") == 1
    number.path.write_text("333")
    assert number.watched.refresh() == 333
    assert number.watched.problem == ""


def test_a_file_that_may_become_valid_is_retried_and_reported_once(
    number: Number, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Mock(time=Mock(return_value=1000.0))
    monkeypatch.setattr(watched, "time", clock)
    number.until = 1005.0
    number.path.write_text("two")
    number.watched.refresh()
    clock.time.return_value = 1004.9
    number.watched.refresh()
    assert number.reads == 2
    clock.time.return_value = 1005.0
    number.watched.refresh()
    assert (number.reads, number.changes) == (3, ["refused"])


def test_other_callers_get_the_old_value_during_a_refresh(number: Number) -> None:
    number.path.write_text("22")
    values: list[int] = []

    def slow_read() -> int:
        values.append(number.watched.refresh())  # as another thread would at this moment
        return 22

    assert number.watched.refresh(slow_read) == 22
    assert values == [1]


def test_a_file_that_changes_while_it_is_read_is_read_again(number: Number) -> None:
    number.path.write_text("22")

    def read_too_early() -> int:
        number.path.write_text("333")
        return 22

    assert number.watched.refresh(read_too_early) == 22
    assert number.watched.refresh() == 333


def test_the_first_value_is_used_until_the_files_are_valid(number: Number) -> None:
    """Protects the start of the placement program, which uses the units of the packaged table until then."""
    number.path.write_text("two")
    watched_number = Watched("number", lambda: [number.path], number.read, logging.getLogger("test"), first=0)
    assert (watched_number.value, watched_number.refresh()) == (0, 0)
    assert "two" in watched_number.problem
    number.path.write_text("333")
    assert (watched_number.refresh(), watched_number.problem) == (333, "")
