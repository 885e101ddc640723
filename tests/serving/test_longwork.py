"""Tests of the limits on long work: its time and memory, and the number and size of waiting calls."""

import json
import subprocess
import sys
from collections.abc import Callable
from typing import Any
from unittest.mock import Mock

import gevent
import pytest
from gevent.event import Event

from tests.serving.conftest import PATIENCE, ROOT
from webhook.serving import longwork
from webhook.serving.longwork import LongWork
from webhook.work import BusyError

TOO_LARGE = "TooLargeError: it takes more than 64 MiB of memory to evaluate"


@pytest.fixture(scope="module")
def output() -> subprocess.CompletedProcess[str]:
    """The output of `tests.serving.work`, which is complete once all its processes have ended."""
    command = [sys.executable, "-m", "tests.serving.work"]
    return subprocess.run(command, cwd=ROOT, capture_output=True, check=True, timeout=PATIENCE, text=True)


@pytest.fixture(scope="module")
def results(output: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    """The results of `tests.serving.work`, by the name of the piece of work."""
    results: dict[str, Any] = json.loads(output.stdout)
    return results


def test_long_work_runs_in_one_other_process(results: dict[str, Any]) -> None:
    own, first, second = results["processes"]
    assert own != first == second


def test_endless_work_fails_after_a_time(results: dict[str, Any]) -> None:
    """Protects the reviews that wait for this work."""
    assert results["endless"] == "FailedError: it took longer than 0.5 s"


def test_work_that_needs_too_much_memory_fails_and_the_server_does_not_grow(results: dict[str, Any]) -> None:
    message, max_bytes = results["greedy"]
    assert message == TOO_LARGE
    assert 0 < max_bytes < 200_000_000


@pytest.mark.parametrize(
    ("part", "expected"),
    [
        ("table", True),
        ("large", 8_000_000),
        ("chained", TOO_LARGE),
        ("broken", "RuntimeError: the work is broken"),
        ("crash", [TOO_LARGE, "after"]),
    ],
    ids=[
        "the process has the table in use",
        "a result of many bytes is returned whole",
        "an error whose cause is a lack of memory is reported as too large",
        "an error of the work is raised in the call",
        "a process that crashes fails only its own work",
    ],
)
def test_the_result_of_a_piece_of_work(results: dict[str, Any], part: str, expected: Any) -> None:
    assert results[part] == expected


def test_the_other_process_uses_the_log_of_the_server(output: subprocess.CompletedProcess[str]) -> None:
    assert "this is in the log" in output.stderr


class Queue:
    """Long work whose pieces end when the test ends them. The test sets the clock."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, **bounds: int) -> None:
        self.now = 100.0
        self.ended: list[str] = []
        self._working: list[Event] = []
        monkeypatch.setattr(longwork, "ProcessPoolExecutor", lambda *_: Mock(submit=lambda *call: call[-1]))
        monkeypatch.setattr(longwork, "result_of", self._run)
        monkeypatch.setattr(longwork, "time", Mock(monotonic=lambda: self.now))
        for name, value in bounds.items():
            monkeypatch.setattr(longwork, name, value)
        self.work = LongWork(Mock(), {})

    def _run(self, name: str) -> str:
        self._working.append(Event())
        assert self._working[-1].wait(PATIENCE), f"the test did not end {name} within {PATIENCE:.0f} s"
        return f"{name} done"

    def add(self, name: str, size: int) -> None:
        """Adds a piece of work, which begins or waits for its turn."""

        def piece() -> None:
            try:
                self.ended.append(self.work(size, name))
            except BusyError:
                self.ended.append(f"{name} refused")

        # LongWork gets the name in place of a function, and `_run` gets the name in place of a future.
        gevent.spawn(piece)
        run_greenlets()

    def end(self) -> None:
        """Ends the piece that is running."""
        self._working.pop(0).set()
        run_greenlets()

    def end_all(self) -> list[str]:
        """Ends all pieces, one after the other; returns their results in the order of their ends."""
        while self._working:
            self.end()
        return self.ended


def run_greenlets() -> None:
    """Lets every greenlet run until it waits."""
    for _ in range(5):
        gevent.sleep(0)


@pytest.fixture
def queue(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Queue]:
    return lambda **bounds: Queue(monkeypatch, **bounds)


def test_shorter_work_goes_first(queue: Callable[..., Queue]) -> None:
    waiting = queue()
    for name, size in (("first", 0), ("long", 3_000_000), ("short", 1_000_000), ("medium", 2_000_000)):
        waiting.add(name, size)
    assert waiting.end_all() == ["first done", "short done", "medium done", "long done"]


def test_only_work_that_arrives_soon_after_a_long_piece_overtakes_it(queue: Callable[..., Queue]) -> None:
    waiting = queue()
    waiting.add("first", 0)
    waiting.add("long", 256 * 1024)  # this size is a delay of one second
    for number in range(10):
        waiting.now += 0.3
        waiting.add(f"short {number}", 0)
        waiting.end()
    assert waiting.ended.index("long done") == 4


@pytest.mark.parametrize(
    ("bounds", "sizes"),
    [({"_MOST_CALLS": 3}, (1, 4, 2, 3)), ({"_MOST_BYTES": 6}, (1, 5, 2, 3))],
    ids=["too many pieces", "too many bytes"],
)
def test_if_too_much_work_waits_the_largest_piece_is_refused_and_not_the_newest(
    queue: Callable[..., Queue], bounds: dict[str, int], sizes: tuple[int, ...]
) -> None:
    waiting = queue(**bounds)
    waiting.add("0", 0)
    for size in sizes:
        waiting.add(f"{size}", size)
    assert waiting.end_all() == [f"{sizes[1]} refused", "0 done", "1 done", "2 done", "3 done"]


def test_a_piece_whose_time_is_over_before_its_turn_is_not_begun(queue: Callable[..., Queue]) -> None:
    waiting = queue()
    waiting.add("first", 0)
    waiting.add("second", 0)
    waiting.now += 5
    assert waiting.end_all() == ["first done", "second refused"]
