"""Threads for the steps of handshakes, beside the loop that serves."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from gevent import get_hub
from gevent.event import Event


class Handshakes:
    """Does steps of handshakes in threads, in the order in which they are asked for.

    gevent's own thread pool gives a free thread to whoever asks at that moment, before those who wait for
    one, and takes no more steps in a turn of the loop than it has threads. Beside a flood of new connections
    a handshake waited for its turn for seconds. Here all steps stand in one queue, and threads take the next
    one without the loop.
    """

    def __init__(self, threads: int = 2) -> None:
        self._pool = ThreadPoolExecutor(threads)

    def do(self, step: Callable[[], object]) -> BaseException | None:
        """Do a step in a thread and wait until it has ended.

        When the greenlet is killed, a step that has not begun is dropped, and one that has is waited for.

        Returns:
            What the step raised.
        """
        ended, wake = Event(), get_hub().loop.async_()  # a loop with nothing else to do waits for it too
        wake.start(ended.set)
        future = self._pool.submit(step)
        future.add_done_callback(wake.send_ignoring_arg)
        try:
            ended.wait()
        finally:
            future.cancel()
            ended.wait()  # no socket is closed, nor its number given to another, while a thread uses it
            wake.close()
        return future.exception()
