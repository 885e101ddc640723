"""Tests that a second request that hides in the bytes of another request is not answered."""

import pytest

from tests.attack.peers import answers, refuses
from tests.attack.subject import Subject

HIDDEN = b"GET /livez HTTP/1.1\r\nHost: hidden\r\n\r\n"
HEAD = b"POST /mutate HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
SIZE = b"%d" % len(HIDDEN)
CHUNKED = b"%x\r\n" % len(HIDDEN) + HIDDEN + b"\r\n0\r\n\r\n"


def lengths() -> dict[str, bytes]:
    """Returns values of Content-Length that a lax parser reads as another number than a strict parser."""
    values = {f"{digits} digits": SIZE.rjust(digits, b"0") for digits in (18, 19, 20, 40, 1000)}
    values |= {f"{digits} nines": b"9" * digits for digits in (7, 18, 19, 20, 40, 4000)}
    values |= {
        "64 bits and over": b"%d" % (2**64 + len(HIDDEN)),
        "32 bits and over": b"%d" % (2**32 + len(HIDDEN)),
        "plus": b"+" + SIZE,
        "minus": b"-" + SIZE,
        "minus zero": b"-0",
        "space within": SIZE[:1] + b" " + SIZE[1:],
        "underscore": SIZE[:1] + b"_" + SIZE[1:],
        "list of equals": SIZE + b", " + SIZE,
        "list": b"0, " + SIZE,
        "list, longer first": SIZE + b", 0",
        "nothing": b"",
        "word": b"none",
        "other digits": "٣٦".encode(),
        "superscript": "²".encode("latin-1"),
        "vertical tab": b"\x0b" + SIZE,
        "form feed behind": SIZE + b"\x0c",
        "NUL behind": SIZE + b"\x00",
        "no-break space": b"\xa0" + SIZE,
    }
    return {f"Content-Length: {name}": b"Content-Length: " + value for name, value in values.items()}


def headers() -> dict[str, bytes]:
    """Returns headers with two lengths, or with a length that only some parsers find."""
    length = b"Content-Length: " + SIZE
    return lengths() | {
        "two lengths": b"Content-Length: 0\r\n" + length,
        "two lengths, longer first": length + b"\r\nContent-Length: 0",
        "two equal lengths": length + b"\r\n" + length,
        "length in other case": b"Content-Length: 0\r\nCONTENT-LENGTH: " + SIZE,
        "space before the colon": b"Content-Length : " + SIZE,
        "tab before the colon": b"Content-Length\t: " + SIZE,
        "space before the name": b"X: y\r\n Content-Length: " + SIZE,
        "length behind a folded line": b"X: y\r\n\tz\r\n" + length,
        "folded length": b"Content-Length:\r\n " + SIZE,
        "NUL in the name": b"Content-Length\x00: " + SIZE,
        "NUL in a value": b"X: \x00\r\n" + length,
        "bare LF before the length": b"X: y\n" + length,
        "bare CR before the length": b"X: y\r" + length,
        "bare LF behind the length": length + b"\nX: y",
        "LF CR": b"X: y\n\r" + length,
        "no colon": b"Content-Length " + SIZE,
        "length and chunked": length + b"\r\nTransfer-Encoding: chunked",
        "chunked and length": b"Transfer-Encoding: chunked\r\n" + length,
        "length with an underscore": b"Content_Length: 0\r\n" + length,
        "expected, and chunked": b"Expect: 100-continue\r\nTransfer-Encoding: chunked",
        "a trailer announced": b"Trailer: Content-Length\r\nTE: trailers\r\nTransfer-Encoding: chunked",
        "expected, and too long": b"Expect: 100-continue\r\nContent-Length: 4000000",
        "zero and chunked": b"Content-Length: 0\r\nTransfer-Encoding: chunked",
    }


def codings() -> dict[str, bytes]:
    """Returns forms of ``Transfer-Encoding: chunked`` that only some parsers understand."""
    values = {
        "capitals": b"CHUNKED",
        "identity": b"identity",
        "list with identity": b"chunked, identity",
        "identity first": b"identity, chunked",
        "gzip first": b"gzip, chunked",
        "twice": b"chunked, chunked",
        "empty element": b"chunked,",
        "quotes": b'"chunked"',
        "tab": b"\tchunked",
        "vertical tab": b"\x0bchunked",
        "NUL": b"chunked\x00",
        "nothing": b"",
        "folded": b"\r\n chunked",
    }
    result = {name: b"Transfer-Encoding: " + value for name, value in values.items()}
    return result | {
        "two fields": b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked",
        "two fields, other last": b"Transfer-Encoding: chunked\r\nTransfer-Encoding: x",
        "space before the colon": b"Transfer-Encoding : chunked",
        "space before the name": b"X: y\r\n Transfer-Encoding: chunked",
        "bare LF before": b"X: y\nTransfer-Encoding: chunked",
        "bare CR before": b"X: y\rTransfer-Encoding: chunked",
    }


