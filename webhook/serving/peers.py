"""The connections of a worker: their deadlines, the bytes that they hold, and which one is closed.

A connection goes through these steps, each with one deadline that progress does not extend:

* handshake (TLS only), then idle: until the first byte of a request arrives;
* request: until its whole body has arrived;
* served: the application answers. This step has no deadline, and the connection cannot be closed;
* response: until the peer has read it; then idle again, or closing.

Connections are closed to make room in two cases. If there are too many, the oldest one without an answer yet
is closed, or else the one that is idle longest: a flood closes its own connections, not an API server's. If
together they hold too many bytes, the one with the largest product of bytes and time is closed.
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

from webhook.serving.secured import Secured
from webhook.serving.settings import Limits, Listener
from webhook.serving.turns import Turns

_DRAIN = 4 * 1024 * 1024
"""Maximum number of bytes that are dropped after a last response: a reset could cut off the response."""


class RefusedError(Exception):
    """A request that is not served, with the HTTP status and the reason for the peer and the log."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(f"{status}: {reason}")
        self.status, self.reason = HTTPStatus(status), reason


def connection_reset(why: str) -> ConnectionResetError:
    """Returns the error that makes gunicorn close a connection without a response."""
    return ConnectionResetError(errno.ECONNRESET, why)


class Peer:
    """One connection. gunicorn uses it like a socket.

    Attributes:
        sock: The TLS or plain socket.
        listener: The listener that accepted it.
        since: When the current step began, by ``time.monotonic()``; ``deadline``: when it must have ended.
        idle: Whether no byte of a request has arrived yet.
        receiving: Whether a request has begun to arrive and is not complete.
        served: Whether the application is processing the request now.
        answered: Whether at least one response has been sent on it.
        ended: Whether the peer has sent its last byte.
        closed: Whether the server has closed it; its greenlet gets an error at its next wait.
        request: gunicorn's request object; None until the head has arrived.
        held: Bytes in memory, first of the request, then of the response.
    """

    def __init__(self, sock: Any, listener: Listener, peers: "Peers") -> None:  # noqa: ANN401 - gevent's socket
        self.sock = self._raw = sock
        self.listener, self._peers, self._limits = listener, peers, peers.limits
        self.greenlet = getcurrent()
        self.request: Any = None
        self.held = 0
        self.ended = self.closed = self.served = self.answered = False
        self._out, self._turns = bytearray(), Turns()
        self.wait()

    def _begin(self, seconds: float) -> None:
        """Begins a step that must end within ``seconds``."""
        self.since = time.monotonic()
        self.deadline = self.since + seconds
        self.idle = self.receiving = self.served = False

    def wait(self) -> None:
        """Begins to wait for a request."""
        self._begin(self._limits.idle_seconds)
        self.idle, self.request = True, None

    def serve(self) -> None:
        """Begins to answer the request, unless the connection was closed as the body arrived."""
        if self.closed:
            raise connection_reset("closed by the server")
        self._begin(math.inf)
        self.served = True

    def secure(self, context: ssl.SSLContext) -> None:
        """Performs the TLS handshake; raises `OSError` if the peer has no TLS, disconnects or is too slow."""
        self._begin(self._limits.handshake_seconds)
        self.idle = True
        self.sock = Secured(self.sock, context, self._turns)
        self.sock.do_handshake()
        self.wait()

    def recv(self, size: int) -> bytes:
        """Receives a part of a request, for gunicorn's parser.

        Raises:
            RefusedError: The head is too long, or the parts are too small.
            OSError: The peer disconnected, or the server closed the connection.
        """
        data: bytes = self.sock.recv(size)
        self.ended = not data
        if self._turns.count(len(data)):
            raise RefusedError(400, "it comes in too many small parts; send 256 bytes or more at a time")
        self.expect()
        self._peers.hold(self, len(data))
        if self.request is None and self.held > self._limits.head:
            raise RefusedError(431, "the request header is too long")
        return data

    def expect(self) -> None:
        """Begins to receive a request, whose first bytes have arrived."""
        if self.idle:
            self._begin(self._limits.request_seconds)
            self.receiving = True

    def sendall(self, data: bytes) -> None:
        """Stores a part of a response from gunicorn; `flush` sends it."""
        self._out += data

    def send(self, data: bytes) -> int:
        """Sends ``100 Continue`` at once, the only thing that gunicorn sends this way."""
        self.sock.sendall(data)
        return len(data)

    def flush(self) -> None:
        """Sends the whole response; raises an `OSError` if the peer disconnects or is too slow."""
        out, self._out = self._out, bytearray()
        self._turns.renew()
        self._peers.release(self)
        self._begin(self._limits.response_seconds)
        self.answered = True
        self._peers.hold(self, len(out))
        self.sock.sendall(out)
        self._peers.release(self)

    def has_more(self) -> bool:
        """Returns whether bytes follow the request that is answered, or the peer has ended the connection."""
        waiting = select.poll()
        waiting.register(self._raw, select.POLLIN)
        return bool((isinstance(self.sock, Secured) and self.sock.waiting()) or waiting.poll(0))

    def shutdown(self, how: int) -> None:
        """Shuts the connection down, like the method of a socket."""
        self.sock.shutdown(how)

    def close(self) -> None:
        """Sends what is left and closes, so that the peer can read it."""
        with suppress(OSError):
            if self._out:
                self.flush()
            if self.answered and not self.ended and not self.closed:
                self._drain()
        self.drop()

    def drop(self) -> None:
        """Closes at once."""
        self.sock.close()
        # gunicorn's request refers to the peer: this cycle would keep a body until the next collection.
        self.request = None

    def _drain(self) -> None:
        """Sends no more, and drops what arrives until the peer closes: a reset could cut off the response."""
        self._begin(self._limits.linger_seconds)
        self.sock.shutdown(socket.SHUT_WR)
        dropped = 0
        while (data := self.sock.recv(64 * 1024)) and dropped < _DRAIN and not self._turns.count(len(data)):
            dropped += len(data)


