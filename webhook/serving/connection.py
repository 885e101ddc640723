"""One peer's connection: non-blocking input and output, and what it waits for."""

from __future__ import annotations

import enum
import selectors
import socket
import ssl
import time
from typing import TYPE_CHECKING, Any

from webhook.serving.framing import HEAD_END, Frame, Refused, frame

if TYPE_CHECKING:
    from threading import Semaphore

    from webhook.serving.settings import Limits

_CHUNK = 16 * 1024  # a TLS record's most


class State(enum.Enum):
    """What a connection is doing. In every state but BUSY it belongs to the loop and has a deadline."""

    HANDSHAKE = enum.auto()
    IDLE = enum.auto()  # between requests, or before the first one
    READING = enum.auto()  # a part of a request has arrived
    BUSY = enum.auto()  # a pool thread has it
    WRITING = enum.auto()  # the peer has not taken all of the response
    LINGER = enum.auto()  # the response is sent; waiting for the peer to close
    CLOSED = enum.auto()


class Connection:
    """A peer, its bytes in and out, and how far its request has come.

    No method waits. A connection is used by one thread at a time: the loop, or, while it is BUSY, the pool
    thread that it was handed to.

    Attributes:
        state: What it is doing.
        deadline: When the loop gives it up, by ``time.monotonic()``.
        interest: What the loop is to wait for, one of ``selectors.EVENT_*``.
        door: Index of the listener it came through.
        client: The peer's address.
        server: Its own address.
        request: The whole request that a pool thread is to serve; empty for a handshake.
        out: Bytes of the response that are not sent.
        closing: Whether to close it once ``out`` is sent.
        secure: Whether the TLS handshake is done, or none is wanted.
        broken: Whether nothing can be sent or received any more.
        watched: Whether the loop's poller has it.
    """

    def __init__(self, sock: socket.socket, client: Any, server: Any, door: int) -> None:  # noqa: ANN401
        sock.setblocking(False)  # noqa: FBT003 - the standard library's signature
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.sock = sock
        self.client = client
        self.server = server
        self.door = door
        self.state = State.HANDSHAKE
        self.secure = False
        self.broken = False
        self.watched = False
        self.deadline = 0.0
        self.interest = selectors.EVENT_READ
        self.request = b""
        self.out = bytearray()
        self.closing = False
        self._buffer = bytearray()
        self._searched = 0
        self._frame: Frame | None = None
        self._large: Semaphore | None = None

    def expire_in(self, seconds: float) -> None:
        """Set the deadline ``seconds`` from now."""
        self.deadline = time.monotonic() + seconds

    def handshake(self, context: ssl.SSLContext) -> None:
        """Take the next step of the TLS handshake; costs processor time, so it is done in the pool.

        Raises:
            OSError: The handshake failed, or the peer went away.
        """
        if not isinstance(self.sock, ssl.SSLSocket):
            self.sock = context.wrap_socket(self.sock, server_side=True, do_handshake_on_connect=False)
        try:
            self.sock.do_handshake()
        except ssl.SSLWantReadError:
            self.interest = selectors.EVENT_READ
        except ssl.SSLWantWriteError:
            self.interest = selectors.EVENT_WRITE
        else:
            self.interest = selectors.EVENT_READ
            self.secure = True

    def has_unread(self) -> bool:
        """Whether bytes are at hand that the poller cannot see."""
        return bool(self._buffer) or (isinstance(self.sock, ssl.SSLSocket) and self.sock.pending() > 0)

    def holds_part(self) -> bool:
        """Whether a part of a request has arrived."""
        return bool(self._buffer)

    def receive(self, limits: Limits, large: Semaphore) -> bool:
        """Take in what is there, until it makes a request, which is then in ``request``.

        Args:
            limits: Bounds of a request.
            large: One permit for each long body that may be received at a time.

        Returns:
            Whether the request is whole.

        Raises:
            Refused: The request is outside the limits.
            ConnectionError: The peer closed.
            OSError: The connection broke.
        """
        while not self._framed(limits, large):
            try:
                chunk = self.sock.recv(_CHUNK)
            except (ssl.SSLWantReadError, BlockingIOError):
                self.interest = selectors.EVENT_READ
                return False
            except ssl.SSLWantWriteError:
                self.interest = selectors.EVENT_WRITE
                return False
            if not chunk:
                raise ConnectionResetError("the peer closed")
            self._buffer += chunk
        return True

    def _framed(self, limits: Limits, large: Semaphore) -> bool:
        if self._frame is None:
            found = frame(self._buffer, self._searched, limits.head, limits.body)
            self._searched = len(self._buffer)
            if found is None:
                return False
            if found.body > limits.small_body and not self._reserve(large):
                raise Refused("503 Service Unavailable", "too many long requests at one time; try again")
            self._frame = found
            if found.expects_continue and len(self._buffer) < found.total:
                self.out += b"HTTP/1.1 100 Continue\r\n\r\n"
                self.flush()
        if len(self._buffer) < self._frame.total:
            return False
        self.request = bytes(self._buffer[: self._frame.total])
        del self._buffer[: self._frame.total]  # what follows is a pipelined request
        self._searched = 0
        self._frame = None
        return True

    def _reserve(self, large: Semaphore) -> bool:
        if large.acquire(blocking=False):
            self._large = large
            return True
        return False

    def done(self) -> None:
        """The request has been served: let go of it and of its share of the memory."""
        self.request = b""
        if self._large is not None:
            self._large.release()
            self._large = None

    def flush(self) -> None:
        """Send what the peer takes of ``out``.

        Raises:
            OSError: The connection broke.
        """
        try:
            while self.out:
                # A retried TLS write must offer the same bytes again, which a prefix of `out` does.
                del self.out[: self.sock.send(memoryview(self.out)[:_CHUNK].tobytes())]
        except (ssl.SSLWantWriteError, BlockingIOError):
            self.interest = selectors.EVENT_WRITE
        except ssl.SSLWantReadError:
            self.interest = selectors.EVENT_READ

    def shut(self) -> None:
        """Say that nothing more will be sent; bytes on their way are still to be read (`discard`).

        Raises:
            OSError: The connection broke.
        """
        self._buffer.clear()
        self.interest = selectors.EVENT_READ
        self.sock.shutdown(socket.SHUT_WR)

    def discard(self) -> bool:
        """Read and forget; returns whether the peer has closed.

        Raises:
            OSError: The connection broke.
        """
        try:
            return not self.sock.recv(_CHUNK)
        except (ssl.SSLWantReadError, BlockingIOError):
            return False

    def close(self) -> None:
        """Close at once, and let go of everything."""
        self.state = State.CLOSED
        self.done()
        self.sock.close()


class Sink:
    """Stands in for the socket where gunicorn writes a response, and collects it.

    Attributes:
        data: What was written.
    """

    def __init__(self) -> None:
        self.data = bytearray()

    def sendall(self, data: bytes) -> None:
        """Collect a part of the response."""
        self.data += data

    def send(self, data: bytes) -> int:
        """Drop ``100 Continue``, all that gunicorn sends this way: the body is here already.

        Raises:
            ValueError: It was something else.
        """
        if not data.startswith(b"HTTP/1.1 100 ") or not data.endswith(HEAD_END):
            raise ValueError(f"gunicorn sends {data[:40]!r} around Response.write")
        return len(data)

    def gettimeout(self) -> float:
        """As a non-blocking socket, which gunicorn then leaves as it is."""
        return 0.0
