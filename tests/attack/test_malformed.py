"""Tests that malformed requests are refused or cut off, and that the server continues."""

import pytest

from tests.attack.peers import answers, refuses
from tests.attack.subject import Subject
from tests.helpers import random_bytes

BODY = b"\r\nContent-Type: application/json\r\nContent-Length: 5\r\n\r\nhello"
HOST = b"Host: localhost"


def with_wrong_lines() -> dict[str, bytes]:
    """Returns requests with a wrong first line. The head and the body after it do not form a review."""
    first = {
        "nothing": b"",
        "a word": b"POST",
        "no version": b"POST /mutate",
        "version 9.9": b"POST /mutate HTTP/9.9",
        "version 0.9": b"POST /mutate HTTP/0.9",
        "version in small letters": b"POST /mutate http/1.1",
        "a fourth word": b"POST /mutate HTTP/1.1 now",
        "two spaces": b"POST  /mutate HTTP/1.1",
        "a tab": b"POST\t/mutate\tHTTP/1.1",
        "a space before": b" POST /mutate HTTP/1.1",
        "a method with NUL": b"PO\x00ST /mutate HTTP/1.1",
        "a long method": b"P" * 5000 + b" /mutate HTTP/1.1",
        "a method in small letters": b"post /mutate HTTP/1.1",
        "TRACE": b"TRACE /mutate HTTP/1.1",
        "CONNECT": b"CONNECT localhost:443 HTTP/1.1",
        "a path with NUL": b"POST /mu\x00tate HTTP/1.1",
        "a path with CR": b"POST /mu\rtate HTTP/1.1",
        "a path with letters": "POST /ä HTTP/1.1".encode(),
        "a half escape": b"POST /%z HTTP/1.1",
        "an escaped NUL": b"POST /mutate%00 HTTP/1.1",
        "an escaped line end": b"POST /mutate%0d%0aX:y HTTP/1.1",
        "a path upwards": b"POST /../../etc/passwd HTTP/1.1",
        "a path of slashes": b"POST " + b"/" * 3000 + b" HTTP/1.1",
        "a path beyond the limit": b"POST /" + b"a" * 9000 + b" HTTP/1.1",
        "no path": b"POST ? HTTP/1.1",
        "a star": b"POST * HTTP/1.1",
        "a broken address": b"POST http://[::1/mutate HTTP/1.1",
        "another's address": b"POST https://example.invalid/x HTTP/1.1",
        "a port beyond all": b"POST https://localhost:99999999/mutate HTTP/1.1",
        "a line of the PROXY protocol": b"PROXY TCP4 1.2.3.4 5.6.7.8 1 2\r\nPOST /mutate HTTP/1.1",
        "empty lines": b"\r\n" * 500 + b"POST /mutate HTTP/1.1",
    }
    return {f"line: {name}": line + b"\r\n" + HOST + BODY for name, line in first.items()}


def with_wrong_fields() -> dict[str, bytes]:
    """Returns requests with a wrong header field. More are in `tests.attack.test_framing`."""
    wrong = {
        "no name": b": y",
        "a space in the name": b"X Y: z",
        "brackets in the name": b"(X): y",
        "a long name": b"X" * 20_000 + b": y",
        "a long value": b"X: " + b"y" * 20_000,
        "a thousand": b"\r\n".join(b"X-%d: y" % at for at in range(1000)),
        "a thousand of one name": b"\r\n".join([b"X: y"] * 1000),
        "two hosts": b"Host: other",
        "an expectation": b"Expect: miracles",
        "an upgrade": b"Connection: Upgrade\r\nUpgrade: h2c\r\nHTTP2-Settings: AAAA",
        "a web socket": b"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13",
        "a packed body": b"Content-Encoding: gzip",
        "a range": b"Range: bytes=0-99999999999999999999",
        "a proxy's words": b"X-Forwarded-Proto: http\r\nForwarded: for=unknown",
        "a connection of everything": b"Connection: close, keep-alive, Content-Length, Host",
        "names without an end": b"A" * 1_000_000,
        "fields without an end": b"X: y\r\n" * 100_000 + b"X: y",
        "another method in a field": b"X-HTTP-Method-Override: GET",
        "a length beyond the limit": b"Content-Length: 5000000",
    }
    return {
        f"field: {name}": b"POST /mutate HTTP/1.1\r\n" + HOST + b"\r\n" + field + BODY
        for name, field in wrong.items()
    }


def otherwise_malformed() -> dict[str, bytes]:
    """Returns other malformed requests."""
    post = b"POST /mutate HTTP/1.1\r\n" + HOST
    return {
        "random bytes": random_bytes(5000),
        "zeros": bytes(5000),
        "a long line": b"a" * 70_000,
        "empty lines only": b"\r\n" * 2000,
        "a handshake within": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(500),
        "the preface of HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(9),
        "the line of HTTP/0.9": b"GET /mutate\r\n",
        "another protocol": b"EHLO localhost\r\nMAIL FROM:<a@example.invalid>\r\n",
        "a head without end": post + b"\r\nX: y\r\n",
        "a body that is cut off": post + b"\r\nContent-Length: 500\r\n\r\n{}",
        "no length": post + b"\r\nContent-Type: application/json\r\n\r\n{}",
        "a length of nothing": post + b"\r\nContent-Type: application/json\r\nContent-Length: 0\r\n\r\n",
        "a content type of nonsense": post + b"\r\nContent-Type: /;;=\xff\r\nContent-Length: 2\r\n\r\n{}",
        "no host": b"POST /mutate HTTP/1.1" + BODY,
        "a query of nonsense": b"POST /mutate?timeout=%ff&&&=; HTTP/1.1\r\n" + HOST + BODY,
        "a thousand parameters": b"POST /mutate?" + b"a&" * 1000 + b" HTTP/1.1\r\n" + HOST + BODY,
    }


MALFORMED = {**with_wrong_lines(), **with_wrong_fields(), **otherwise_malformed()}


@pytest.mark.parametrize("sent", MALFORMED.values(), ids=MALFORMED)
def test_malformed_requests_are_refused_or_cut_off_and_the_server_continues(
    subject: Subject, sent: bytes
) -> None:
    results = answers(subject, sent)
    assert all(map(refuses, results)), results


@pytest.mark.parametrize("at", range(0, 200, 20))
def test_a_request_that_ends_anywhere_is_cut_off_and_the_server_continues(subject: Subject, at: int) -> None:
    whole = b"POST /mutate HTTP/1.1\r\n" + HOST + b"\r\nX-Padding: " + b"x" * 100 + BODY
    assert all(map(refuses, answers(subject, whole[:at])))
