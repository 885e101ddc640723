"""The process for long work, with limits on its time and memory."""

import logging.config
import multiprocessing
import os
import resource
import signal
import threading
from collections.abc import Callable
from typing import Any

from webhook.rules.source import TableTexts, table_of
from webhook.work import TooLargeError

NICE = 10
"""Its niceness, so that the serving loop comes first on a single processor."""


def begin(written: TableTexts, memory: int, log: dict[str, Any]) -> None:
    """Prepares the process: it logs as its parent does, ends with it, and may grow by ``memory`` bytes."""
    logging.config.dictConfig(log)
    os.nice(NICE)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT):
        signal.signal(number, signal.SIG_IGN)  # it ends when its parent ends
    threading.Thread(target=_end_with_parent, daemon=True).start()
    table_of(written)
    with open("/proc/self/statm") as statm:  # noqa: PTH123 - the shortest way
        size = int(statm.read().split()[0]) * resource.getpagesize()
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (size + memory, hard))


def work(seconds: float, written: TableTexts, function: Callable[..., Any], *arguments: Any) -> Any:  # noqa: ANN401
    """Does one piece of work; a signal kills the process if it takes too many seconds.

    Raises:
        TooLargeError: The work needs too much memory.
    """
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        return function(table_of(written), *arguments)
    except Exception as error:
        if isinstance(error, MemoryError) or isinstance(error.__context__, MemoryError):
            raise TooLargeError from error
        raise
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)  # no signal while it answers


def _end_with_parent() -> None:
    if parent := multiprocessing.parent_process():
        parent.join()
        os._exit(0)
