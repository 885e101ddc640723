"""A pair that cannot be used never takes the place of one that can, and readiness says so."""

from __future__ import annotations

import socket
import ssl
import time
from typing import TYPE_CHECKING

import pytest

from tests.attack.files import pair_replaced, pairs
from tests.attack.subject import Subject

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PATIENCE_SECONDS = 10.0
QUESTION = "pass phrase"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Subject]:
    with Subject(tmp_path_factory.mktemp("subject"), "--log-level", "warning") as running:
        yield running
        assert running.worker_ids() == running.workers
        assert QUESTION not in running.log(), "OpenSSL has asked for a pass phrase"


def served(subject: Subject) -> bytes:
    """The certificate that a new connection is shown, whatever it is worth."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with (
        socket.create_connection(("127.0.0.1", subject.port), timeout=PATIENCE_SECONDS) as raw,
        context.wrap_socket(raw) as sock,
    ):
        return sock.getpeercert(binary_form=True) or b""


def until_served(subject: Subject, pem: bytes) -> None:
    """Wait until a pair is in use."""
    wanted, deadline = ssl.PEM_cert_to_DER_cert(pem.decode()), time.monotonic() + PATIENCE_SECONDS
    while served(subject) != wanted:
        assert time.monotonic() < deadline, subject.log()
        time.sleep(0.1)


KINDS = [
    "expired",
    "not yet valid",
    "an encrypted key",
    "half a certificate",
    "half a key",
    "another's key",
    "garbage",
    "text",
    "empty",
    "no certificate",
    "no key",
    "no files",
    "the other way round",
]


@pytest.mark.parametrize("kind", KINDS)
def test_a_pair_that_cannot_be_used_leaves_the_one_in_use_and_readiness_says_so(
    server: Subject, kind: str
) -> None:
    good = server.issue()
    pair_replaced(server, good.certificate_pem(), good.key_pem())
    until_served(server, good.certificate_pem())
    pair_replaced(server, *pairs(server)[kind])
    deadline, told = time.monotonic() + PATIENCE_SECONDS, ""
    while "problem" not in told and time.monotonic() < deadline:
        status, told = server.asked("/readyz")
        assert status == 200, (kind, status, told, server.log()[-2000:])
        assert served(server) == ssl.PEM_cert_to_DER_cert(good.certificate_pem().decode())
        time.sleep(0.1)
    assert "problem" in told, f"{kind}: /readyz says nothing of it: {told}"


def test_every_kind_is_tried(server: Subject) -> None:
    assert list(pairs(server)) == KINDS


def test_an_encrypted_key_at_the_start_ends_it_with_a_message_and_no_question(tmp_path: Path) -> None:
    subject = Subject(tmp_path, "--log-level", "warning")
    pair_replaced(subject, *pairs(subject)["an encrypted key"])
    with pytest.raises(AssertionError, match=r"cannot be used|encrypted|Error"), subject:
        pass
    assert QUESTION not in subject.log()
