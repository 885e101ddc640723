"""Long work is bounded in time and memory, and what waits for it in number and size."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from typing import Any

from tests.serving.conftest import ROOT


def done(what: str) -> Any:
    found = subprocess.run(
        [sys.executable, "-m", "tests.serving.work", what],
        cwd=ROOT,
        capture_output=True,
        check=True,
        timeout=60,
    )
    return json.loads(found.stdout)


def test_each_piece_has_a_process_of_its_own_which_ends_with_it() -> None:
    (first, one), (second, other), own = done("echo")
    assert (first, second) == ("a", "b")
    assert len({one, other, own}) == 3


def test_a_result_of_many_bytes_comes_back_whole() -> None:
    assert done("large") == 8_000_000


def test_work_without_an_end_is_ended() -> None:
    # Of the second that it has, the wait for its turn is a part.
    assert re.fullmatch(r"FailedError: it took longer than (1\.0|0\.\d) s", done("slow"))


TOO_LARGE = "TooLargeError: it takes more than 64 MiB of memory to evaluate"


def test_work_that_wants_too_much_memory_fails_and_the_server_does_not_grow() -> None:
    said, kilobytes = done("greedy")
    assert said == TOO_LARGE
    assert kilobytes < 200_000


def test_a_library_that_crashes_for_want_of_memory_is_too_large_and_no_internal_error() -> None:
    assert done("crash") == TOO_LARGE


def test_an_error_that_came_of_one_of_memory_is_too_large() -> None:
    assert done("chained") == TOO_LARGE


def test_an_error_of_the_work_comes_back_with_its_place() -> None:
    assert done("broken").endswith("RuntimeError: the work is broken\n")


def test_a_process_that_is_killed_fails_its_own_work_only() -> None:
    assert done("fatal") == "FailedError: its process ended with -9"


def test_a_template_that_is_killed_is_replaced() -> None:
    assert done("template") == ["FailedError: the work was given up", "after"]


def test_a_template_that_was_killed_before_a_piece_began_costs_that_piece_nothing() -> None:
    no_process = "BusyError: no process can be started: [Errno 11] Resource temporarily unavailable"
    assert done("idle") == ["slept", no_process, "slept"]


def test_a_turn_that_comes_as_the_wait_ends_leaves_the_queue_going() -> None:
    assert done("together") == ["slept", "slept"]


def test_what_is_shorter_goes_first() -> None:
    assert done("order") == ["1000000 slept", "2000000 slept", "3000000 slept"]


def test_a_long_piece_is_not_passed_for_ever() -> None:
    ended = done("passed by")
    assert "long slept" in ended
    assert len(ended) < 20


BUSY = "BusyError: too much work is waiting; try again"


def test_where_too_much_waits_the_largest_is_refused_not_the_newcomer() -> None:
    assert done("many") == [f"4000000 {BUSY}", "1000000 slept", "2000000 slept", "3000000 slept"]


def test_where_too_many_bytes_wait_the_largest_is_refused() -> None:
    assert done("bytes") == [f"99000000 {BUSY}", "1000000 slept", "2000000 slept"]
