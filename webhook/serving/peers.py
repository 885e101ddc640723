"""Who is connected to a worker: what each does until when, what all hold, and who goes to make room."""

import enum
import errno
import ssl
import time
from collections.abc import Callable
from http import HTTPStatus
from types import SimpleNamespace
from typing import Any

from gevent import getcurrent
from gunicorn.util import close_graceful

from webhook.serving.handshakes import Handshakes
from webhook.serving.secured import Secured
from webhook.serving.settings import Limits, Listener
from webhook.serving.turns import Turns

_CHUNK = 64 * 1024
_DRAIN = 4 * 1024 * 1024
"""Most bytes that are read and dropped so that a last response is not cut off by a reset."""


class State(enum.IntEnum):
    """What a peer is doing. Only while it is served it has no deadline and cannot be closed."""

    HANDSHAKE = 0
    WAITING = 1  # between requests, or before the first one
    HEAD = 2  # a part of a request's head has arrived
    BODY = 3  # the head is here, the body not yet
    SERVED = 4  # its request is being answered
    SENDING = 5  # the peer has not taken all of the response
    CLOSING = 6  # nothing more is sent; waiting for the peer to close


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
        state: What it is doing.
        since: When it was accepted or its last request was answered, by ``time.monotonic()``.
        deadline: When it is given up.
        request: gunicorn's, while it is served.
        requests: How many were answered.
        leaving: Whether it was told to go, which it hears at its next wait.
        held: Bytes of it that this process holds: of the request, then of the response.
    """

    def __init__(self, sock: Any, listener: Listener, peers: "Peers") -> None:  # noqa: ANN401 - gevent's socket
        self.sock, self.listener, self._peers = sock, listener, peers
        self.greenlet = getcurrent()
        self.since = time.monotonic()
        self.request: Any = None
        self.requests = self.held = 0
        self.ended = self.leaving = False
        self._out, self._turns = bytearray(), Turns()
        self.enter(State.HANDSHAKE if listener.tls else State.WAITING)

    def enter(self, state: State) -> None:
        """Begin something, with the deadline for all of it; progress does not extend it."""
        self.state = state
        self.deadline = time.monotonic() + self._peers.seconds[state]

    def secure(self, context: ssl.SSLContext) -> None:
        """Do the TLS handshake, its steps in threads: OpenSSL signs for about a millisecond, without the GIL.

        Raises:
            OSError: The peer speaks no TLS, or went away, or was too slow.
        """
        self.sock = Secured(self.sock, context, self._turns)
        self.sock.do_handshake(self._peers.handshakes.do)
        self.enter(State.WAITING)

    def recv(self, size: int) -> bytes:
        """Take in a part of a request, for gunicorn's parser.

        Raises:
            RefusedError: The head is too long, or the parts are too small.
            OSError: The peer went away, or had to go.
        """
        data: bytes = self.sock.recv(min(size, _CHUNK))
        self.ended = not data
        if self._turns.count(len(data)):
            raise RefusedError(400, "it comes in too many small parts; send 256 bytes or more at a time")
        if self.state is State.WAITING:
            self.enter(State.HEAD)
        self._peers.hold(self, len(data))
        if self.state is State.HEAD and self.held > self._peers.limits.head:
            raise RefusedError(431, "the head is too long")
        return data

    def expect_body(self, request: Any) -> None:  # noqa: ANN401 - gunicorn's
        """The head is parsed; its deadline is the body's, too."""
        self.request = request
        if self.state is State.WAITING:  # it came together with the request before
            self.enter(State.BODY)
        self.state = State.BODY

    def sendall(self, data: bytes) -> None:
        """Take a part of a response from gunicorn; `flush` sends it."""
        self._out += data

    def send(self, data: bytes) -> int:
        """Send ``100 Continue``, all that gunicorn sends this way, at once."""
        self.sock.sendall(data)
        return len(data)

    def flush(self) -> None:
        """Send the response as a whole, and wait until the peer has taken it.

        Raises:
            OSError: The peer went away, or was too slow.
        """
        out, self._out = self._out, bytearray()
        self._turns.renew()
        self._peers.release(self)
        self._peers.hold(self, len(out))
        self.enter(State.SENDING)
        self.sock.sendall(out)
        self._peers.release(self)

    def answered(self) -> None:
        """Send the response and wait for the next request."""
        self.flush()
        self.request = None
        self.requests += 1
        self.since = time.monotonic()
        self.enter(State.WAITING)

    def forget(self) -> None:
        """Drop what would have been sent."""
        self._out.clear()

    def gettimeout(self) -> float:
        """As of a socket that never waits, which gunicorn then leaves as it is."""
        return 0.0

    def setblocking(self, _: object) -> None:
        """Nothing: waiting here holds up nobody else."""

    def shutdown(self, how: int) -> None:
        """As of a socket."""
        self.sock.shutdown(how)

    def close(self) -> None:
        """Send what is left and close, in a way that lets the peer read it."""
        try:
            if self._out:
                self.flush()
        except OSError:
            self.ended = True
        if self.ended or not (self.requests or self.state is State.SENDING):
            self.sock.close()
        else:
            self.enter(State.CLOSING)
            sock = SimpleNamespace(
                shutdown=self.sock.shutdown,
                settimeout=self.sock.settimeout,
                recv=self._drain,
                close=self.sock.close,
            )
            close_graceful(sock, self._peers.limits.linger_seconds, _DRAIN)

    def _drain(self, size: int) -> bytes:
        """Reads what is dropped, nothing more where it comes in small parts."""
        data: bytes = self.sock.recv(size)
        return b"" if self._turns.count(len(data)) else data


