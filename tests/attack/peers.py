"""Parts of attacks: connections, requests of any bytes, and the answers to them."""

import contextlib
import math
import re
import resource
import socket
import ssl
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

from tests.attack.subject import Subject

PATIENCE_SECONDS = 20.0
FILES = 4096
GET = b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n"
DONE_SECONDS = 15.0
"""Maximum time of a request on a busy machine. The server ends a slow request after ten seconds."""


def post(body: bytes, path: str = "/mutate", length: int | None = None) -> bytes:
    """Returns a request with a body. ``length`` announces another length than that of the body."""
    size = len(body) if length is None else length
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    return head.encode() + b"Content-Length: %d\r\n\r\n" % size + body


class Peers:
    """The attackers of a server. Use it as a context manager, which closes their connections."""

    def __init__(self, subject: Subject, *, seconds: float = math.inf, turns: float = math.inf) -> None:
        """Prepares an attack that lasts this number of seconds, or this number of turns."""
        self.subject, self._seconds, self._turns = subject, seconds, turns
        self._lock, self._left = threading.Lock(), threading.Event()
        self.begin()
        self._open: set[socket.socket] = set()
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        self._context.check_hostname, self._context.verify_mode = False, ssl.CERT_NONE
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        if soft < FILES <= hard:
            resource.setrlimit(resource.RLIMIT_NOFILE, (FILES, hard))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._left.set()
        for sock in list(self._open):
            self.close(sock)

    def begin(self) -> None:
        """Starts the clock of the attack, after the preparation."""
        self._until = time.monotonic() + self._seconds

    def over(self) -> bool:
        """Returns whether the attack has lasted long enough. An attack calls it before each turn."""
        with self._lock:
            self._turns -= 1
        return self._turns < 0 or time.monotonic() >= self._until

    def pause(self, seconds: float) -> None:
        """Waits for this time, but not beyond the end of the attack."""
        self._left.wait(max(0.0, min(seconds, self._until - time.monotonic())))

    def tcp(self, port: int | None = None) -> socket.socket:
        """Returns a TCP connection, which is closed at the end if the caller does not close it.

        Raises:
            OSError: The server does not accept the connection.
        """
        sock = socket.create_connection(("127.0.0.1", port or self.subject.port), timeout=PATIENCE_SECONDS)
        self._open.add(sock)
        return sock

    def tls(self, context: ssl.SSLContext | None = None) -> ssl.SSLSocket:
        """Returns a TLS connection after the handshake.

        Raises:
            OSError: The connection or its handshake fails.
        """
        raw = self.tcp()
        self._open.discard(raw)
        try:
            sock = (context or self._context).wrap_socket(raw, server_hostname="localhost")
        except OSError:
            raw.close()
            raise
        self._open.add(sock)
        return sock

    def hello(self) -> bytes:
        """Returns the first message of a handshake."""
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        tls = self._context.wrap_bio(incoming, outgoing, server_hostname="localhost")
        with contextlib.suppress(ssl.SSLWantReadError):
            tls.do_handshake()
        return outgoing.read()

    def close(self, sock: socket.socket) -> None:
        """Closes a connection."""
        self._open.discard(sock)
        sock.close()

    def ask(self, request: bytes, port: int | None = None) -> bytes:
        """Sends a request on a new connection; returns the beginning of the answer, or an empty text."""
        data = b""
        with contextlib.suppress(OSError):
            sock = self.tcp(port) if port else self.tls()
            sock.settimeout(max(0.1, min(PATIENCE_SECONDS, self._until - time.monotonic())))
            with contextlib.suppress(OSError):
                sock.sendall(request)
                data = sock.recv(65536)
            self.close(sock)
        return data

    def together(self, count: int, step: Callable[[], object]) -> None:
        """Calls a function again and again in several threads, until the end of the attack."""

        def repeat() -> None:
            while not self.over():
                step()

        threads = [threading.Thread(target=repeat) for _ in range(count)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()


def end_of_sending(sock: socket.socket) -> None:
    """Half-closes a connection: the peer reads the end, and this side can still read answers."""
    # The method of `SSLSocket` would remove the TLS keys.
    socket.socket.shutdown(sock, socket.SHUT_WR)


@dataclass(frozen=True)
class Answer:
    """An answer of the server."""

    status: int
    body: bytes


def refuses(answer: Answer) -> bool:
    """Returns whether an answer refuses the request: 4xx, or an unknown coding or version."""
    return 400 <= answer.status < 500 or answer.status in {501, 505}


def answers(subject: Subject, sent: bytes) -> list[Answer]:
    """Sends bytes to the server; returns its answers until it closes the connection or sends nothing more.

    A half-close follows the bytes, so that the server does not wait for more.
    """
    data = b""
    with Peers(subject) as peers, contextlib.suppress(OSError):
        sock = peers.tls()
        sock.settimeout(DONE_SECONDS)
        with contextlib.suppress(OSError):
            sock.sendall(sent)
            end_of_sending(sock)
        while part := sock.recv(65536):
            data += part
    return parse_answers(data)


def parse_answers(data: bytes) -> list[Answer]:
    """Returns the answers in a stream, without ``100 Continue``."""
    result = []
    while data:
        head, _, data = data.partition(b"\r\n\r\n")
        status = re.match(rb"HTTP/1\.[01] (\d{3}) ?", head)
        assert status, f"no answer: {head[:200]!r}"
        length = re.search(rb"(?i)\r\ncontent-length: *(\d+)", head)
        size = int(length[1]) if length else 0
        if status[1] != b"100":
            result.append(Answer(int(status[1]), data[:size]))
        data = data[size:]
    return result