class Peers:
    """All peers of a worker.

    Attributes:
        limits: The limits on what peers may make this process hold.
        held: Bytes that all peers hold.
    """

    def __init__(self, limits: Limits) -> None:
        self.limits, self.held = limits, 0
        self._all: set[Peer] = set()

    def __len__(self) -> int:
        return len(self._all)

    def add(self, peer: Peer) -> None:
        """Adds a connection; if there is no room, closes the oldest one without an answer yet."""
        if len(self._all) >= self.limits.connections:
            self._evict(lambda peer: (peer.answered, peer.since))
        self._all.add(peer)

    def discard(self, peer: Peer) -> None:
        """Removes a closed connection."""
        self._all.discard(peer)
        self.release(peer)

    def hold(self, peer: Peer, size: int) -> None:
        """Counts bytes in memory; above the limit, closes the connection that costs most.

        The measure is bytes times seconds: it is small for a new review, with any other connections.
        """
        peer.held += size
        self.held += size
        if self.held > self.limits.buffered:
            now = time.monotonic()
            self._evict(lambda peer: peer.held * (peer.since - now))

    def release(self, peer: Peer) -> None:
        """Counts a peer's bytes as released."""
        self.held -= peer.held
        peer.held = 0

    def sweep(self) -> None:
        """Closes the connections whose step has exceeded its deadline."""
        now = time.monotonic()
        for peer in [peer for peer in self._all if peer.deadline < now]:
            if peer.receiving:
                peer.closed, peer.deadline = True, math.inf
                late = RefusedError(408, "the request did not arrive in time")
                peer.greenlet.kill(late, block=False)
            else:
                self._close(peer)

    def end_idle(self) -> None:
        """Closes every connection on which no request has begun and no byte waits to be read."""
        for peer in [peer for peer in self._all if peer.idle and not peer.has_more()]:
            self._close(peer)

    def _evict(self, order: Callable[[Peer], Any]) -> None:
        """Closes the first connection, in an order, that is not being served."""
        peer = min((peer for peer in self._all if not peer.served), key=order, default=None)
        if peer:
            self._close(peer)

    def _close(self, peer: Peer) -> None:
        """Closes a connection without a response, at once or at its next wait."""
        self.discard(peer)
        peer.closed = True
        if peer.greenlet is getcurrent():
            raise connection_reset("closed by the server")
        peer.greenlet.kill(connection_reset("closed by the server"), block=False)
