"""What `tests.serving.test_longwork` has done as long work.

A program of its own, ``python -m tests.serving.work WHAT``, because long work forks processes.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import sys
import time
from pathlib import Path

import gevent

from webhook.serving.longwork import LongWork
from webhook.work import BusyError, FailedError


def echo(value: str) -> tuple[str, int]:
    return value, os.getpid()


def most_kilobytes() -> int:
    """The most memory that this process ever had; `getrusage` would count that of its parent."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith("VmHWM:")))


def slow(seconds: float) -> str:
    time.sleep(seconds)
    return "slept"


def greedy() -> int:
    return len(bytearray(256 * 1024 * 1024))


def crash() -> None:
    os.kill(os.getpid(), signal.SIGSEGV)


def chained() -> None:
    try:
        greedy()
    except MemoryError as error:
        raise RuntimeError("a library's own") from error


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


def together(work: LongWork) -> list[str]:
    """A turn that comes in the same moment as the end of its wait, and two pieces after it."""
    ended: list[str] = []
    first = gevent.spawn(work, 1, slow, 0.93)
    second = gevent.spawn(lambda: outcome(work, 1, slow, 0.01))
    gevent.sleep(0.85)
    time.sleep(0.25)  # a short review on the loop, during which both become due
    gevent.joinall([first, second])
    ended += [outcome(work, 1, slow, 0), outcome(work, 1, slow, 0)]
    return ended


def passed_by(work: LongWork) -> list[str]:
    """A long piece while short ones keep coming for longer than it weighs: what was done before it."""
    ended: list[str] = []
    gevent.spawn(work, 0, slow, 0.1)
    gevent.sleep(0.01)
    long = gevent.spawn(lambda: ended.append(f"long {outcome(work, 80_000, slow, 0)}"))

    def flood() -> None:
        while not long.dead:
            ended.append(f"short {outcome(work, 1, slow, 0.05)}")

    gevent.joinall([gevent.spawn(flood), gevent.spawn(flood), long])
    return ended


def killed_while_idle(work: LongWork) -> list[str]:
    """A piece after the template was killed, and one while no process can be started."""
    pid = work._template._pid  # noqa: SLF001 - the process that is to be killed
    assert pid
    os.kill(pid, signal.SIGKILL)
    time.sleep(0.1)
    found = [outcome(work, 1, slow, 0)]
    fork, os.fork = os.fork, _no_process
    work._template._stop()  # noqa: SLF001
    found.append(outcome(work, 1, slow, 0))
    os.fork = fork
    return [*found, outcome(work, 1, slow, 0)]


def _no_process() -> int:
    raise BlockingIOError(11, "Resource temporarily unavailable")


def main() -> None:
    """Do what the argument says, and print what came of it as JSON."""
    logging.basicConfig(level=logging.CRITICAL)
    work = LongWork(seconds=1, memory=64 * 1024 * 1024, waiting=3, waiting_bytes=100_000_000)
    parts = {
        "echo": lambda: [work(1, echo, "a"), work(1, echo, "b"), os.getpid()],
        "large": lambda: len(work(1, echo, "x" * 8_000_000)[0]),
        "slow": lambda: outcome(work, 1, slow, 5),
        "greedy": lambda: [outcome(work, 1, greedy), most_kilobytes()],
        "crash": lambda: outcome(work, 1, crash),
        "chained": lambda: outcome(work, 1, chained),
        "broken": lambda: outcome(work, 1, broken),
        "fatal": lambda: outcome(work, 1, fatal),
        "template": lambda: [outcome(work, 1, end_template), work(1, echo, "after")[0]],
        "together": lambda: together(work),
        "passed by": lambda: passed_by(work),
        "idle": lambda: killed_while_idle(work),
        "order": lambda: in_turns(work, 3_000_000, 1_000_000, 2_000_000),
        "many": lambda: in_turns(work, 1_000_000, 4_000_000, 2_000_000, 3_000_000),
        "bytes": lambda: in_turns(work, 1_000_000, 99_000_000, 2_000_000),
    }
    sys.stdout.write(json.dumps(parts[sys.argv[1]]()))


if __name__ == "__main__":
    main()
