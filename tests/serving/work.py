"""Does pieces of long work and prints their results, for `tests.serving.test_longwork`.

It is a separate program, ``python -m tests.serving.work``, because long work starts processes.
"""

import json
import logging
import os
import signal
import sys
from collections.abc import Callable

from testbed.plane.process import max_memory
from webhook.rows.table import Table
from webhook.rules.source import TableSource
from webhook.serving.longwork import LongWork
from webhook.work import BusyError, FailedError

LOG = {"version": 1, "handlers": {"err": {"class": "logging.StreamHandler"}}, "root": {"handlers": ["err"]}}
MIB = 1024 * 1024


def revision(table: Table) -> str:
    return table.revision


def repeated(_: Table, text: str) -> str:
    return text


def process(_: Table) -> int:
    return os.getpid()


def endless(_: Table) -> None:
    while True:
        pass


def greedy(_: Table) -> int:
    return len(bytearray(256 * MIB))


def chained(table: Table) -> None:
    try:
        greedy(table)
    except MemoryError as error:
        raise RuntimeError("a library's own") from error


def crash(_: Table) -> None:
    os.kill(os.getpid(), signal.SIGSEGV)


def broken(_: Table) -> None:
    logging.getLogger().warning("this is in the log")
    raise RuntimeError("the work is broken")


def outcome(work: LongWork, *call: object) -> str:
    """Returns the result of a piece of long work as text, or the error."""
    try:
        return str(work(1, *call))
    except (BusyError, FailedError, RuntimeError) as error:
        return f"{type(error).__name__}: {error}"


def main() -> None:
    """Does every piece of work, and prints the results as JSON."""
    source = TableSource()
    parts: dict[str, Callable[[LongWork], object]] = {
        "table": lambda work: work(1, revision) == source.table().revision,
        "processes": lambda work: [os.getpid(), work(1, process), work(1, process)],
        "large": lambda work: len(work(1, repeated, "x" * 8_000_000)),
        "greedy": lambda work: [outcome(work, greedy), max_memory(os.getpid())],
        "chained": lambda work: outcome(work, chained),
        "broken": lambda work: outcome(work, broken),
        "crash": lambda work: [outcome(work, crash), outcome(work, repeated, "after")],
    }
    work = LongWork(source, LOG, seconds=30)
    result = {name: part(work) for name, part in parts.items()}
    work._seconds = 0.5  # noqa: SLF001 - the other pieces need more time on a busy machine
    result["endless"] = outcome(work, endless)
    sys.stdout.write(json.dumps(result))
    sys.stdout.flush()
    os._exit(0)  # like a server that is killed: the processes of its work must end by themselves


if __name__ == "__main__":
    main()
