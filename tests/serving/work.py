"""What `tests.serving.test_longwork` has done as long work.

A program of its own, ``python -m tests.serving.work WHAT``, because long work forks processes.
"""

from __future__ import annotations

import json
import logging
import os
import resource
import signal
import sys
import time

import gevent

from webhook.serving.longwork import LongWork
from webhook.work import BusyError, FailedError


def echo(value: str) -> tuple[str, int]:
    return value, os.getpid()


def slow(seconds: float) -> str:
    time.sleep(seconds)
    return "slept"


def greedy() -> int:
    return len(bytearray(256 * 1024 * 1024))


def broken() -> None:
    raise RuntimeError("the work is broken")


def fatal() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def end_template() -> None:
    os.kill(os.getppid(), signal.SIGKILL)
    time.sleep(5)


def outcome(work: LongWork, size: int, *what: object) -> str:
    """The result as text, or how it failed."""
    try:
        return str(work(size, *what))
    except (BusyError, FailedError) as error:
        return f"{type(error).__name__}: {error}"


def in_turns(work: LongWork, *sizes: int) -> list[str]:
    """Work of these sizes while a piece of it is done: what became of each, in the order of their ends."""
    ended: list[str] = []
    gevent.spawn(work, 0, slow, 0.4)
    gevent.sleep(0.1)
    waiting = [
        gevent.spawn(lambda size=size: ended.append(f"{size} {outcome(work, size, slow, 0)}"))
        for size in sizes
    ]
    gevent.joinall(waiting)
    return ended


def main() -> None:
    """Do what the argument says, and print what came of it as JSON."""
    logging.basicConfig(level=logging.CRITICAL)
    work = LongWork(seconds=1, memory=64 * 1024 * 1024, waiting=3, waiting_bytes=1000)
    parts = {
        "echo": lambda: [work(1, echo, "a"), work(1, echo, "b"), os.getpid()],
        "large": lambda: len(work(1, echo, "x" * 8_000_000)[0]),
        "slow": lambda: outcome(work, 1, slow, 5),
        "greedy": lambda: [outcome(work, 1, greedy), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss],
        "broken": lambda: outcome(work, 1, broken),
        "fatal": lambda: outcome(work, 1, fatal),
        "template": lambda: [outcome(work, 1, end_template), work(1, echo, "after")[0]],
        "order": lambda: in_turns(work, 30, 10, 20),
        "many": lambda: in_turns(work, 10, 40, 20, 30),
        "bytes": lambda: in_turns(work, 10, 990, 20),
    }
    sys.stdout.write(json.dumps(parts[sys.argv[1]]()))


if __name__ == "__main__":
    main()
