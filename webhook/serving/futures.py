"""Waiting in gevent's loop for what another thread or process does."""

from concurrent.futures import Future
from typing import TypeVar

from gevent import get_hub
from gevent.event import Event

T = TypeVar("T")


def result_of(future: Future[T]) -> T:
    """Wait for a future in the loop, which answers others meanwhile.

    Returns:
        Its result.

    Raises:
        Exception: What it raised.
    """
    ended, wake = Event(), get_hub().loop.async_()  # a loop with nothing else to do waits for it too
    wake.start(ended.set)
    future.add_done_callback(wake.send_ignoring_arg)
    try:
        ended.wait()
    finally:
        future.cancel()
        ended.wait()
        wake.close()
    return future.result()
