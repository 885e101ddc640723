"""Tests that slow, silent and hostile peers hold a socket, but do not delay reviews.

Here the server gives a peer 60 seconds, and a client stops after 30 seconds. So a review that waited for a
peer would fail. ``tests/attack/test_live_reviews.py`` has more and longer attacks, on the program as a user
starts it.
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
from tests.serving.conftest import PATIENCE, Client, Server, read_all
from webhook.serving.turns import ReadCounter

REVIEW = b"r" * 6000
PATIENT = {"handshake_seconds": 60, "request_seconds": 60, "response_seconds": 60, "linger_seconds": 1}
SMALL = {**PATIENT, "connections": 12}
NARROW = {**PATIENT, "buffered": 2_000_000}
HASTY = {"handshake_seconds": 0.4, "request_seconds": 0.4}
GET = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
PEERS = 8


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


def assert_reviews_are_answered(server: Server, rounds: int = 5) -> None:
    """Asserts that reviews are answered, on two kept connections and on new connections at the same time."""

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


def assert_kept(sock: socket.socket, rest: bytes = b"") -> None:
    """Asserts that the server has kept a connection: it answers after the rest of a request."""
    sock.sendall(rest)
    assert sock.recv(12) == b"HTTP/1.1 200"


def half_open(server: Server) -> socket.socket:
    """Returns a connection on which half the first message of a handshake is sent."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = server.context.wrap_bio(incoming, outgoing, server_hostname="localhost")
    with pytest.raises(ssl.SSLWantReadError):
        tls.do_handshake()
    hello = outgoing.read()
    sock = server.tcp()
    sock.sendall(hello[: len(hello) // 2])
    return sock


def connect_and_send(data: bytes) -> Callable[[Server], socket.socket]:
    """Returns a function that connects to a server and sends data over TLS."""

    def begin(server: Server) -> socket.socket:
        sock = server.tls()
        sock.sendall(data)
        return sock

    return begin


HEAD = connect_and_send(b"GET / HTTP/1.1\r\nX-Slow: y\r\n")
BODY = connect_and_send(b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 6\r\n\r\nhalf")


@pytest.mark.parametrize(
    ("begin", "rest"),
    [
        (half_open, None),
        (Server.tcp, None),
        (HEAD, b"\r\n"),
        (BODY, b"__"),
        (connect_and_send(b"GET /large HTTP/1.1\r\nHost: x\r\n\r\n"), b""),
        (connect_and_send(GET.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")), b""),
    ],
    ids=["half-open", "silent", "head", "body", "not reading", "not closing"],
)
def test_several_peers_of_one_kind_do_not_delay_live_reviews(
    server: Server, begin: Callable[[Server], socket.socket], rest: bytes | None
) -> None:
    peers = [begin(server) for _ in range(PEERS)]
    assert_reviews_are_answered(server)
    for peer in peers if rest is not None else ():
        assert_kept(peer, rest or b"")


def test_several_long_requests_do_not_delay_live_reviews(server: Server, tmp_path: Path) -> None:
    end = tmp_path / "end"
    long = [
        connect_and_send(b"GET /until?%s HTTP/1.1\r\nHost: x\r\n\r\n" % bytes(end))(server) for _ in range(4)
    ]
    until(lambda: server.log().count("asleep") == len(long), "four requests that wait", PATIENCE, 0.01)
    assert_reviews_are_answered(server)
    end.touch()
    for sock in long:
        assert_kept(sock)


def test_peers_that_send_many_requests_at_once_share_one_turn(server: Server) -> None:
    """Protects live reviews: their p99 was 0.3 s next to 16 such peers, each of which had its own turn."""
    peers, requests, began = 4, 10, time.monotonic()
    socks = [connect_and_send(GET * requests)(server) for _ in range(peers)]
    for sock in socks:
        message = b""
        while message.count(b"HTTP/1.1 200") < requests:
            part = sock.recv(65536)
            assert part, message
            message += part
    pauses = peers * (requests - 1) - peers  # no pause follows if the next request arrives later
    assert time.monotonic() - began >= pauses * 0.01


def test_peers_that_disconnect_after_the_handshake_end_no_other_connection(server: Server) -> None:
    with server.client() as before:
        for turn in range(60):
            sock = server.tls()
            if turn % 2:  # with a reset
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            sock.close()
            assert before.post("/mutate", REVIEW) == REVIEW


def test_a_peer_that_sends_a_byte_at_a_time_is_cut_off_after_a_bounded_total_time(hasty: Server) -> None:
    # `head` and `body` use the listener without TLS, so that no deadline of a handshake applies to them.
    hello, head, body = half_open(hasty), hasty.tcp(listener=1), hasty.tcp(listener=1)
    head.sendall(b"POST /echo HTTP/1.1\r\nHo")
    body.sendall(b"POST / HTTP/1.1\r\nContent-Length: 9\r\n\r\n1")
    assert send_slowly(head).startswith(b"HTTP/1.1 408")
    assert read_all(body).startswith(b"HTTP/1.1 408")
    assert read_all(hello) == b""


def test_a_body_in_too_many_small_records_is_refused(server: Server) -> None:
    head = b"POST /mutate HTTP/1.1\r\nHost: x\r\nContent-Length: 250000\r\n\r\n"
    with server.tls() as sock:
        sock.sendall(head)
        for _ in range(200):
            sock.sendall(b"x")  # one record
        assert sock.recv(65536).startswith(b"HTTP/1.1 400 ")


@pytest.mark.parametrize(
    ("make_records", "version"),
    [
        (records.key_updates, ssl.TLSVersion.TLSv1_3),
        (records.answered_key_updates, ssl.TLSVersion.TLSv1_3),
        (records.empty_records, ssl.TLSVersion.TLSv1_3),
        (records.renegotiations, ssl.TLSVersion.TLSv1_2),
    ],
)
def test_a_peer_that_sends_too_many_records_without_data_is_refused(
    server: Server, make_records: Callable[[Records], Iterator[bytes]], version: ssl.TLSVersion
) -> None:
    """Protects the event loop from records that cost time and never become a request."""
    length_before = len(server.log())
    peer = Records(server.tcp(), version)
    with suppress(OSError):  # the server closes before all records are sent
        peer.raw.sendall(b"".join(make_records(peer)))
    read_all(peer.raw)  # ends when the server closes
    reasons = " 400", "without data"
    until(
        lambda: any(reason in server.log()[length_before:] for reason in reasons),
        "the reason in the log",
        PATIENCE,
        0.01,
    )


@pytest.mark.parametrize(("size", "reads"), [(1, 16), (65_536, 1)])
def test_the_turn_of_a_peer_ends_after_a_number_of_reads_or_bytes(size: int, reads: int) -> None:
    other_turns = list[int]()
    gevent.spawn(other_turns.append, 1)
    turns = ReadCounter()
    for _ in range(reads):
        assert not other_turns
        turns.has_too_many_after(size)
    assert other_turns


def send_slowly(sock: socket.socket) -> bytes:
    """Sends a byte at intervals until the server answers: bytes must not extend the deadline."""
    sock.settimeout(0.02)
    for _ in range(int(PATIENCE / 0.02)):
        try:
            return sock.recv(65536)
        except TimeoutError:
            sock.sendall(b"x")
    raise AssertionError(f"the server has not answered after {PATIENCE:.0f} seconds of bytes")


@pytest.mark.parametrize("connect", [Server.tcp, Server.tls], ids=["silent", "idle"])
def test_a_flood_of_new_peers_replaces_only_peers_that_were_never_answered(
    small: Server, connect: Callable[[Server], socket.socket]
) -> None:
    with small.client() as before:
        assert before.get("/") == 200
        sock = before.connection.sock
        flood = [connect(small) for _ in range(30)]
        assert_reviews_are_answered(small, rounds=3)
        assert before.get("/") == 200
        assert before.connection.sock is sock
    assert read_all(flood[0]) == b""


def test_a_flood_of_new_peers_ends_no_request_that_is_being_answered(small: Server, tmp_path: Path) -> None:
    """Protects a long review on the oldest of the connections that were never answered."""
    end = tmp_path / "end"
    served = connect_and_send(b"GET /until?%s HTTP/1.1\r\nHost: x\r\n\r\n" % bytes(end))(small)
    small.wait_for("asleep")
    flood = [small.tcp() for _ in range(30)]
    assert read_all(flood[0]) == b""
    end.touch()
    assert_kept(served)


def test_announced_bodies_that_do_not_arrive_do_not_exclude_a_large_review(server: Server) -> None:
    announce = connect_and_send(b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 3000000\r\n\r\nx")
    for _ in range(30):
        announce(server)
    with server.client() as client:
        assert client.post("/echo", b"z" * 1_000_000) == b"z" * 1_000_000


PART = 900_000


def send_part(server: Server, size: int, part: int) -> socket.socket:
    """Sends a part of a body, and waits until the server holds the part; returns the connection."""
    with server.client() as client:

        def held() -> int:
            client.get("/held")
            return int(client.content)

        expected = held() + part
        sock = connect_and_send(b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % size)(
            server
        )
        sock.sendall(b"z" * part)
        until(lambda: held() >= expected, f"a server that holds {expected} bytes", PATIENCE, 0.01)
    return sock


def test_above_the_limit_of_held_bytes_the_older_of_two_similar_requests_is_ended(narrow: Server) -> None:
    older, younger = (send_part(narrow, 1_000_000, part) for part in (PART, PART + 1))
    with narrow.client() as client:
        assert client.post("/echo", b"z" * PART) == b"z" * PART
    assert read_all(older) == b""
    assert_kept(younger, b"z" * 99_999)


def test_a_review_is_not_ended_because_of_the_bytes_of_later_requests(narrow: Server) -> None:
    review = send_part(narrow, 6_000, 5_000)
    others = [send_part(narrow, 1_000_000, PART) for _ in range(2)]
    last = connect_and_send(
        b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n" + b"z" * PART
    )(narrow)
    assert read_all(others[0]) == b""
    assert_kept(review, b"z" * 1_000)
    assert_kept(last, b"z" * 100_000)
