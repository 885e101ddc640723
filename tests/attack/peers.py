"""Parts of attacks: open connections, bytes in any form, and all answers."""

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
"""Within which the server is done with a request, on a busy machine; it gives up slow ones after ten."""


def post(body: bytes, path: str = "/mutate", length: int | None = None) -> bytes:
    """Returns a request with a body, or with the announcement of a longer one."""
    size = len(body) if length is None else length
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    return head.encode() + b"Content-Length: %d\r\n\r\n" % size + body


class Peers:
    """The attackers of one server; use as a context manager, which closes their connections."""

    def __init__(self, subject: Subject, *, seconds: float = math.inf, turns: float = math.inf) -> None:
        """An attack that lasts this long, or this many turns."""
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
        """Starts the time of the attack, after its preparation."""
        self._until = time.monotonic() + self._seconds

    def over(self) -> bool:
        """Returns whether the attack has lasted long enough; called before each turn."""
        with self._lock:
            self._turns -= 1
        return self._turns < 0 or time.monotonic() >= self._until

    def pause(self, seconds: float) -> None:
        """Wait, but not beyond the end."""
        self._left.wait(max(0.0, min(seconds, self._until - time.monotonic())))

    def tcp(self, port: int | None = None) -> socket.socket:
        """Returns a TCP connection; the caller may forget it.

        Raises:
            OSError: There is no connection.
        """
        sock = socket.create_connection(("127.0.0.1", port or self.subject.port), timeout=PATIENCE_SECONDS)
        self._open.add(sock)
        return sock

    def tls(self, context: ssl.SSLContext | None = None) -> ssl.SSLSocket:
        """Returns a TLS connection, its handshake done.

        Raises:
            OSError: There is no connection.
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
        talk = self._context.wrap_bio(incoming, outgoing, server_hostname="localhost")
        with contextlib.suppress(ssl.SSLWantReadError):
            talk.do_handshake()
        return outgoing.read()

    def close(self, sock: socket.socket) -> None:
        """Closes a connection."""
        self._open.discard(sock)
        sock.close()

    def ask(self, request: bytes, port: int | None = None) -> bytes:
        """Sends a request and read what comes until the server is done; empty where nothing comes."""
        data = b""
        with contextlib.suppress(OSError):
            sock = self.tcp(port) if port else self.tls()
            sock.settimeout(max(0.1, min(PATIENCE_SECONDS, self._until - time.monotonic())))
            with contextlib.suppress(OSError):
                sock.sendall(request)
                data = sock.recv(65536)
            self.close(sock)
        return data

    def together(self, count: int, what: Callable[[], object]) -> None:
        """Has something done by several threads at a time, again and again until the end."""

        def again() -> None:
            while not self.over():
                what()

        threads = [threading.Thread(target=again) for _ in range(count)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()


def end_of_sending(sock: socket.socket) -> None:
    """Half-close: the peer reads an end, and this side still reads answers."""
    # The method of a TLS connection would forget its keys.
    socket.socket.shutdown(sock, socket.SHUT_WR)


@dataclass(frozen=True)
class Answer:
    """One answer as it came."""

    status: int
    body: bytes


def refuses(answer: Answer) -> bool:
    """Returns whether an answer says that the request was wrong: 4xx, or an unknown coding or version."""
    return 400 <= answer.status < 500 or answer.status in {501, 505}


def answers(subject: Subject, sent: bytes) -> list[Answer]:
    """Returns everything that the server answers to bytes, until it closes or sends nothing more.

    This side ends its sending right behind them, so that the server does not wait for more.
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
    return parsed(data)


def parsed(data: bytes) -> list[Answer]:
    """Returns the answers in a stream, ``100 Continue`` left out."""
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
