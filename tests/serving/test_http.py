"""Tests of keep-alive, pipelining and limits. ``tests/attack/test_framing.py`` tests hidden requests."""

import json
import socket
from collections.abc import Callable

import pytest

from tests.helpers import random_bytes
from tests.serving.conftest import Server, read_all
from webhook.messages import ERRORS, code_of
from webhook.serving.settings import API_SERVER_IDLE_SECONDS, Limits


@pytest.fixture
def server(shared: Callable[..., Server]) -> Server:
    return shared(second=True)


def test_keep_alive_serves_many_requests_on_one_connection(server: Server) -> None:
    with server.client() as client:
        assert client.get("/") == 200
        sock = client.connection.sock
        for _ in range(50):
            assert client.get("/") == 200
            assert client.headers["Connection"] == "keep-alive"
        assert client.connection.sock is sock


def test_the_server_keeps_idle_connections_longer_than_the_api_server() -> None:
    assert Limits().idle_seconds > API_SERVER_IDLE_SECONDS


def test_pipelined_requests_are_answered_in_order(server: Server) -> None:
    sock = server.tls()
    request = b"POST /mutate HTTP/1.1\r\nContent-Length: 4\r\nX: " + b"x" * 600 + b"\r\n\r\n%04d"
    last = b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
    # This is longer than the longest head, and more than a peer may send in its turn.
    sock.sendall(b"".join(request % number for number in range(150)) + last)
    bodies = [part[:4] for part in read_all(sock).split(b"\r\n\r\n")[1:]]
    assert bodies[:150] == [b"%04d" % number for number in range(150)]
    assert len(bodies) == 151


def test_a_body_in_many_pieces_arrives_whole(server: Server) -> None:
    sock = server.tls()
    body = random_bytes(300_000)
    sock.sendall(
        b"POST /echo HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % len(body)
    )
    for at in range(0, len(body), 7000):
        sock.sendall(body[at : at + 7000])
    assert read_all(sock).partition(b"\r\n\r\n")[2] == body


def test_a_client_that_expects_100_continue_gets_it_once_before_its_body(server: Server) -> None:
    sock = server.tls()
    sock.sendall(
        b"POST /echo HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\n"
        b"Connection: close\r\nContent-Length: 4\r\n\r\n"
    )
    assert sock.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
    sock.sendall(b"body")
    response = read_all(sock)
    assert response.startswith(b"HTTP/1.1 200")
    assert response.endswith(b"body")


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"GET /" + b"a" * 5000 + b" HTTP/1.1\r\nHost: x\r\n\r\n", b"414"),
        (b"GET / HTTP/1.1\r\nX: " + b"a" * 5000 + b"\r\n\r\n", b"431"),
        (b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * 100 + b"\r\n", b"431"),
        (b"GET / HTTP/1.1\r\n" + b"X: yyyyyyyyyy\r\n" * 2000, b"431"),
        (b"POST / HTTP/1.1\r\nContent-Length: 3145729\r\n\r\n", b"413"),
        (b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", b"411"),
        (b"POST / HTTP/1.1\r\nTransfer-Encoding: other\r\n\r\n", b"501"),
        (b"POST / HTTP/1.1\r\nExpect: wonders\r\nContent-Length: 1\r\n\r\n", b"417"),
        (b"<a> / HTTP/1.1\r\n\r\n", b"400"),
    ],
    ids=["line", "field", "fields", "head", "body", "chunked", "encoding", "expectation", "method"],
)
def test_requests_outside_the_limits_are_refused_with_a_reason_as_json(
    server: Server, sent: bytes, status: bytes
) -> None:
    sock = server.tls()
    sock.sendall(sent)
    head, _, body = read_all(sock).partition(b"\r\n\r\n")
    document = json.loads(body)
    assert head.split(b" ", 2)[1] == status
    assert b"Content-Type: application/json" in head
    assert document["code"] == code_of(int(status))
    assert document["error"] in {text for _, text in ERRORS.values()}


def test_an_error_in_the_application_is_a_500_without_its_text(server: Server) -> None:
    with server.client() as client:
        assert client.get("/fail") == 500
        assert json.loads(client.content) == {"code": "internal-server-error", "error": ERRORS[500][1]}
        assert client.get("/") == 200
    server.wait_for("RuntimeError: the application failed")
    server.lines.clear()


def test_headers_do_not_change_the_address_of_the_peer(server: Server) -> None:
    sock = server.tls()
    sock.sendall(
        b"GET /where HTTP/1.1\r\nHost: x\r\nX-Forwarded-Proto: http\r\nX-Forwarded-For: 6.6.6.6\r\n"
        b"SCRIPT_NAME: /where\r\nConnection: close\r\n\r\n"
    )
    assert read_all(sock).endswith(f"https {server.ports[0]} 127.0.0.1".encode())


@pytest.mark.parametrize("count", [1, 2, 5])
def test_the_second_listener_answers_pipelined_requests_before_a_half_close(
    server: Server, count: int
) -> None:
    sock = server.tcp(listener=1)
    sock.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n" * count)
    sock.shutdown(socket.SHUT_WR)
    assert read_all(sock).count(b"other") == count


def test_a_body_that_is_shorter_than_its_content_length_is_refused(server: Server) -> None:
    sock = server.tcp(listener=1)
    sock.sendall(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nhalf")
    sock.shutdown(socket.SHUT_WR)
    assert read_all(sock).startswith(b"HTTP/1.1 400")
