"""Attacks by connections: many, slow, silent, cut off, or with too many requests."""

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
from tests.helpers import random_bytes


def send_pipelined_requests(peers: Peers, requests: int, request: bytes) -> None:
    """Sends several requests at once and half-closes the connection, at most twenty times a second."""
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


def flood_with_requests(peers: Peers, count: int, request: bytes) -> None:
    """Opens connections, each of which sends a hundred requests at a time and then reads the answers."""

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


def hold_connections(peers: Peers, count: int, rate: float, connect: Callable[[], socket.socket]) -> None:
    """Holds connections without requests. Replaces the oldest one with a new one, ``rate`` times a second."""
    held: deque[socket.socket] = deque()
    while not peers.over():
        if len(held) >= count:
            peers.close(held.popleft())
            peers.pause(1 / rate)
        with contextlib.suppress(OSError):
            held.append(connect())


def hold_idle_connections(peers: Peers, count: int, rate: float) -> None:
    """Holds TLS connections without a request."""
    hold_connections(peers, count, rate, peers.tls)


def leave_after_handshakes(peers: Peers, at_once: int) -> None:
    """Closes TLS connections right after the handshake, like probes of ports and certificates."""

    def leave() -> None:
        with contextlib.suppress(OSError):
            peers.close(peers.tls())
        peers.pause(0.02)

    peers.together(at_once, leave)


def hold_silent_connections(peers: Peers, count: int, rate: float) -> None:
    """Holds TCP connections without a handshake."""
    hold_connections(peers, count, rate, peers.tcp)


def hold_half_open_handshakes(peers: Peers, count: int, rate: float) -> None:
    """Holds connections on which only a part of a handshake is sent."""
    hello = peers.hello()

    def connect() -> socket.socket:
        sock = peers.tcp()
        sock.sendall(hello[: len(hello) // 2])
        return sock

    hold_connections(peers, count, rate, connect)


def trickle_requests(peers: Peers, count: int) -> None:
    """Sends requests byte by byte, with pauses. Opens a connection again when it has ended."""
    request = post(review(job("slow", 2000)))
    threads = 4

    def trickle() -> None:
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

    peers.together(threads, trickle)


def send_garbage(peers: Peers, openssl: str | None = shutil.which("openssl")) -> None:
    """Sends random bytes in place of handshakes, broken TLS records, and endless renegotiations."""
    client = None
    if openssl:
        address = f"127.0.0.1:{peers.subject.port}"
        client = subprocess.Popen(
            [openssl, "s_client", "-tls1_2", "-connect", address],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
    hello = peers.hello()
    for turn in itertools.takewhile(lambda _: not peers.over(), itertools.count()):
        for data in (
            random_bytes(3000, turn),
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
                raw.sendall(b"\x17\x03\x03\x40\x00" + random_bytes(16_384, turn))
            peers.close(secure)
        if client and client.stdin:
            with contextlib.suppress(OSError):
                client.stdin.write(b"R\n" * 20)
                client.stdin.flush()
        peers.pause(0.02)
    if client:
        client.kill()
        client.communicate()


def send_without_reading(peers: Peers, count: int) -> None:
    """Sends reviews and reads no answer. The answers are larger than the sockets' buffers."""
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


def announce_bodies(peers: Peers, count: int, size: int) -> None:
    """Announces bodies and sends one byte of each. Begins again when the server closes a connection."""
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
