"""Long work is bounded in time and memory, and what waits for it in number and size."""

import json
import re
import subprocess
import sys
import time
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
NO_PROCESS = "BusyError: no process can be started: [Errno 11] Resource temporarily unavailable"


@pytest.fixture(scope="module")
def done() -> dict[str, Any]:
    """What came of every part of `tests.serving.work`, which one process does: long work forks."""
    words = [sys.executable, "-m", "tests.serving.work"]
    found = subprocess.run(words, cwd=ROOT, capture_output=True, check=True, timeout=PATIENCE)
    made: dict[str, Any] = json.loads(found.stdout)
    return made


def test_each_piece_has_a_process_of_its_own_which_ends_with_it(done: dict[str, Any]) -> None:
    (first, one), (second, other), own = done["echo"]
    assert (first, second) == ("a", "b")
    assert len({one, other, own}) == 3


def test_work_without_an_end_is_ended(done: dict[str, Any]) -> None:
    # Of the time that it has, the wait for its turn is a part.
    assert re.fullmatch(r"FailedError: it took longer than (1\.0|0\.\d) s", done["endless"])


def test_work_that_wants_too_much_memory_fails_and_the_server_does_not_grow(done: dict[str, Any]) -> None:
    said, most = done["greedy"]
    assert said == TOO_LARGE
    assert 0 < most < 200_000_000


@pytest.mark.parametrize(
    ("part", "found"),
    [
        ("large", 8_000_000),
        ("crash", TOO_LARGE),
        ("chained", TOO_LARGE),
        ("killed", "FailedError: its process ended with -9"),
        ("template", ["FailedError: the work was given up", "after"]),
        ("idle", ["before", NO_PROCESS, "after"]),
    ],
    ids=[
        "a result of many bytes comes back whole",
        "a library that crashes for want of memory is too large and no internal error",
        "an error that came of one of memory is too large",
        "a process that is killed fails its own work only",
        "a template that is killed is replaced",
        "a template that was killed before a piece began costs that piece nothing",
    ],
)
def test_a_piece_that_goes_wrong_is_told_as_what_it_is(done: dict[str, Any], part: str, found: Any) -> None:
    assert done[part] == found


def test_an_error_of_the_work_comes_back_with_its_place(done: dict[str, Any]) -> None:
    assert done["broken"].endswith("RuntimeError: the work is broken\n")


class Queue:
    """Long work whose pieces are done when the test says so, by a clock that the test moves."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, **bounds: Any) -> None:
        self.now = 100.0
        self.ended: list[str] = []
        self._working: list[Event] = []
        monkeypatch.setattr(longwork, "Template", lambda *_: Mock(run=self._run))
        monkeypatch.setattr(longwork, "time", Mock(monotonic=lambda: self.now))
        self.work = LongWork(**bounds)

    def _run(self, _seconds: float, name: str) -> str:
        self._working.append(Event())
        assert self._working[-1].wait(PATIENCE), f"{name} was not told to end within {PATIENCE:.0f} s"
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
        """End the piece that is being done."""
        self._working.pop(0).set()
        settle()

    def end_all(self) -> list[str]:
        """End every piece in its turn; what became of each, in the order of their ends."""
        while self._working:
            self.end()
        return self.ended


def settle() -> None:
    """Let every greenlet go on until it waits."""
    for _ in range(5):
        gevent.sleep(0)


@pytest.fixture
def queue(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Queue]:
    return lambda **bounds: Queue(monkeypatch, **bounds)


def test_what_is_shorter_goes_first(queue: Callable[..., Queue]) -> None:
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
    [({"waiting": 3}, (1, 4, 2, 3)), ({"waiting_bytes": 6}, (1, 5, 2, 3))],
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


def test_a_turn_that_comes_as_the_wait_ends_leaves_the_queue_going(queue: Callable[..., Queue]) -> None:
    waiting = queue(seconds=0.05)
    waiting.add("first", 0)
    waiting.add("second", 0)
    waiting._working.pop(0).set()  # noqa: SLF001 - no greenlet may go on yet
    hold_up_the_loop(0.1)
    settle()
    waiting.add("third", 0)
    assert waiting.end_all()[0] == "first done"
    assert waiting.ended[-1] == "third done"


def hold_up_the_loop(seconds: float) -> None:
    """As a review on the loop does, during which both a wait's end and a turn become due."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        pass
