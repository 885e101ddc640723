"""Limits the time and the memory of a worker's connections, and closes connections above the limits.

A connection has these steps. Each step except `serving` has one deadline, which received bytes do not extend:

* handshake, with TLS only; then idle, until the first byte of a request arrives;
* request, until the whole body has arrived;
* serving, while the application answers. In this step the connection cannot be closed;
* response, until the response is sent. Then the connection is idle again, or the last step begins: the
  server ends the connection, and reads and ignores data until the peer ends it, too.

If there are too many connections, the connection whose step began first is closed. Connections on which no
response has been sent yet are closed before other connections. So a flood of new connections does not close
the connections of an API server. If all connections together hold too many bytes, the connection with the
largest product of bytes held and seconds since its step began is closed.
"""

import errno
import math
import select
import socket
import ssl
import time
from collections.abc import Callable
from contextlib import suppress
from http import HTTPStatus
from typing import Any

from gevent import getcurrent

from webhook import messages
from webhook.serving.secured import TlsSocket
from webhook.serving.settings import Limits, Listener
from webhook.serving.turns import ReadCounter

_MOST_DRAINED = 4 * 1024 * 1024
"""Maximum number of bytes that are read and ignored after the last response of a connection."""


class RefusedError(Exception):
    """The error for a request that this server refuses. It has the HTTP status and the reason."""

    def __init__(self, status: int, reason: str = "") -> None:
        self.status, self.reason = HTTPStatus(status), reason or messages.reason_of(status)
        super().__init__(f"{status}: {self.reason}")


def connection_reset(reason: str) -> ConnectionResetError:
    """Returns the error after which gunicorn closes a connection without a response."""
    return ConnectionResetError(errno.ECONNRESET, reason)


class Peer:
    """One connection, which gunicorn uses like a socket.

    Attributes:
        sock: The TLS or plain socket.
        listener: The listener that accepted the connection.
        step_start: The time at which the current step began, by ``time.monotonic()``.
        deadline: The time at which the current step must have ended; infinite in the step `serving`.
        is_idle: Whether no byte of the next request has arrived yet.
        is_receiving: Whether a request has begun to arrive and is not complete.
        is_serving: Whether the application is processing the request now.
        has_answered: Whether at least one response has been sent on the connection.
        has_peer_ended: Whether the peer has sent its last byte.
        is_closing: Whether the server ends the connection. The connection's greenlet gets an error at
            its next wait, and answers 408 if a request did not arrive in time.
        greenlet: The greenlet that serves the connection.
        request: The request object of gunicorn; None until the head has arrived.
        held_bytes: The number of bytes in memory, first of the request, then of the response.
    """

    def __init__(self, sock: Any, listener: Listener, peers: "PeerSet") -> None:  # noqa: ANN401 - gevent's socket
        self.sock = self._raw = sock
        self.listener, self._peers, self._limits = listener, peers, peers.limits
        self.greenlet = getcurrent()
        self.request: Any = None
        self.held_bytes = 0
        self.has_peer_ended = self.is_closing = self.is_serving = self.has_answered = False
        self._out, self._reads = bytearray(), ReadCounter()
        self.begin_idle()

    def _begin(self, seconds: float) -> None:
        """Begins a step that must end within ``seconds``."""
        self.step_start = time.monotonic()
        self.deadline = self.step_start + seconds
        self.is_idle = self.is_receiving = self.is_serving = False

    def begin_idle(self) -> None:
        """Begins to wait for a request."""
        self._begin(self._limits.idle_seconds)
        self.is_idle, self.request = True, None

    def serve(self) -> None:
        """Begins to answer; raises an error if the server closed the connection while the body arrived."""
        if self.is_closing:
            raise connection_reset("closed by the server")
        self._begin(math.inf)
        self.is_serving = True

    def secure(self, context: ssl.SSLContext) -> None:
        """Performs the TLS handshake; raises `OSError` if the peer has no TLS, disconnects or is too slow."""
        self._begin(self._limits.handshake_seconds)
        self.is_idle = True  # so that `PeerSet.end_idle` can close the connection
        self.sock = TlsSocket(self.sock, context, self._reads)
        self.sock.do_handshake()
        self.begin_idle()

    def recv(self, size: int) -> bytes:
        """Receives a part of a request, for gunicorn's parser.

        Raises:
            RefusedError: The head is too long, or the parts are too small.
            OSError: The peer disconnected, or the server closed the connection.
        """
        data: bytes = self.sock.recv(size)
        self.has_peer_ended = not data
        if self._reads.has_too_many_after(len(data)):
            raise RefusedError(400, messages.SMALL_PARTS)
        self.begin_request()
        self._peers.hold(self, len(data))
        if self.request is None and self.held_bytes > self._limits.head:
            raise RefusedError(431)
        return data

    def begin_request(self) -> None:
        """Begins the step in which a request arrives, if the connection is idle."""
        if self.is_idle:
            self._begin(self._limits.request_seconds)
            self.is_receiving = True

    def sendall(self, data: bytes) -> None:
        """Stores a part of a response from gunicorn; `flush` sends it."""
        self._out += data

    def send(self, data: bytes) -> int:
        """Sends data at once; gunicorn uses this method only for ``100 Continue``."""
        self.sock.sendall(data)
        return len(data)

    def flush(self) -> None:
        """Sends the whole response; raises an `OSError` if the peer disconnects or is too slow."""
        out, self._out = self._out, bytearray()
        self._reads.renew()
        self._peers.release(self)
        self._begin(self._limits.response_seconds)
        self.has_answered = True
        self._peers.hold(self, len(out))
        self.sock.sendall(out)
        self._peers.release(self)

    def is_readable(self) -> bool:
        """Returns whether bytes of the next request have arrived, or the peer has ended the connection."""
        poll = select.poll()
        poll.register(self._raw, select.POLLIN)
        return bool((isinstance(self.sock, TlsSocket) and self.sock.count_waiting_bytes()) or poll.poll(0))

    def shutdown(self, how: int) -> None:
        """Shuts the connection down, like the method of a socket."""
        self.sock.shutdown(how)

    def close(self) -> None:
        """Sends the stored part of a response, gives the peer time to read the response, and then closes."""
        with suppress(OSError):
            if self._out:
                self.flush()
            if self.has_answered and not self.has_peer_ended and not self.is_closing:
                self._drain()
        self.drop()

    def drop(self) -> None:
        """Closes the connection at once."""
        self.sock.close()
        # The request refers to this object. The cycle would keep the body in memory until garbage collection.
        self.request = None

    def _drain(self) -> None:
        """Reads data until the peer closes or a limit is reached, so that no reset cuts off the response."""
        self._begin(self._limits.linger_seconds)
        self.sock.shutdown(socket.SHUT_WR)
        size = 0
        while (
            (data := self.sock.recv(64 * 1024))
            and size < _MOST_DRAINED
            and not self._reads.has_too_many_after(len(data))
        ):
            size += len(data)


