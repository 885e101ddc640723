"""Where a request in a buffer of bytes begins and ends. Pure.

This decides only *when* a request is handed to gunicorn's parser, which stays the judge of what it
means: it sees exactly the bytes counted here, so a disagreement can end in a 400 and a closed
connection, but never in bytes of one request being read as another.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

HEAD_END = b"\r\n\r\n"
_CONTENT_LENGTH = re.compile(rb"\r\ncontent-length[ \t]*:[ \t]*(\d{1,18})[ \t]*(?=\r\n)", re.IGNORECASE)
_TRANSFER_ENCODING = re.compile(rb"\r\ntransfer-encoding[ \t]*:", re.IGNORECASE)
_EXPECT_CONTINUE = re.compile(rb"\r\nexpect[ \t]*:[ \t]*100-continue[ \t]*(?=\r\n)", re.IGNORECASE)


class Refused(Exception):  # noqa: N818 - it is an answer, not an error of the program
    """The request is answered by the server and its connection closed.

    Attributes:
        status: The HTTP status line's code and phrase.
        reason: One sentence for the peer.
    """

    def __init__(self, status: str, reason: str) -> None:
        super().__init__(f"{status}: {reason}")
        self.status = status
        self.reason = reason

    def response(self) -> bytes:
        """The whole HTTP/1.1 response as bytes."""
        body = f"{self.reason}\n".encode()
        return (
            f"HTTP/1.1 {self.status}\r\nConnection: close\r\nContent-Type: text/plain; charset=utf-8\r\n"
            f"Content-Length: {len(body)}\r\n\r\n"
        ).encode() + body


@dataclass(frozen=True, slots=True)
class Frame:
    """The extent of one request.

    Attributes:
        head: Bytes of request line and headers, with the empty line.
        body: Bytes of the body.
        expects_continue: Whether the client waits for ``100 Continue`` before it sends the body.
    """

    head: int
    body: int
    expects_continue: bool

    @property
    def total(self) -> int:
        """Bytes of the whole request."""
        return self.head + self.body


def frame(data: bytes | bytearray, searched: int, head_limit: int, body_limit: int) -> Frame | None:
    """Find the extent of the request at the start of ``data``.

    Args:
        data: What has arrived.
        searched: How many bytes of it an earlier call has seen without finding the end of the head;
            they are not searched again, so a byte at a time costs no more than all at once.
        head_limit: Longest head in bytes.
        body_limit: Longest body in bytes.

    Returns:
        The extent, or None while the head is incomplete.

    Raises:
        Refused: The head or body is too long, or the body's length is not given beforehand.
    """
    end = data.find(HEAD_END, max(0, searched - len(HEAD_END) + 1), head_limit)
    if end < 0:
        if len(data) >= head_limit:
            raise Refused("431 Request Header Fields Too Large", f"the head is over {head_limit} bytes")
        return None
    head = bytes(data[: end + 2])
    if _TRANSFER_ENCODING.search(head):
        # Permitted by RFC 9112 section 6.3; the API server always gives the length.
        raise Refused("411 Length Required", "send Content-Length; chunked bodies are not taken")
    length = _CONTENT_LENGTH.search(head)
    body = int(length[1]) if length else 0
    if body > body_limit:
        raise Refused("413 Content Too Large", f"the body is {body} bytes; the limit is {body_limit}")
    return Frame(end + len(HEAD_END), body, bool(_EXPECT_CONTINUE.search(head)))
