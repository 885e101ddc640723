"""A value read from files: read again when they change, kept when they are broken."""

import logging
from pathlib import Path
from unittest.mock import Mock

import pytest

from common import watched
from common.watched import UnusableError, Watched


class Number:
    """A file with a number in it."""

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


def test_a_changed_file_is_reloaded_counted_and_reported(number: Number) -> None:
    number.path.write_text("22")
    assert number.watched.value == 1  # no one has looked yet
    assert number.watched.refresh() == 22
    assert number.changes == ["reloaded"]


def test_a_broken_file_is_read_and_reported_once_and_the_last_good_value_stays(
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


def test_while_one_reads_others_have_the_value_so_far(number: Number) -> None:
    number.path.write_text("22")
    states: list[int] = []

    def slow() -> int:
        states.append(number.watched.refresh())  # as another caller would, at this moment
        return 22

    assert number.watched.refresh(slow) == 22
    assert states == [1]


def test_a_file_that_changes_while_it_is_read_is_read_again(number: Number) -> None:
    number.path.write_text("22")

    def overtaken() -> int:
        number.path.write_text("333")
        return 22

    assert number.watched.refresh(overtaken) == 22
    assert number.watched.refresh() == 333


def test_where_files_cannot_be_used_yet_a_value_to_begin_with_is(number: Number) -> None:
    """Protects placement's start: the packaged units are known with any table files."""
    number.path.write_text("two")
    begun = Watched("number", lambda: [number.path], number.read, logging.getLogger("test"), first=0)
    assert (begun.value, begun.refresh()) == (0, 0)
    assert "two" in begun.problem
    number.path.write_text("333")
    assert (begun.refresh(), begun.problem) == (333, "")
