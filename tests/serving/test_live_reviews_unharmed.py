"""Slow, silent and malicious peers hold a socket, and nothing else."""

from __future__ import annotations

import ssl
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from tests.serving.conftest import PATIENCE, Client, Server, answer

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Iterable, Iterator

REVIEW = b"r" * 6000
BOUND = 3.0
"""Seconds that no live request may take. A pinned thread would hold it until a deadline of 60."""
PATIENT = {"handshake_seconds": 60, "request_seconds": 60, "response_seconds": 60}


PATHS = {"short": "/mutate?timeout=10s", "pool": "/echo"}
"""A path that the loop serves by itself, and one that a thread does."""


def reviews_pass(server: Server, rounds: int = 20, paths: Iterable[str] = PATHS.values()) -> None:
    """Send reviews over kept and over new connections, several at a time; all succeed in time."""
    slowest: list[float] = []

    def send(path: str, *, keep: bool) -> None:
        client = Client(server)
        for _ in range(rounds):
            begun = time.monotonic()
            assert client.post(path, REVIEW) == REVIEW
            slowest.append(time.monotonic() - begun)
            if not keep:
                client.connection.close()
        client.connection.close()

    with ThreadPoolExecutor(4) as pool:
        for result in [pool.submit(send, path, keep=keep) for path in paths for keep in (True, False)]:
            result.result(PATIENCE * 3)
    assert max(slowest) < BOUND, sorted(slowest)[-5:]


