"""Who is connected to a worker: how long each step of a connection may take, what all hold, and who goes.

A connection goes through these steps, each with one deadline that progress does not extend:

* handshake (TLS only), then idle: until a byte of a request comes;
* request: until all of its body is here;
* served: the application answers. There is no deadline, and the connection cannot be closed;
* response: until the peer has taken it; then idle again, or closing.

Connections are closed to make room in two cases. When there are too many, the oldest that was never answered
goes, then the one that is idle longest: a flood closes its own connections, not an API server's. When all of
them hold too many bytes, the one goes that holds most for longest.
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
"""Most bytes that are read and dropped so that a last response is not cut off by a reset."""


class RefusedError(Exception):
    """A request that is not served, with the HTTP status and the reason for the peer and the log."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(f"{status}: {reason}")
        self.status, self.reason = HTTPStatus(status), reason


def gone(why: str) -> ConnectionResetError:
    """The error by which gunicorn gives up a connection without a word."""
    return ConnectionResetError(errno.ECONNRESET, why)


class Peer:
    """One connection, in the place of the socket that gunicorn reads from and writes to.

    Attributes:
        sock: The TLS or plain socket.
        listener: Which one it came through.
        since: When its step began, by ``time.monotonic()``; ``deadline``: when it has to end.
        idle: Whether nothing of a request has come yet.
        receiving: Whether a part of a request has come.
        served: Whether its request is being answered.
        answered: Whether it has got a response.
        ended: Whether it has sent its last byte.
        closed: Whether the server has closed it, which its greenlet hears at its next wait.
        request: gunicorn's, once its head is here.
        held: Bytes of it that this process holds: of the request, then of the response.
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
        """Begin a step that has so many seconds."""
        self.since = time.monotonic()
        self.deadline = self.since + seconds
        self.idle = self.receiving = self.served = False

    def wait(self) -> None:
        """Begin to wait for a request."""
        self._begin(self._limits.idle_seconds)
        self.idle, self.request = True, None

    def serve(self) -> None:
        """Begin to answer the request, unless the connection was closed while the body came to its end."""
        if self.closed:
            raise gone("closed by the server")
        self._begin(math.inf)
        self.served = True

    def secure(self, context: ssl.SSLContext) -> None:
        """Do the TLS handshake; an `OSError` where the peer speaks no TLS, goes away, or is too slow."""
        self._begin(self._limits.handshake_seconds)
        self.idle = True
        self.sock = Secured(self.sock, context, self._turns)
        self.sock.do_handshake()
        self.wait()

    def recv(self, size: int) -> bytes:
        """Take in a part of a request, for gunicorn's parser.

        Raises:
            RefusedError: The head is too long, or the parts are too small.
            OSError: The peer went away, or had to go.
        """
        data: bytes = self.sock.recv(size)
        self.ended = not data
        if self._turns.count(len(data)):
            raise RefusedError(400, "it comes in too many small parts; send 256 bytes or more at a time")
        self.expect()
        self._peers.hold(self, len(data))
        if self.request is None and self.held > self._limits.head:
            raise RefusedError(431, "the head is too long")
        return data

    def expect(self) -> None:
        """Begin to receive a request, of which the first bytes are here."""
        if self.idle:
            self._begin(self._limits.request_seconds)
            self.receiving = True

    def sendall(self, data: bytes) -> None:
        """Take a part of a response from gunicorn; `flush` sends it."""
        self._out += data

    def send(self, data: bytes) -> int:
        """Send ``100 Continue``, all that gunicorn sends this way, at once."""
        self.sock.sendall(data)
        return len(data)

    def flush(self) -> None:
        """Send the response as a whole; an `OSError` where the peer goes away, or is too slow."""
        out, self._out = self._out, bytearray()
        self._turns.renew()
        self._peers.release(self)
        self._begin(self._limits.response_seconds)
        self.answered = True
        self._peers.hold(self, len(out))
        self.sock.sendall(out)
        self._peers.release(self)

    def has_more(self) -> bool:
        """Whether bytes came behind the request that is answered, or the peer's end."""
        waiting = select.poll()
        waiting.register(self._raw, select.POLLIN)
        return bool((isinstance(self.sock, Secured) and self.sock.waiting()) or waiting.poll(0))

    def shutdown(self, how: int) -> None:
        """As of a socket."""
        self.sock.shutdown(how)

    def close(self) -> None:
        """Send what is left and close, in a way that lets the peer read it."""
        with suppress(OSError):
            if self._out:
                self.flush()
            if self.answered and not self.ended and not self.closed:
                self._drain()
        self.drop()

    def drop(self) -> None:
        """Close at once."""
        self.sock.close()
        # gunicorn's request knows the peer: together they would keep a body until the next collection.
        self.request = None

    def _drain(self) -> None:
        """Send no more, and drop what comes until the peer closes: a reset could cut off the response."""
        self._begin(self._limits.linger_seconds)
        self.sock.shutdown(socket.SHUT_WR)
        dropped = 0
        while (data := self.sock.recv(64 * 1024)) and dropped < _DRAIN and not self._turns.count(len(data)):
            dropped += len(data)


class Peers:
    """All peers of a worker.

    Attributes:
        limits: What they may make this process hold.
        held: Bytes that all of them hold.
    """

    def __init__(self, limits: Limits) -> None:
        self.limits, self.held = limits, 0
        self._all: set[Peer] = set()

    def __len__(self) -> int:
        return len(self._all)

    def add(self, peer: Peer) -> None:
        """Take in a newcomer; where there is no room, the oldest goes that was not answered."""
        if len(self._all) >= self.limits.connections:
            self._evict(lambda peer: (peer.answered, peer.since))
        self._all.add(peer)

    def discard(self, peer: Peer) -> None:
        """The connection is closed."""
        self._all.discard(peer)
        self.release(peer)

    def hold(self, peer: Peer, size: int) -> None:
        """Count bytes that came or are to go; above the limit the one goes that holds most for longest.

        Bytes times seconds: a review that has just come is small by both, whoever else is connected.
        """
        peer.held += size
        self.held += size
        if self.held > self.limits.buffered:
            now = time.monotonic()
            self._evict(lambda peer: peer.held * (peer.since - now))

    def release(self, peer: Peer) -> None:
        """The bytes of a peer are no longer held."""
        self.held -= peer.held
        peer.held = 0

    def sweep(self) -> None:
        """Close the connections whose step is not over in time."""
        now = time.monotonic()
        for peer in [peer for peer in self._all if peer.deadline < now]:
            if peer.receiving:
                peer.closed, peer.deadline = True, math.inf
                late = RefusedError(408, "the request did not arrive in time")
                peer.greenlet.kill(late, block=False)
            else:
                self._close(peer)

    def end_idle(self) -> None:
        """Close every connection of which no request has begun."""
        for peer in [peer for peer in self._all if peer.idle]:
            self._close(peer)

    def _evict(self, order: Callable[[Peer], Any]) -> None:
        """Close the first, in an order, of those that are not being served."""
        peer = min((peer for peer in self._all if not peer.served), key=order, default=None)
        if peer:
            self._close(peer)

    def _close(self, peer: Peer) -> None:
        """Close a connection without a word, at once or at its next wait."""
        self.discard(peer)
        peer.closed = True
        if peer.greenlet is getcurrent():
            raise gone("closed by the server")
        peer.greenlet.kill(gone("closed by the server"), block=False)
