"""Where a request begins and ends."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from webhook.serving.framing import Frame, Refused, frame

HEAD = b"POST /mutate?timeout=10s HTTP/1.1\r\nHost: x\r\nCONTENT-length:  12 \r\n\r\n"


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", None),
        (b"GET / HTTP/1.1\r\n", None),
        (HEAD, Frame(len(HEAD), 12, expects_continue=False)),
        (HEAD + b"{}", Frame(len(HEAD), 12, expects_continue=False)),
        (b"GET / HTTP/1.1\r\n\r\n", Frame(18, 0, expects_continue=False)),
        (b"P / HTTP/1.1\r\nexpect: 100-Continue\r\n\r\n", Frame(38, 0, expects_continue=True)),
        (b"P / HTTP/1.1\r\nX: a\r\nY: content-length: 5\r\n\r\n", Frame(44, 0, expects_continue=False)),
    ],
)
def test_extent_of_a_request(data: bytes, expected: Frame | None) -> None:
    assert frame(data, 0, 1000, 1000) == expected


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"x" * 1000, "431"),
        (b"x" * 999 + b"\r\n\r\n", "431"),
        (b"P / HTTP/1.1\r\nContent-Length: 1001\r\n\r\n", "413"),
        (b"P / HTTP/1.1\r\nTransfer-Encoding : chunked\r\n\r\n", "411"),
    ],
)
def test_requests_outside_the_limits_are_refused(data: bytes, status: str) -> None:
    with pytest.raises(Refused, match=status):
        frame(data, 0, 1000, 1000)


@given(st.lists(st.integers(1, len(HEAD) - 1), unique=True))
def test_the_extent_does_not_depend_on_how_the_bytes_arrive(cuts: list[int]) -> None:
    searched = 0
    for cut in sorted(cuts):
        assert frame(HEAD[:cut], searched, 1000, 1000) is None
        searched = cut
    assert frame(HEAD, searched, 1000, 1000) == frame(HEAD, 0, 1000, 1000)
