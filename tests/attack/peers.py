"""What every attack is made of: connections that are held, and requests that are sent without regard."""

from __future__ import annotations

import contextlib
import resource
import socket
import ssl
import threading
import time
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.attack.subject import Subject

PATIENCE_SECONDS = 20.0
FILES = 4096
GET = b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n"


def post(body: bytes, path: str = "/mutate", length: int | None = None) -> bytes:
    """A request with a body, or with the announcement of a longer one."""
    size = len(body) if length is None else length
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    return head.encode() + b"Content-Length: %d\r\n\r\n" % size + body


class Peers:
    """The attackers of one server; what they hold is let go when this is left.

    Attributes:
        until: ``time.monotonic()`` at which the attack is over.
    """

    def __init__(self, subject: Subject, seconds: float) -> None:
        self.subject, self._seconds = subject, seconds
        self.begin()
        self._open: set[socket.socket] = set()
        self._context = ssl.create_default_context()
        self._context.check_hostname = False
        self._context.verify_mode = ssl.CERT_NONE
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        if soft < FILES <= hard:
            resource.setrlimit(resource.RLIMIT_NOFILE, (FILES, hard))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for sock in list(self._open):
            self.close(sock)

    def begin(self) -> None:
        """Count the time of the attack from now on: what it needs has been made."""
        self.until = time.monotonic() + self._seconds

    def over(self) -> bool:
        """Whether the attack has lasted as long as it should."""
        return time.monotonic() >= self.until

    def pause(self, seconds: float) -> None:
        """Wait, but not beyond the end."""
        time.sleep(max(0.0, min(seconds, self.until - time.monotonic())))

    def tcp(self, port: int | None = None) -> socket.socket:
        """A TCP connection; the caller may forget it.

        Raises:
            OSError: There is none to be had.
        """
        sock = socket.create_connection(("127.0.0.1", port or self.subject.port), timeout=PATIENCE_SECONDS)
        self._open.add(sock)
        return sock

    def tls(self) -> ssl.SSLSocket:
        """A TLS connection, its handshake done.

        Raises:
            OSError: There is none to be had.
        """
        raw = self.tcp()
        self._open.discard(raw)
        try:
            sock = self._context.wrap_socket(raw, server_hostname="localhost")
        except OSError:
            raw.close()
            raise
        self._open.add(sock)
        return sock

    def hello(self) -> bytes:
        """The first message of a handshake."""
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        talk = self._context.wrap_bio(incoming, outgoing, server_hostname="localhost")
        with contextlib.suppress(ssl.SSLWantReadError):
            talk.do_handshake()
        return outgoing.read()

    def close(self, sock: socket.socket) -> None:
        """Let go of a connection."""
        self._open.discard(sock)
        sock.close()

    def ask(self, request: bytes, port: int | None = None) -> bytes:
        """Send a request and read what comes until the server is done; empty where nothing comes."""
        said = b""
        with contextlib.suppress(OSError):
            sock = self.tcp(port) if port else self.tls()
            sock.settimeout(max(0.1, self.until - time.monotonic()))
            with contextlib.suppress(OSError):
                sock.sendall(request)
                said = sock.recv(65536)
            self.close(sock)
        return said

    def together(self, count: int, what: Callable[[], object]) -> None:
        """Have something done by several threads at a time, again and again until the end."""

        def again() -> None:
            while not self.over():
                what()

        threads = [threading.Thread(target=again) for _ in range(count)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()


def end_of_sending(sock: socket.socket) -> None:
    """Half-close: the peer reads an end, and this side still hears what it says."""
    # The method of a TLS connection would forget its keys.
    socket.socket.shutdown(sock, socket.SHUT_WR)