def half_open(server: Server) -> socket.socket:
    """A handshake of which only half the first message is sent."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    talk = server.context.wrap_bio(incoming, outgoing, server_hostname="localhost")
    with pytest.raises(ssl.SSLWantReadError):
        talk.do_handshake()
    hello = outgoing.read()
    sock = server.tcp()
    sock.sendall(hello[: len(hello) // 2])
    return sock


@pytest.fixture
def trickle() -> Iterator[Callable[[socket.socket, bytes], None]]:
    """Sends bytes one by one, twenty a second, until the test ends."""
    stop = threading.Event()
    threads = []

    def begin(sock: socket.socket, data: bytes) -> None:
        def run() -> None:
            for at in range(len(data)):
                try:
                    sock.sendall(data[at : at + 1])
                except OSError:
                    return
                if stop.wait(0.05):
                    return

        threads.append(threading.Thread(target=run))
        threads[-1].start()

    yield begin
    stop.set()
    for thread in threads:
        thread.join(PATIENCE)


def test_idle_half_open_trickling_and_silent_peers_together_leave_live_reviews_unharmed(
    start: Callable[..., Server], trickle: Callable[[socket.socket, bytes], None]
) -> None:
    server = start(limits=PATIENT)
    idle = [server.tls() for _ in range(16)]
    half_open(server)
    server.tcp()
    trickle(server.tls(), b"POST /echo HTTP/1.1\r\nHost: slow\r\n" + b"X-Slow: y\r\n" * 300)
    reviews_pass(server)
    for sock in idle:  # they were kept, too
        sock.sendall(b"GET / HTTP/1.1\r\nHost: idle\r\n\r\n")
        assert sock.recv(12) == b"HTTP/1.1 200"


def test_more_half_open_handshakes_leave_live_reviews_unharmed(
    start: Callable[..., Server],
) -> None:
    server = start(limits=PATIENT)
    for _ in range(8):
        half_open(server)
        server.tcp()
    reviews_pass(server)


def test_more_peers_with_unfinished_heads_leave_live_reviews_unharmed(
    start: Callable[..., Server], trickle: Callable[[socket.socket, bytes], None]
) -> None:
    server = start(limits=PATIENT)
    for _ in range(8):
        trickle(server.tls(), b"GET / HTTP/1.1\r\n" + b"X-Slow: y\r\n" * 300)
    reviews_pass(server)


def test_more_peers_with_unfinished_bodies_leave_live_reviews_unharmed(
    start: Callable[..., Server],
) -> None:
    server = start(limits=PATIENT)
    for _ in range(8):
        server.tls().sendall(b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\nonly a part")
    reviews_pass(server)


def test_more_peers_that_never_read_their_response_leave_live_reviews_unharmed(
    start: Callable[..., Server],
) -> None:
    server = start(limits=PATIENT)
    for _ in range(8):
        server.tls().sendall(b"GET /large HTTP/1.1\r\nHost: x\r\n\r\n")
    reviews_pass(server)


def test_peers_that_do_not_close_after_connection_close_leave_live_reviews_unharmed(
    start: Callable[..., Server],
) -> None:
    server = start(limits={**PATIENT, "linger_seconds": 20})
    for _ in range(8):
        server.tls().sendall(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    reviews_pass(server)


@pytest.mark.parametrize(
    ("sent", "told"),
    [
        (b"", b""),
        (b"POST /echo HTTP/1.1\r\nHo", b"408"),
        (b"POST / HTTP/1.1\r\nContent-Length: 9\r\n\r\n1", b"408"),
    ],
    ids=["no handshake", "head", "body"],
)
def test_a_peer_that_sends_a_byte_at_a_time_is_cut_off_after_a_bounded_total_time(
    start: Callable[..., Server], sent: bytes, told: bytes
) -> None:
    server = start(limits={"handshake_seconds": 1, "request_seconds": 1})
    if sent:
        sock: socket.socket = server.tls()
        sock.sendall(sent)
        begun = time.monotonic()
        said = b"" if b"\r\n\r\n" in sent else trickled(sock)
    else:
        sock, said = half_open(server), b""
        begun = time.monotonic()
    said += answer(sock)
    assert time.monotonic() - begun < PATIENCE
    assert said.startswith(b"HTTP/1.1 " + told) if told else not said


def trickled(sock: socket.socket) -> bytes:
    """Sends a byte now and then until the server says something: progress must not extend the deadline.

    Sent and received by one thread, for a TLS connection is no thing to share.
    """
    sock.settimeout(0.05)
    for _ in range(400):
        try:
            said = sock.recv(65536)
        except TimeoutError:
            sock.sendall(b"x")
        else:
            sock.settimeout(PATIENCE)
            return said
    raise AssertionError("twenty seconds of bytes, and the server waits for more")


def test_more_long_requests_leave_live_reviews_unharmed(start: Callable[..., Server]) -> None:
    server = start(limits=PATIENT)
    for _ in range(4):
        server.tls().sendall(b"GET /sleep/5 HTTP/1.1\r\nHost: x\r\n\r\n")
    time.sleep(0.3)
    reviews_pass(server, paths=[PATHS["short"]])


def test_a_full_server_makes_room_by_closing_the_slowest_peer_not_an_idle_client(
    start: Callable[..., Server],
) -> None:
    server = start(limits={**PATIENT, "connections": 8})
    with server.client() as kept:
        pid = kept.post("/", b"")
        for _ in range(20):
            server.tcp()
        reviews_pass(server, rounds=3)
        sock = kept.connection.sock
        assert kept.post("/", b"") == pid
        assert kept.connection.sock is sock


def test_bodies_that_are_announced_and_do_not_come_keep_no_large_review_out(
    start: Callable[..., Server],
) -> None:
    server = start(limits=PATIENT)
    for _ in range(30):
        server.tls().sendall(b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 3000000\r\n\r\nx")
    with server.client() as client:
        assert client.post("/echo", b"z" * 1_000_000) == b"z" * 1_000_000


def test_above_the_bytes_that_may_be_held_the_older_of_two_like_requests_has_to_go(
    start: Callable[..., Server],
) -> None:
    server = start(limits={**PATIENT, "buffered": 2_000_000})
    announced = b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n"
    holders = [server.tls() for _ in range(2)]
    for sock in holders:
        sock.sendall(announced + b"z" * 900_000)
        time.sleep(0.3)
    with server.client() as client:
        assert client.post("/echo", b"z" * 900_000) == b"z" * 900_000
    assert answer(holders[0]) == b""
    holders[1].sendall(b"z" * 100_000)
    assert holders[1].recv(12) == b"HTTP/1.1 200"


def test_a_review_is_not_given_up_for_the_bytes_of_others_that_came_after_it(
    start: Callable[..., Server],
) -> None:
    server = start(limits={**PATIENT, "buffered": 2_000_000})
    review = server.tls()
    review.sendall(b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 6000\r\n\r\n" + b"z" * 5_000)
    time.sleep(0.3)
    announced = b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n"
    holders = [server.tls() for _ in range(3)]
    for sock in holders:
        sock.sendall(announced + b"z" * 900_000)
        time.sleep(0.3)
    review.sendall(b"z" * 1_000)
    assert review.recv(12) == b"HTTP/1.1 200"
    assert answer(holders[0]) == b""


def test_a_flood_of_newcomers_drives_itself_out_and_no_client_that_was_answered(
    start: Callable[..., Server],
) -> None:
    server = start(limits={**PATIENT, "connections": 20})
    with server.client() as kept:
        assert kept.get("/") == 200
        sock = kept.connection.sock
        idle = [server.tls() for _ in range(60)]
        reviews_pass(server, rounds=3)
        assert kept.get("/") == 200
        assert kept.connection.sock is sock
    assert answer(idle[0]) == b""