class Peers:
    """All peers of a worker.

    Attributes:
        limits: What they may make this process hold.
        seconds: How long each state may last.
        held: Bytes that all of them hold.
        handshakes: Threads that do the steps of handshakes.
    """

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.seconds = {
            State.HANDSHAKE: limits.handshake_seconds,
            State.WAITING: limits.idle_seconds,
            State.HEAD: limits.request_seconds,
            State.BODY: limits.request_seconds,
            State.SERVED: float("inf"),
            State.SENDING: limits.response_seconds,
            State.CLOSING: limits.linger_seconds,
        }
        self._all: set[Peer] = set()
        self.held = 0
        self.handshakes = Handshakes()

    def __len__(self) -> int:
        return len(self._all)

    def add(self, peer: Peer) -> None:
        """Take in a newcomer, in the place of another one if need be.

        Who never got an answer goes first, the oldest of them; then who waits longest for its next request.
        So a flood drives itself out, before it drives out an API server's connections.
        """
        if len(self._all) >= self.limits.connections:
            self._evict(lambda peer: (peer.requests > 0, peer.since))
        self._all.add(peer)

    def discard(self, peer: Peer) -> None:
        """The connection is closed."""
        self._all.discard(peer)
        self.release(peer)

    def hold(self, peer: Peer, size: int) -> None:
        """Count bytes that came or are to go; above the limit who held most for longest has to go.

        Bytes times seconds: a review that has just come is small by both, whoever else is connected.
        """
        peer.held += size
        self.held += size
        if self.held > self.limits.buffered:
            now = time.monotonic()
            self._evict(lambda peer: -peer.held * self._age(peer, now))

    def release(self, peer: Peer) -> None:
        """The bytes of a peer are no longer held."""
        self.held -= peer.held
        peer.held = 0

    def sweep(self) -> None:
        """Give up those that are past their deadlines."""
        now = time.monotonic()
        for peer in self._all:
            if peer.deadline < now:
                peer.deadline = now + self.limits.linger_seconds
                error = RefusedError(408, "the request did not arrive in time")
                self._end(peer, error if peer.state in {State.HEAD, State.BODY} else gone("too slow"))

    def stop(self) -> None:
        """Have every connection closed after the answer that is due, or soon where none is.

        A request may be on its way to those that are idle, so they have a moment.
        """
        latest = time.monotonic() + self.limits.linger_seconds
        for peer in self._all:
            if peer.request is not None:
                peer.request.force_close()
            elif peer.state in {State.WAITING, State.HANDSHAKE}:
                peer.deadline = min(peer.deadline, latest)

    def _age(self, peer: Peer, now: float) -> float:
        """Seconds since it began what it is doing."""
        return now - (peer.deadline - self.seconds[peer.state])

    def _evict(self, order: Callable[[Peer], Any]) -> None:
        """Close the first, in an order, of those that are not being served."""
        peer = min((peer for peer in self._all if peer.state is not State.SERVED), key=order, default=None)
        if peer:
            self.discard(peer)
            peer.ended = True  # nothing more is said to it
            self._end(peer, gone("evicted"))

    def _end(self, peer: Peer, error: Exception) -> None:
        if peer.greenlet is getcurrent():
            raise error
        peer.leaving = True
        peer.greenlet.kill(error, block=False)