def chunks() -> dict[str, bytes]:
    """Returns chunked bodies. The server reads no chunks, and must not continue after the head."""
    return {
        "plain": CHUNKED,
        "no line end behind the data": b"%x\r\n" % len(HIDDEN) + HIDDEN + b"xx0\r\n\r\n",
        "request for a trailer": b"0\r\n" + HIDDEN,
        "extension": CHUNKED.replace(b"\r\n", b";a=b\r\n", 1),
        "extension with a bare LF": b"2;\nxx\r\n" + CHUNKED,
        "size with a prefix": b"0x" + CHUNKED,
        "size below zero": b"-1\r\n" + HIDDEN,
        "size beyond 64 bits": b"f" * 20 + b"\r\n" + HIDDEN,
        "lines that end with LF": CHUNKED.replace(b"\r\n", b"\n"),
    }


def assert_one_refusal_at_most(subject: Subject, sent: bytes) -> None:
    """Asserts that the server sends at most one answer, which refuses the first request."""
    results = answers(subject, sent)
    assert len(results) <= 1, results
    assert all(map(refuses, results)), results


def test_two_complete_requests_get_two_answers(subject: Subject) -> None:
    results = answers(subject, HIDDEN + HEAD + b"Content-Length: 2\r\n\r\n{}")
    assert [answer.status for answer in results] == [200, 400]


@pytest.mark.parametrize("header", headers().values(), ids=headers())
def test_a_request_that_hides_in_a_body_of_unclear_length_is_not_answered(
    subject: Subject, header: bytes
) -> None:
    assert_one_refusal_at_most(
        subject, HEAD + header + b"\r\nConnection: keep-alive\r\n\r\n" + hidden_behind(header)
    )


def hidden_behind(header: bytes) -> bytes:
    """Returns a body that contains a request: in a chunk if the header announces chunks, else as bytes."""
    return CHUNKED if b"chunked" in header else HIDDEN


@pytest.mark.parametrize("coding", codings().values(), ids=codings())
@pytest.mark.parametrize(
    "length", [b"", b"Content-Length: " + SIZE + b"\r\n"], ids=["alone", "with a length"]
)
def test_a_request_that_hides_in_a_body_of_unclear_coding_is_not_answered(
    subject: Subject, coding: bytes, length: bytes
) -> None:
    assert_one_refusal_at_most(subject, HEAD + length + coding + b"\r\n\r\n" + CHUNKED)


@pytest.mark.parametrize("body", chunks().values(), ids=chunks())
def test_a_request_that_hides_among_chunks_is_not_answered(subject: Subject, body: bytes) -> None:
    assert_one_refusal_at_most(subject, HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + body)


def test_a_request_in_a_body_that_is_too_long_is_not_answered(subject: Subject) -> None:
    """Protects from a parser that refuses a body and then reads a request in the middle of the body."""
    assert_one_refusal_at_most(
        subject, HEAD + b"Content-Length: 4000000\r\n\r\n" + HIDDEN * (4_200_000 // len(HIDDEN))
    )


def test_a_request_that_hides_among_chunks_of_http_1_0_is_not_answered(subject: Subject) -> None:
    """Protects from a parser that ignores chunks in HTTP/1.0 and keeps the connection."""
    head = HEAD.replace(b"1.1", b"1.0") + b"Connection: keep-alive\r\nContent-Length: 5\r\n"
    assert_one_refusal_at_most(subject, head + b"Transfer-Encoding: chunked\r\n\r\n" + CHUNKED)


@pytest.mark.parametrize("end", [b"\n\n", b"\r\r", b"\n\r\n", b"\r\n\n", b"\r\n \r\n", b"\r\n\x00\r\n"])
def test_a_request_after_an_unclear_end_of_a_head_is_not_answered(subject: Subject, end: bytes) -> None:
    assert_one_refusal_at_most(subject, HEAD.rstrip() + b"\r\nContent-Length: 0" + end + HIDDEN + b"\r\n\r\n")
