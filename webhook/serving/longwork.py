"""Does long work in another process, one piece at a time, so that the loop can answer other requests.

The process belongs to a pool of the standard library and runs `webhook.serving.process`. Waiting pieces are
ordered by arrival time plus a delay for their size: a short piece passes a long one that came little earlier.
"""

import os
import time
from bisect import insort
from collections.abc import Callable
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from operator import itemgetter
from typing import Any, TypeVar

import gevent
from gevent.event import AsyncResult, Event

from webhook.rules.source import TableSource
from webhook.serving import process
from webhook.work import BusyError, FailedError, TooLargeError

T = TypeVar("T")

_BYTES_A_SECOND = 256 * 1024
"""Bytes for a delay of one second: about the rate at which reviews are evaluated."""
_MOST, _MOST_BYTES = 64, 6 * 1024 * 1024
"""Maximum number of waiting pieces, and of the bytes that they work on; above it the last one is refused."""


class LongWork:
    """Does work with the table in use; callable as `webhook.work.Work`."""

    def __init__(
        self, source: TableSource, log: dict[str, Any], *, memory: int = 64 << 20, seconds: float = 4.0
    ) -> None:
        """Starts the process.

        Args:
            source: The source of the table in use.
            log: The process's logging configuration, for `logging.config.dictConfig`.
            memory: Bytes by which the process may grow.
            seconds: Maximum time from a call to its result; less than the ``timeoutSeconds`` of the manifests
                (5).
        """
        self._source, self._log, self._memory, self._seconds = source, log, memory, seconds
        self._working, self._waiting = False, list[tuple[float, int, AsyncResult]]()  # by time, with size
        # Otherwise a helper of the pool would write text between the lines of JSON when this process is
        # killed.
        os.environ["PYTHONWARNINGS"] = "ignore:resource_tracker:UserWarning"
        self._start()

    def __call__(self, size: int, function: Callable[..., Any], *arguments: Any) -> Any:  # noqa: ANN401
        """Does one piece of work (see `webhook.work.Work`)."""
        began, turn = time.monotonic(), AsyncResult()
        insort(self._waiting, (began + size / _BYTES_A_SECOND, size, turn), key=itemgetter(0))
        while len(self._waiting) > _MOST or sum(size for _, size, _ in self._waiting) > _MOST_BYTES:
            self._waiting.pop()[-1].set_exception(BusyError())
        if not self._working:
            self._next()
        turn.get()
        try:
            return self._done(began + self._seconds, function, *arguments)
        finally:
            self._next()

    def _next(self) -> None:
        """Begins the first piece that waits."""
        self._working = bool(self._waiting)
        if self._waiting:
            self._waiting.pop(0)[-1].set()

    def _done(self, until: float, *call: Any) -> Any:  # noqa: ANN401
        """Returns the result of a piece whose turn has come."""
        seconds = until - time.monotonic()
        if seconds <= 0:
            raise BusyError
        try:
            return result_of(self._pool.submit(process.work, seconds, self._source.texts(), *call))
        except (BrokenProcessPool, TooLargeError) as error:
            if isinstance(error, BrokenProcessPool):
                self._start()
                if time.monotonic() >= until:
                    raise FailedError(f"it took longer than {seconds:.1f} s") from error
            # A C library that gets no memory ends the process.
            message = f"it takes more than {self._memory >> 20} MiB of memory to evaluate"
            raise TooLargeError(message) from error

    def _start(self) -> None:
        settings = (self._source.texts(), self._memory, self._log)
        self._pool = ProcessPoolExecutor(1, get_context("spawn"), process.begin, settings)
        self._pool.submit(int)  # the process starts with its first piece


def result_of(future: Future[T]) -> T:
    """Returns the result of a future of another thread or process, while the loop answers other requests."""
    ended, wake = Event(), gevent.get_hub().loop.async_()  # a loop with nothing else to do waits for it too
    wake.start(ended.set)
    future.add_done_callback(wake.send_ignoring_arg)
    ended.wait()
    wake.close()
    return future.result()
