"""Bytes as nobody should send them, and every answer that comes back."""

from __future__ import annotations

import contextlib
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.attack.peers import Peers, end_of_sending

if TYPE_CHECKING:
    from tests.attack.subject import Subject

SECONDS = 15.0
"""Within which the server is done with a request, on a busy machine; it gives up slow ones after ten."""


@dataclass(frozen=True)
class Answer:
    """One answer as it came."""

    status: int
    body: bytes


def refuses(answer: Answer) -> bool:
    """Whether an answer says that the request was wrong: 4xx, or a coding or version that is not known."""
    return 400 <= answer.status < 500 or answer.status in {501, 505}


def answers(subject: Subject, sent: bytes) -> list[Answer]:
    """Everything that the server answers to bytes, until it closes or has nothing left to say.

    This side ends its sending right behind them, so that a server that waits for more hears that none comes.
    """
    said = b""
    with Peers(subject, SECONDS) as peers, contextlib.suppress(OSError):
        sock = peers.tls()
        sock.settimeout(SECONDS)
        with contextlib.suppress(OSError):
            sock.sendall(sent)
            end_of_sending(sock)
        while part := sock.recv(65536):
            said += part
    return parsed(said)


def parsed(said: bytes) -> list[Answer]:
    """The answers in a stream, ``100 Continue`` left out."""
    found = []
    while said:
        head, _, said = said.partition(b"\r\n\r\n")
        status = re.match(rb"HTTP/1\.[01] (\d{3}) ?", head)
        assert status, f"no answer: {head[:200]!r}"
        length = re.search(rb"(?i)\r\ncontent-length: *(\d+)", head)
        size = int(length[1]) if length else 0
        if status[1] != b"100":
            found.append(Answer(int(status[1]), said[:size]))
        said = said[size:]
    return found
