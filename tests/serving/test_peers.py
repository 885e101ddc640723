"""Slow, silent and hostile peers hold a socket, and nothing else.

Peers may take a minute here and a client gives up after half of one, so a review that had to wait for any of
them would fail. Attacks in greater numbers, for longer, and on the program as a user starts it:
``tests/attack/test_live_reviews.py``.
"""

import socket
import ssl
import struct
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import gevent
import pytest

from testbed.waiting import until
from tests.attack import records
from tests.attack.records import Records
from tests.serving.conftest import PATIENCE, Client, Server, answer
from webhook.serving.turns import ReadCounter

REVIEW = b"r" * 6000
PATIENT = {"handshake_seconds": 60, "request_seconds": 60, "response_seconds": 60, "linger_seconds": 1}
SMALL = {**PATIENT, "connections": 12}
NARROW = {**PATIENT, "buffered": 2_000_000}
HASTY = {"handshake_seconds": 0.4, "request_seconds": 0.4}
GET = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
SOME = 8


@pytest.fixture
def server(shared: Callable[..., Server]) -> Server:
    return shared(limits=PATIENT)


@pytest.fixture
def small(shared: Callable[..., Server]) -> Server:
    return shared(limits=SMALL)


@pytest.fixture
def narrow(shared: Callable[..., Server]) -> Server:
    return shared(limits=NARROW)


@pytest.fixture
def hasty(shared: Callable[..., Server]) -> Server:
    return shared(limits=HASTY, second=True)


def reviews_pass(server: Server, rounds: int = 5) -> None:
    """Sends reviews over two kept and over new connections, all at a time; each is answered."""

    def send(*, keep: bool) -> None:
        client = Client(server)
        for _ in range(rounds):
            assert client.post("/mutate?timeout=10s", REVIEW) == REVIEW
            if not keep:
                client.connection.close()
        client.connection.close()

    with ThreadPoolExecutor(4) as pool:
        for result in [pool.submit(send, keep=keep) for keep in (True, False) * 2]:
            result.result(PATIENCE)


def answered(sock: socket.socket, rest: bytes = b"") -> None:
    """The server has kept a connection: it answers what is sent on it at last."""
    sock.sendall(rest)
    assert sock.recv(12) == b"HTTP/1.1 200"