class PeerSet:
    """All connections of a worker.

    Attributes:
        limits: The limits on the memory, the connections and the time that peers can use.
        held_bytes: The number of bytes that all connections hold.
    """

    def __init__(self, limits: Limits) -> None:
        self.limits, self.held_bytes = limits, 0
        self._all: set[Peer] = set()

    def __len__(self) -> int:
        return len(self._all)

    def add(self, peer: Peer) -> None:
        """Adds a connection. If there are too many, first closes an existing connection (see the module)."""
        if len(self._all) >= self.limits.connections:
            self._evict(lambda peer: (peer.has_answered, peer.step_start))
        self._all.add(peer)

    def discard(self, peer: Peer) -> None:
        """Removes a connection and the bytes that it holds."""
        self._all.discard(peer)
        self.release(peer)

    def hold(self, peer: Peer, size: int) -> None:
        """Counts bytes that a connection holds. If the total is too large, closes a connection.

        Raises:
            OSError: The closed connection is the connection of the current greenlet.
        """
        peer.held_bytes += size
        self.held_bytes += size
        if self.held_bytes > self.limits.buffered:
            now = time.monotonic()
            # The second factor is negative, so the smallest key belongs to the largest product.
            self._evict(lambda peer: peer.held_bytes * (peer.step_start - now))

    def release(self, peer: Peer) -> None:
        """Counts the bytes of a connection as released."""
        self.held_bytes -= peer.held_bytes
        peer.held_bytes = 0

    def sweep(self) -> None:
        """Ends the connections whose step has exceeded its deadline; a late request is answered with 408."""
        now = time.monotonic()
        for peer in [peer for peer in self._all if peer.deadline < now]:
            if peer.is_receiving:
                peer.is_closing, peer.deadline = True, math.inf
                error = RefusedError(408)
                peer.greenlet.kill(error, block=False)
            else:
                self._close(peer)

    def end_idle(self) -> None:
        """Closes every connection on which no request has begun and no byte waits to be read."""
        for peer in [peer for peer in self._all if peer.is_idle and not peer.is_readable()]:
            self._close(peer)

    def _evict(self, key: Callable[[Peer], Any]) -> None:
        """Closes the connection with the smallest key; connections in the step `serving` stay open."""
        peer = min((peer for peer in self._all if not peer.is_serving), key=key, default=None)
        if peer:
            self._close(peer)

    def _close(self, peer: Peer) -> None:
        """Closes a connection without a response: its greenlet gets an error, now or at its next wait."""
        self.discard(peer)
        peer.is_closing = True
        if peer.greenlet is getcurrent():
            raise connection_reset("closed by the server")
        peer.greenlet.kill(connection_reset("closed by the server"), block=False)
