"""The other side of long work: the process that does it, within time and memory."""

import logging.config
import multiprocessing
import os
import resource
import signal
import threading
from collections.abc import Callable
from typing import Any

from webhook.rules.source import Written, table_of
from webhook.work import TooLargeError

NICE = 10
"""How far it stands behind the loop that serves where there is one processor."""


def begin(written: Written, memory: int, log: dict[str, Any]) -> None:
    """Prepare the process: it logs as the one that serves, ends with it, and grows by ``memory`` at most."""
    logging.config.dictConfig(log)
    os.nice(NICE)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT):
        signal.signal(number, signal.SIG_IGN)  # it ends with the process that it works for
    threading.Thread(target=_end_with_parent, daemon=True).start()
    table_of(written)
    with open("/proc/self/statm") as statm:  # noqa: PTH123 - the shortest way
        size = int(statm.read().split()[0]) * resource.getpagesize()
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (size + memory, hard))


def work(seconds: float, written: Written, function: Callable[..., Any], *arguments: Any) -> Any:  # noqa: ANN401
    """Do one piece of work; the process is killed, by a signal, when it takes longer than some seconds.

    Raises:
        TooLargeError: It takes too much memory.
    """
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        return function(table_of(written), *arguments)
    except Exception as error:
        if isinstance(error, MemoryError) or isinstance(error.__context__, MemoryError):
            raise TooLargeError from error
        raise
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)  # never while it answers


def _end_with_parent() -> None:
    if parent := multiprocessing.parent_process():
        parent.join()
        os._exit(0)
