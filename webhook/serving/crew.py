"""Who does the work that costs processor time: the loop itself when it is short, else a pool thread."""

from __future__ import annotations

import os
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from webhook.serving.connection import Connection, State

if TYPE_CHECKING:
    from webhook.serving.exchange import Exchange

_HANDSHAKE_THREADS = 2


class Crew:
    """Takes steps of handshakes and whole requests, and hands the connections back.

    Under Python's one lock a second thread adds no capacity to work that never waits; handing it there and
    back costs up to a third of the rate (docs/adr/0003-serving.md). So a request that is known to be short is
    served where it arrived. A handshake's signature is made without the lock, in a thread.

    Attributes:
        finished: Connections on their way back to the loop; whoever waits for it is woken.
    """

    def __init__(self, worker: Any, exchange: Exchange, wake: int) -> None:  # noqa: ANN401 - gunicorn has no types
        """Start the threads.

        Args:
            worker: The `webhook.serving.worker.Worker`.
            exchange: Serves the requests.
            wake: File descriptor, non-blocking, that ends the loop's wait when it is written to.
        """
        self._exchange = exchange
        self._wake_descriptor = wake
        self._tls = worker.tls
        self._log = worker.log
        self._short = worker.settings.short
        self._short_bytes = worker.limits.small_body
        self._pool = ThreadPoolExecutor(worker.settings.threads, thread_name_prefix="request")
        # Of their own, so that no handshake waits for a long request.
        self._handshakes = ThreadPoolExecutor(_HANDSHAKE_THREADS, thread_name_prefix="handshake")
        self.finished: deque[Connection] = deque()  # append and popleft are atomic

    def is_short(self, peer: Connection) -> bool:
        """Whether the request is one that the loop serves itself."""
        return len(peer.request) <= self._short_bytes and peer.request.startswith(self._short)

    def here(self, peer: Connection) -> None:
        """Serve a request in the calling thread."""
        peer.state = State.BUSY
        self._do(peer)
        self.finished.append(peer)

    def by_thread(self, peer: Connection) -> None:
        """Have a handshake step or a request done by a thread; the poller must not have the connection."""
        peer.state = State.BUSY
        pool = self._pool if peer.secure else self._handshakes
        pool.submit(self._do_and_wake, peer)

    def stop(self) -> None:
        """Begin nothing more."""
        for pool in (self._pool, self._handshakes):
            pool.shutdown(wait=False, cancel_futures=True)

    def _do(self, peer: Connection) -> None:
        peer.broken = True  # whatever ends this early
        try:
            if peer.secure:
                self._exchange.serve(peer)
            else:
                peer.handshake(self._tls.context())
            peer.broken = False
        except OSError as error:
            self._log.debug("%s: %s", peer.client, error)
        except Exception:  # noqa: BLE001 - one peer's request must not end the loop
            self._log.exception("a connection is closed because of an error of the server")

    def _do_and_wake(self, peer: Connection) -> None:
        try:
            self._do(peer)
        finally:
            self.finished.append(peer)
            try:
                os.write(self._wake_descriptor, b".")
            except BlockingIOError:
                self._log.debug("the loop has enough to wake it")
