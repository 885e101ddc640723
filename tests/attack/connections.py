"""Attacks by connections: many, slow, silent, cut off, or with more in them than is right."""

import contextlib
import itertools
import os
import shutil
import socket
import subprocess
from collections import deque
from collections.abc import Callable

from tests.attack.live import job, review
from tests.attack.peers import GET, Peers, end_of_sending, post
from tests.helpers import noise


def pipelined(peers: Peers, requests: int, request: bytes) -> None:
    """Requests sent at once, then a half-close; ten times a second."""
    while not peers.over():
        with contextlib.suppress(OSError):
            sock = peers.tls()
            sock.sendall(request * requests)
            end_of_sending(sock)
            sock.settimeout(0.1)
            with contextlib.suppress(OSError):
                while sock.recv(65536):
                    pass
            peers.close(sock)
        peers.pause(0.05)


def flooding(peers: Peers, count: int, request: bytes) -> None:
    """Connections on which a hundred requests come at a time, before there are answers."""

    def flood() -> None:
        with contextlib.suppress(OSError):
            sock = peers.tls()
            while not peers.over():
                sock.sendall(request * 100)
                answers = 0
                while answers < 100 and (part := sock.recv(65536)):
                    answers += part.count(b"HTTP/1.1 ")
            peers.close(sock)

    peers.together(count, flood)


def renewed(peers: Peers, count: int, rate: float, connect: Callable[[], socket.socket]) -> None:
    """Connections that are held without a word, the oldest given up for a new one at a rate a second."""
    held: deque[socket.socket] = deque()
    while not peers.over():
        if len(held) >= count:
            peers.close(held.popleft())
            peers.pause(1 / rate)
        with contextlib.suppress(OSError):
            held.append(connect())


def idle(peers: Peers, count: int, rate: float) -> None:
    """TLS connections without a request."""
    renewed(peers, count, rate, peers.tls)


def leaving(peers: Peers, at_once: int) -> None:
    """TLS connections that are closed right after the handshake, as by probes of ports and certificates."""

    def leave() -> None:
        with contextlib.suppress(OSError):
            peers.close(peers.tls())
        peers.pause(0.02)

    peers.together(at_once, leave)


def silent(peers: Peers, count: int, rate: float) -> None:
    """TCP connections without a handshake."""
    renewed(peers, count, rate, peers.tcp)


def half_open(peers: Peers, count: int, rate: float) -> None:
    """Handshakes of which only a part is sent."""
    hello = peers.hello()

    def connect() -> socket.socket:
        sock = peers.tcp()
        sock.sendall(hello[: len(hello) // 2])
        return sock

    renewed(peers, count, rate, connect)


def trickling(peers: Peers, count: int) -> None:
    """Requests of which a byte is sent from time to time; a connection that ends is opened again."""
    request = post(review(job("slow", 2000)))
    threads = 4

    def some() -> None:
        held: list[tuple[socket.socket, int]] = []
        while not peers.over():
            with contextlib.suppress(OSError):
                while len(held) < count // threads and not peers.over():
                    held.append((peers.tls(), 0))
            for at, (sock, sent) in enumerate(held):
                try:
                    sock.sendall(request[sent : sent + 1])
                    held[at] = (sock, sent + 1)
                except OSError:
                    peers.close(sock)
            held = [(sock, sent) for sock, sent in held if sock.fileno() >= 0]
            peers.pause(0.2)

    peers.together(threads, some)


def garbage(peers: Peers, openssl: str | None = shutil.which("openssl")) -> None:
    """No handshakes, broken records within TLS, and renegotiations without end."""
    asker = None
    if openssl:
        address = f"127.0.0.1:{peers.subject.port}"
        asker = subprocess.Popen(
            [openssl, "s_client", "-tls1_2", "-connect", address],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
    hello = peers.hello()
    for turn in itertools.takewhile(lambda _: not peers.over(), itertools.count()):
        for data in (
            noise(3000, turn),
            GET * 50,
            hello + hello,
            hello[:5] + b"\xff" * 60_000,
            b"\x80\x2e\x01",
        ):
            with contextlib.suppress(OSError):
                sock = peers.tcp()
                sock.sendall(data)
                peers.close(sock)
        with contextlib.suppress(OSError):
            secure = peers.tls()
            raw = socket.socket(fileno=os.dup(secure.fileno()))
            with raw:
                raw.sendall(b"\x17\x03\x03\x40\x00" + noise(16_384, turn))
            peers.close(secure)
        if asker and asker.stdin:
            with contextlib.suppress(OSError):
                asker.stdin.write(b"R\n" * 20)
                asker.stdin.flush()
        peers.pause(0.02)
    if asker:
        asker.kill()
        asker.communicate()


def never_reading(peers: Peers, count: int) -> None:
    """Reviews whose answers no one takes, more of them than the sockets' buffers hold."""
    request = post(review(job("unread", 3000))) * 40
    held: deque[socket.socket] = deque()
    while not peers.over():
        if len(held) >= count:
            peers.close(held.popleft())
            peers.pause(0.2)
        with contextlib.suppress(OSError):
            raw = peers.tls()
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            raw.settimeout(0.3)
            held.append(raw)
            raw.sendall(request)


def announced(peers: Peers, count: int, size: int) -> None:
    """Bodies that are announced and of which one byte is sent; what the server gives up is sent again."""
    part = post(b"{", length=size)
    held: list[socket.socket] = []
    while not peers.over():
        for sock in list(held):
            sock.settimeout(0)
            with contextlib.suppress(BlockingIOError, OSError):
                if sock.recv(65536) is not None:
                    held.remove(sock)
                    peers.close(sock)
        with contextlib.suppress(OSError):
            while len(held) < count:
                held.append(peers.tls())
                held[-1].sendall(part)
        peers.pause(0.1)
