"""Records without data, of which OpenSSL takes any number in one call, leave others their turns."""

import ssl
from collections.abc import Iterator

import gevent
import pytest

from tests.attack.pairs import Files
from tests.attack.records import Client
from webhook.serving.secured import TlsSocket
from webhook.serving.tls import new_context
from webhook.serving.turns import ReadCounter

PIECE = 8192
"""Bytes for which OpenSSL takes 5 to 9 milliseconds, if they are updates of keys."""
RECORD = 16_384
SEGMENT = 536
"""Bytes of data of the smallest segments that TCP sends on an unknown path."""
MOST_READS = 128


class Wire:
    """In the place of a server's socket: what a client has sent waits here, and nothing ever comes late.

    Attributes:
        sent: What waits.
        segment: Bytes of it that a read brings at most.
        taken: Bytes that the server has taken; ``longest`` of them without a turn for others.
    """

    def __init__(self, version: ssl.TLSVersion) -> None:
        self.client = Client(version)
        self.sent = self.client.answer(b"")
        self.settimeout = self.shutdown = self.close = None
        self.segment = PIECE
        self.longest = self.taken = self._since = 0

    def recv(self, size: int) -> bytes:
        """Takes what waits."""
        size = min(size, self.segment)
        data, self.sent = self.sent[:size], self.sent[size:]
        self.taken += len(data)
        self.longest = max(self.longest, self.taken - self._since)
        return data

    def sendall(self, data: bytes) -> None:
        """Takes what the server sends."""
        if not self.client.ready:
            self.sent += self.client.answer(data)

    def watch(self) -> None:
        """Is the others: note when there is a turn."""
        while True:
            self._since = self.taken
            gevent.sleep(0)


@pytest.fixture(params=[ssl.TLSVersion.TLSv1_3, ssl.TLSVersion.TLSv1_2], ids=["1.3", "1.2"])
def version(request: pytest.FixtureRequest) -> ssl.TLSVersion:
    chosen: ssl.TLSVersion = request.param
    return chosen


@pytest.fixture
def wire(version: ssl.TLSVersion) -> Wire:
    return Wire(version)


@pytest.fixture
def turns() -> ReadCounter:
    return ReadCounter()


@pytest.fixture
def secured(wire: Wire, turns: ReadCounter, files: Files) -> Iterator[TlsSocket]:
    """The server's side of a connection, its handshake done, next to others who want turns."""
    made = TlsSocket(wire, new_context(files.certificate, files.key), turns)
    made.do_handshake()
    others = gevent.spawn(wire.watch)
    gevent.sleep(0)
    yield made
    others.kill()


def without_data(client: Client, version: ssl.TLSVersion) -> bytes:
    """Returns a record that OpenSSL accepts in any number: a key update, or the beginning of a handshake."""
    return client.update(answered=True) if version is ssl.TLSVersion.TLSv1_3 else client.hello()


def test_records_without_data_get_a_piece_a_turn_and_end_the_connection(
    wire: Wire, secured: TlsSocket, version: ssl.TLSVersion
) -> None:
    """Protects others from key updates and renegotiations, which OpenSSL takes thousands of in one call."""
    wire.sent = b"".join(without_data(wire.client, version) for _ in range(5000))
    before = wire.taken
    with pytest.raises(ssl.SSLError, match="without data"):
        secured.recv(RECORD)
    assert wire.longest <= PIECE
    assert wire.taken - before <= 5 * PIECE


def test_records_without_data_count_as_reads_when_a_byte_comes_between(
    wire: Wire, secured: TlsSocket, version: ssl.TLSVersion, turns: ReadCounter
) -> None:
    """Protects the count of reads from a byte from time to time, which would begin it from zero."""
    parts = [without_data(wire.client, version) for _ in range(MOST_READS // 2)]
    wire.sent = b"".join(
        [*parts, wire.client.record(b"a"), *(without_data(wire.client, version) for _ in parts)]
    )
    wire.sent += wire.client.record(b"b")
    counted = [(data := secured.recv(RECORD), turns.has_too_many_after(len(data))) for _ in range(2)]
    assert counted == [(b"a", False), (b"b", True)]
    assert wire.longest <= PIECE


def test_data_arrives_as_sent_for_any_pieces(wire: Wire, secured: TlsSocket, turns: ReadCounter) -> None:
    """Protects large records and small reads: what OpenSSL holds of a record is not counted as records."""
    sent = b"".join(bytes([at % 251]) * (RECORD if at % 2 else 1024) for at in range(40))
    wire.sent = b"".join(wire.client.record(sent[at : at + RECORD]) for at in range(0, len(sent), RECORD))
    taken = b""
    while len(taken) < len(sent):
        data = secured.recv(4096)
        taken += data
        assert not turns.has_too_many_after(len(data))
    assert taken == sent
    assert secured.recv(4096) == b""


def test_a_handshake_in_too_many_small_segments_ends(wire: Wire, turns: ReadCounter, files: Files) -> None:
    """Protects the loop: each step took 50 microseconds, and 64 KB in bytes 3 seconds."""
    wire.segment = 1
    with pytest.raises(ssl.SSLError, match="too many small parts"):
        TlsSocket(wire, new_context(files.certificate, files.key), turns).do_handshake()
    assert wire.taken <= MOST_READS + 1


def test_a_record_in_too_many_small_segments_ends_the_connection(wire: Wire, secured: TlsSocket) -> None:
    """Protects the loop before a head is complete: reads within a record are reads, too."""
    before, wire.segment = wire.taken, 1
    wire.sent += wire.client.record(bytes(RECORD))
    with pytest.raises(ssl.SSLError, match="too many small parts"):
        secured.recv(RECORD)
    assert wire.taken - before <= 4 * MOST_READS


def test_a_request_in_the_smallest_usual_segments_is_read(
    wire: Wire, turns: ReadCounter, files: Files
) -> None:
    """Protects clients on slow networks, from the handshake to the end of a large request."""
    wire.segment = SEGMENT
    made = TlsSocket(wire, new_context(files.certificate, files.key), turns)
    made.do_handshake()
    for _ in range(64):
        wire.sent += wire.client.record(bytes(RECORD))
        left = RECORD
        while left:
            data = made.recv(RECORD)
            left -= len(data)
            assert not turns.has_too_many_after(len(data))
