"""Long work is bounded in time and memory, and what waits for it in number and size."""

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
def printed() -> subprocess.CompletedProcess[str]:
    """What `tests.serving.work` prints, whose pipes are closed once all of its processes have ended."""
    words = [sys.executable, "-m", "tests.serving.work"]
    return subprocess.run(words, cwd=ROOT, capture_output=True, check=True, timeout=PATIENCE, text=True)


@pytest.fixture(scope="module")
def done(printed: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    """The result of every part of `tests.serving.work`."""
    made: dict[str, Any] = json.loads(printed.stdout)
    return made


def test_long_work_runs_in_one_process_next_to_the_serving_one(done: dict[str, Any]) -> None:
    own, first, second = done["processes"]
    assert own != first == second


def test_work_without_an_end_is_ended(done: dict[str, Any]) -> None:
    """Protects the reviews that wait behind it."""
    assert done["endless"] == "FailedError: it took longer than 0.5 s"


def test_work_of_too_much_memory_fails_and_the_server_does_not_grow(done: dict[str, Any]) -> None:
    message, most = done["greedy"]
    assert message == TOO_LARGE
    assert 0 < most < 200_000_000


@pytest.mark.parametrize(
    ("part", "obj"),
    [
        ("table", True),
        ("large", 8_000_000),
        ("chained", TOO_LARGE),
        ("broken", "RuntimeError: the work is broken"),
        ("crash", [TOO_LARGE, "after"]),
    ],
    ids=[
        "the process has the table in use",
        "a result of many bytes comes back whole",
        "an error that came of one of memory is too large",
        "an error of the work is raised where it is waited for",
        "a process that crashes, because it lacks memory, fails its own work only",
    ],
)
def test_the_outcome_of_a_piece(done: dict[str, Any], part: str, obj: Any) -> None:
    assert done[part] == obj


def test_the_process_logs_as_the_one_that_serves(printed: subprocess.CompletedProcess[str]) -> None:
    assert "this is in the log" in printed.stderr


class Queue:
    """Long work whose pieces are done when the test says so, by a clock that the test moves."""

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
        assert self._working[-1].wait(PATIENCE), (
            f"{name} did not receive the request to end within {PATIENCE:.0f} s"
        )
        return f"{name} done"

    def add(self, name: str, size: int) -> None:
        """A piece that begins, or waits for its turn."""

        def piece() -> None:
            try:
                self.ended.append(self.work(size, name))
            except BusyError:
                self.ended.append(f"{name} refused")

        # Called as ``work(size, function)``: the name stands for the function.
        gevent.spawn(piece)
        settle()

    def end(self) -> None:
        """Ends the piece that is being done."""
        self._working.pop(0).set()
        settle()

    def end_all(self) -> list[str]:
        """Ends every piece in its turn; the result of each, in the order of their ends."""
        while self._working:
            self.end()
        return self.ended


def settle() -> None:
    """Lets every greenlet go on until it waits."""
    for _ in range(5):
        gevent.sleep(0)


@pytest.fixture
def queue(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Queue]:
    return lambda **bounds: Queue(monkeypatch, **bounds)


def test_the_shorter_job_goes_first(queue: Callable[..., Queue]) -> None:
    waiting = queue()
    for name, size in (("first", 0), ("long", 3_000_000), ("short", 1_000_000), ("medium", 2_000_000)):
        waiting.add(name, size)
    assert waiting.end_all() == ["first done", "short done", "medium done", "long done"]


def test_a_long_piece_is_passed_only_by_what_came_little_after_it(queue: Callable[..., Queue]) -> None:
    waiting = queue()
    waiting.add("first", 0)
    waiting.add("long", 256 * 1024)  # weighs a second
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
def test_where_too_much_waits_the_largest_is_refused_not_the_newcomer(
    queue: Callable[..., Queue], bounds: dict[str, int], sizes: tuple[int, ...]
) -> None:
    waiting = queue(**bounds)
    waiting.add("0", 0)
    for size in sizes:
        waiting.add(f"{size}", size)
    assert waiting.end_all() == [f"{sizes[1]} refused", "0 done", "1 done", "2 done", "3 done"]


def test_a_piece_whose_time_is_over_when_its_turn_comes_is_not_begun(queue: Callable[..., Queue]) -> None:
    waiting = queue()
    waiting.add("first", 0)
    waiting.add("second", 0)
    waiting.now += 5
    assert waiting.end_all() == ["first done", "second refused"]
