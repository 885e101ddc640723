"""Does long work in another process, one call at a time, so that this process can answer other requests.

The other process belongs to a pool of the standard library, and runs `webhook.serving.process`. Waiting
calls are ordered by their arrival time plus a delay for their size, so a short call can overtake a long call.
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

from webhook import messages
from webhook.rules.source import TableSource
from webhook.serving import process
from webhook.work import BusyError, FailedError, TooLargeError

T = TypeVar("T")

_BYTES_A_SECOND = 256 * 1024
"""The number of bytes that delay a call by one second. About as many bytes are evaluated in a second."""
_MOST_CALLS, _MOST_BYTES = 64, 6 * 1024 * 1024
"""Maximum number of waiting calls, and maximum total of their bytes. Above these numbers, the last call in
the queue fails. This is not always the newest call."""


class LongWork:
    """Does long work with the table in use; an instance is a `webhook.work.Work`."""

    def __init__(
        self, source: TableSource, log_config: dict[str, Any], *, memory: int = 64 << 20, seconds: float = 4.0
    ) -> None:
        """Starts the process.

        Args:
            source: The source of the table in use.
            log_config: The logging configuration of the process, for `logging.config.dictConfig`.
            memory: Maximum number of bytes by which the process grows.
            seconds: Maximum time from a call to its result. For reviews, it must be less than
                ``timeoutSeconds`` of the registrations, which is 5 seconds.
        """
        self._source, self._log_config, self._memory, self._seconds = source, log_config, memory, seconds
        self._is_working = False
        # Each entry has the time when the call is due (arrival plus delay), its size in bytes, and the event
        # that is set when its turn comes. The entries are ordered by these times.
        self._waiting_calls = list[tuple[float, int, AsyncResult]]()
        # The resource tracker of `multiprocessing` would write a warning in plain text into the JSON log.
        os.environ["PYTHONWARNINGS"] = "ignore:resource_tracker:UserWarning"
        self._start()

    def __call__(self, size: int, function: Callable[..., Any], *arguments: Any) -> Any:  # noqa: ANN401
        """Returns the result of a function in the other process (see `webhook.work.Work`)."""
        start, turn = time.monotonic(), AsyncResult()
        calls = self._waiting_calls
        insort(calls, (start + size / _BYTES_A_SECOND, size, turn), key=itemgetter(0))
        while len(calls) > _MOST_CALLS or sum(call[1] for call in calls) > _MOST_BYTES:
            calls.pop()[-1].set_exception(BusyError())
        if not self._is_working:
            self._begin_next()
        turn.get()
        try:
            return self._run_call(start + self._seconds, function, *arguments)
        finally:
            self._begin_next()

    def _begin_next(self) -> None:
        """Wakes the first waiting call. If there is none, records that no call is running."""
        self._is_working = bool(self._waiting_calls)
        if self._waiting_calls:
            self._waiting_calls.pop(0)[-1].set()

    def _run_call(self, deadline: float, *call: Any) -> Any:  # noqa: ANN401
        """Returns the result of a call whose turn has come."""
        seconds = deadline - time.monotonic()
        if seconds <= 0:
            raise BusyError
        try:
            return result_of(self._pool.submit(process.work, seconds, self._source.texts(), *call))
        except (BrokenProcessPool, TooLargeError) as error:
            if isinstance(error, BrokenProcessPool):
                self._start()
                if time.monotonic() >= deadline:
                    raise FailedError(messages.too_slow(seconds)) from error
            # If the process ended before the deadline, the cause is probably memory: a C library that gets no
            # memory ends the process.
            raise TooLargeError(messages.needs_memory(self._memory >> 20)) from error

    def _start(self) -> None:
        settings = (self._source.texts(), self._memory, self._log_config)
        self._pool = ProcessPoolExecutor(1, get_context("spawn"), process.begin, settings)
        self._pool.submit(int)  # the pool starts the process at the first call


def result_of(future: Future[T]) -> T:
    """Returns the result of a future of another thread or process; other greenlets run until it is ready."""
    ended, wake = Event(), gevent.get_hub().loop.async_()  # keeps the event loop alive
    wake.start(ended.set)
    future.add_done_callback(wake.send_ignoring_arg)
    ended.wait()
    wake.close()
    return future.result()