def half_open(server: Server) -> socket.socket:
    """Returns a handshake of which only half the first message is sent."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    talk = server.context.wrap_bio(incoming, outgoing, server_hostname="localhost")
    with pytest.raises(ssl.SSLWantReadError):
        talk.do_handshake()
    hello = outgoing.read()
    sock = server.tcp()
    sock.sendall(hello[: len(hello) // 2])
    return sock


def sending(data: bytes) -> Callable[[Server], socket.socket]:
    """Returns a peer that sends so much over TLS."""

    def begin(server: Server) -> socket.socket:
        sock = server.tls()
        sock.sendall(data)
        return sock

    return begin


HEAD = sending(b"GET / HTTP/1.1\r\nX-Slow: y\r\n")
BODY = sending(b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 6\r\n\r\nhalf")


@pytest.mark.parametrize(
    ("begin", "rest"),
    [
        (half_open, None),
        (Server.tcp, None),
        (HEAD, b"\r\n"),
        (BODY, b"__"),
        (sending(b"GET /large HTTP/1.1\r\nHost: x\r\n\r\n"), b""),
        (sending(GET.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")), b""),
    ],
    ids=["half-open", "silent", "head", "body", "not reading", "not closing"],
)
def test_more_peers_of_one_kind_leave_live_reviews_unharmed(
    server: Server, begin: Callable[[Server], socket.socket], rest: bytes | None
) -> None:
    peers = [begin(server) for _ in range(SOME)]
    reviews_pass(server)
    for peer in peers if rest is not None else ():
        answered(peer, rest or b"")


def test_more_long_requests_leave_live_reviews_unharmed(server: Server, tmp_path: Path) -> None:
    end = tmp_path / "end"
    long = [sending(b"GET /until?%s HTTP/1.1\r\nHost: x\r\n\r\n" % bytes(end))(server) for _ in range(4)]
    until(lambda: server.log().count("asleep") == len(long), "four requests that wait", PATIENCE, 0.01)
    reviews_pass(server)
    end.touch()
    for sock in long:
        answered(sock)


def test_peers_that_send_many_requests_at_once_have_one_turn_together(server: Server) -> None:
    """Protects live reviews, whose p99 was 0.3 s next to 16 such peers: each was served in each turn."""
    peers, requests, began = 4, 10, time.monotonic()
    socks = [sending(GET * requests)(server) for _ in range(peers)]
    for sock in socks:
        message = b""
        while message.count(b"HTTP/1.1 200") < requests:
            part = sock.recv(65536)
            assert part, message
            message += part
    in_line = peers * (requests - 1) - peers  # what comes in a second part may not wait
    assert time.monotonic() - began >= in_line * 0.01


def test_peers_that_leave_right_after_the_handshake_end_no_others_connection(server: Server) -> None:
    with server.client() as before:
        for turn in range(60):
            sock = server.tls()
            if turn % 2:  # with a reset
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            sock.close()
            assert before.post("/mutate", REVIEW) == REVIEW


def test_a_peer_that_sends_a_byte_at_a_time_is_cut_off_after_a_bounded_total_time(hasty: Server) -> None:
    # By the listener without TLS, where no handshake is in a hurry.
    hello, head, body = half_open(hasty), hasty.tcp(listener=1), hasty.tcp(listener=1)
    head.sendall(b"POST /echo HTTP/1.1\r\nHo")
    body.sendall(b"POST / HTTP/1.1\r\nContent-Length: 9\r\n\r\n1")
    assert trickled(head).startswith(b"HTTP/1.1 408")
    assert answer(body).startswith(b"HTTP/1.1 408")
    assert answer(hello) == b""


def test_a_body_in_too_many_small_records_is_refused(server: Server) -> None:
    head = b"POST /mutate HTTP/1.1\r\nHost: x\r\nContent-Length: 250000\r\n\r\n"
    with server.tls() as sock:
        sock.sendall(head)
        for _ in range(200):
            sock.sendall(b"x")  # a record of its own
        assert sock.recv(65536).startswith(b"HTTP/1.1 400 ")


@pytest.mark.parametrize(
    ("made", "version"),
    [
        (records.updates, ssl.TLSVersion.TLSv1_3),
        (records.answered_updates, ssl.TLSVersion.TLSv1_3),
        (records.empty, ssl.TLSVersion.TLSv1_3),
        (records.hellos, ssl.TLSVersion.TLSv1_2),
    ],
)
def test_a_peer_of_too_many_records_without_data_is_refused(
    server: Server, made: Callable[[Records], Iterator[bytes]], version: ssl.TLSVersion
) -> None:
    """Protects the loop from records that cost it time and never become a request."""
    peer = Records(server.tcp(), version)
    with suppress(OSError):  # closed before all of it is sent
        peer.raw.sendall(b"".join(made(peer)))
    answer(peer.raw)  # ends when the server closes
    assert " 400" in server.log() or "without data" in server.log()


@pytest.mark.parametrize(("size", "reads"), [(1, 16), (65_536, 1)])
def test_the_turn_of_a_peer_ends_after_some_reads_of_any_size(size: int, reads: int) -> None:
    ran = list[int]()
    gevent.spawn(ran.append, 1)
    turns = ReadCounter()
    for _ in range(reads):
        assert not ran
        turns.has_too_many_after(size)
    assert ran


def trickled(sock: socket.socket) -> bytes:
    """Sends a byte at intervals until the server says something: progress must not extend the deadline."""
    sock.settimeout(0.02)
    for _ in range(int(PATIENCE / 0.02)):
        try:
            return sock.recv(65536)
        except TimeoutError:
            sock.sendall(b"x")
    raise AssertionError(f"{PATIENCE:.0f} seconds of bytes, and the server waits for more")


@pytest.mark.parametrize("connect", [Server.tcp, Server.tls], ids=["silent", "idle"])
def test_a_flood_of_newcomers_drives_itself_out_and_no_client_that_was_answered(
    small: Server, connect: Callable[[Server], socket.socket]
) -> None:
    with small.client() as before:
        assert before.get("/") == 200
        sock = before.connection.sock
        flood = [connect(small) for _ in range(30)]
        reviews_pass(small, rounds=3)
        assert before.get("/") == 200
        assert before.connection.sock is sock
    assert answer(flood[0]) == b""


def test_a_flood_of_newcomers_ends_no_request_that_is_being_answered(small: Server, tmp_path: Path) -> None:
    """Protects a long review on a new connection, which is the oldest that was never answered."""
    end = tmp_path / "end"
    served = sending(b"GET /until?%s HTTP/1.1\r\nHost: x\r\n\r\n" % bytes(end))(small)
    small.wait_for("asleep")
    flood = [small.tcp() for _ in range(30)]
    assert answer(flood[0]) == b""
    end.touch()
    answered(served)


def test_bodies_that_are_announced_and_do_not_come_keep_no_large_review_out(server: Server) -> None:
    announce = sending(b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 3000000\r\n\r\nx")
    for _ in range(30):
        announce(server)
    with server.client() as client:
        assert client.post("/echo", b"z" * 1_000_000) == b"z" * 1_000_000


PART = 900_000


def announced(server: Server, size: int, part: int) -> socket.socket:
    """Returns a body of which only a part is sent, and that part has arrived."""
    with server.client() as client:

        def held() -> int:
            client.get("/held")
            return int(client.content)

        wanted = held() + part
        sock = sending(b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % size)(server)
        sock.sendall(b"z" * part)
        until(lambda: held() >= wanted, f"{wanted} bytes held", PATIENCE, 0.01)
    return sock


def test_above_the_bytes_that_may_be_held_the_older_of_two_like_requests_has_to_go(narrow: Server) -> None:
    older, younger = (announced(narrow, 1_000_000, part) for part in (PART, PART + 1))
    with narrow.client() as client:
        assert client.post("/echo", b"z" * PART) == b"z" * PART
    assert answer(older) == b""
    answered(younger, b"z" * 99_999)


def test_a_review_is_not_given_up_for_the_bytes_of_others_that_came_after_it(narrow: Server) -> None:
    review = announced(narrow, 6_000, 5_000)
    others = [announced(narrow, 1_000_000, PART) for _ in range(2)]
    last = sending(b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n" + b"z" * PART)(narrow)
    assert answer(others[0]) == b""
    answered(review, b"z" * 1_000)
    answered(last, b"z" * 100_000)
