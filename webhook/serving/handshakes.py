"""Threads for the steps of handshakes, beside the loop that serves."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from webhook.serving.futures import result_of


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

        Returns:
            What the step raised.
        """
        try:
            result_of(self._pool.submit(step))
        except OSError as error:
            return error
        return None
