"""What `tests.serving.test_longwork` has done as long work.

A program of its own, ``python -m tests.serving.work``, because long work forks processes.
"""

import json
import logging
import os
import signal
import sys
from collections.abc import Callable

import gevent

from testbed.plane.process import most_memory
from webhook.serving.longwork import LongWork
from webhook.work import BusyError, FailedError


def echo(value: str) -> tuple[str, int]:
    return value, os.getpid()


def endless() -> None:
    signal.pause()


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


def killed() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def end_template() -> None:
    os.kill(os.getppid(), signal.SIGKILL)
    os._exit(0)


def outcome(work: LongWork, size: int, *what: object) -> str:
    """The result as text, or how it failed."""
    try:
        return str(work(size, *what))
    except (BusyError, FailedError) as error:
        return f"{type(error).__name__}: {error}"


def killed_while_idle(work: LongWork) -> list[str]:
    """A piece after the template was killed, one while no process can be started, and one after that."""
    pid = work._template._pid  # noqa: SLF001 - the process that is to be killed
    assert pid
    os.kill(pid, signal.SIGKILL)
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)  # it has ended, and can be waited for again
    found = [outcome(work, 1, str, "before")]
    fork, os.fork = os.fork, _no_process
    work._template._stop()  # noqa: SLF001
    found.append(outcome(work, 1, str, "between"))
    os.fork = fork
    return [*found, outcome(work, 1, str, "after")]


def _no_process() -> int:
    raise BlockingIOError(11, "Resource temporarily unavailable")


def main() -> None:
    """Do every part, and print what came of it as JSON."""
    logging.basicConfig(level=logging.CRITICAL)
    parts: dict[str, Callable[[LongWork], object]] = {
        "echo": lambda work: [work(1, echo, "a"), work(1, echo, "b"), os.getpid()],
        "large": lambda work: len(work(1, echo, "x" * 8_000_000)[0]),
        "greedy": lambda work: [outcome(work, 1, greedy), most_memory(os.getpid())],
        "crash": lambda work: outcome(work, 1, crash),
        "chained": lambda work: outcome(work, 1, chained),
        "broken": lambda work: outcome(work, 1, broken),
        "killed": lambda work: outcome(work, 1, killed),
        "template": lambda work: [outcome(work, 1, end_template), work(1, echo, "after")[0]],
        "idle": killed_while_idle,
    }
    most = {"memory": 64 * 1024 * 1024}
    given_up = gevent.spawn(outcome, LongWork(seconds=1, **most), 1, endless)
    found = {name: part(LongWork(seconds=30, **most)) for name, part in parts.items()}
    found["endless"] = given_up.get()
    sys.stdout.write(json.dumps(found))


if __name__ == "__main__":
    main()
