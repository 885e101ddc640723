"""Runs in the process for long work, and limits its time and memory."""

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
"""The niceness of the process, so that the serving process has precedence on a single processor."""


def begin(texts: TableTexts, memory: int, log_config: dict[str, Any]) -> None:
    """Loads the table, configures logging, and makes the process end when its parent ends.

    After that, the process grows by at most ``memory`` bytes.
    """
    logging.config.dictConfig(log_config)
    os.nice(NICE)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT):
        signal.signal(number, signal.SIG_IGN)  # this process ends when its parent ends
    threading.Thread(target=_end_with_parent, daemon=True).start()
    table_of(texts)
    with open("/proc/self/statm") as statm:  # noqa: PTH123 - the shortest form
        size = int(statm.read().split()[0]) * resource.getpagesize()
    _, hard_limit = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (size + memory, hard_limit))


def work(seconds: float, texts: TableTexts, function: Callable[..., Any], *arguments: Any) -> Any:  # noqa: ANN401
    """Returns ``function(table, *arguments)``; a signal ends the process if this takes more than ``seconds``.

    Raises:
        TooLargeError: The work needs too much memory.
    """
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        return function(table_of(texts), *arguments)
    except Exception as error:
        if isinstance(error, MemoryError) or isinstance(error.__context__, MemoryError):
            raise TooLargeError from error
        raise
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)  # no signal while the result is sent


def _end_with_parent() -> None:
    if parent := multiprocessing.parent_process():
        parent.join()
        os._exit(0)
