"""Tests that peers have their turns while a peer sends TLS records without data.

OpenSSL reads any number of such records in one call.
"""

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
"""Bytes that OpenSSL reads at a time: key updates of this size take 5 to 9 milliseconds."""
RECORD = 16_384
SEGMENT = 536
"""Bytes of data in the smallest segments that TCP uses on an unknown path."""
FREE_READS = 128


class Wire:
    """Replaces the socket of a server. It holds all data that a client has sent, so a read never waits.

    Attributes:
        sent: The data that the server has not read.
        segment: Maximum number of bytes that a read returns.
        taken: The number of bytes that the server has read.
        longest: The largest number of bytes that the server has read without a turn for other greenlets.
    """

    def __init__(self, version: ssl.TLSVersion) -> None:
        self.client = Client(version)
        self.sent = self.client.answer(b"")
        self.settimeout = self.shutdown = self.close = None
        self.segment = PIECE
        self.longest = self.taken = self._since = 0

    def recv(self, size: int) -> bytes:
        """Returns the next bytes of the client."""
        size = min(size, self.segment)
        data, self.sent = self.sent[:size], self.sent[size:]
        self.taken += len(data)
        self.longest = max(self.longest, self.taken - self._since)
        return data

    def sendall(self, data: bytes) -> None:
        """Gives the client the data that the server sends."""
        if not self.client.ready:
            self.sent += self.client.answer(data)

    def watch(self) -> None:
        """Runs in place of other peers: records at which byte each turn of other greenlets begins."""
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
    """The server's side of a connection after the handshake, next to a greenlet that records its turns."""
    sock = TlsSocket(wire, new_context(files.certificate, files.key), turns)
    sock.do_handshake()
    watcher = gevent.spawn(wire.watch)
    gevent.sleep(0)
    yield sock
    watcher.kill()


def without_data(client: Client, version: ssl.TLSVersion) -> bytes:
    """Returns a record that a peer can repeat: a key update, or the beginning of a renegotiation."""
    return client.update(answered=True) if version is ssl.TLSVersion.TLSv1_3 else client.hello()


def test_records_without_data_are_read_in_pieces_and_end_the_connection(
    wire: Wire, secured: TlsSocket, version: ssl.TLSVersion
) -> None:
    """Protects other peers: OpenSSL reads thousands of key updates and renegotiations in one call."""
    wire.sent = b"".join(without_data(wire.client, version) for _ in range(5000))
    before = wire.taken
    with pytest.raises(ssl.SSLError, match="without data"):
        secured.recv(RECORD)
    assert wire.longest <= PIECE
    assert wire.taken - before <= 5 * PIECE


def test_records_without_data_count_as_reads_when_a_byte_comes_between(
    wire: Wire, secured: TlsSocket, version: ssl.TLSVersion, turns: ReadCounter
) -> None:
    """Protects the count of reads: a byte of data between such records must not reset the count."""
    records = [without_data(wire.client, version) for _ in range(FREE_READS // 2)]
    wire.sent = b"".join(
        [*records, wire.client.record(b"a"), *(without_data(wire.client, version) for _ in records)]
    )
    wire.sent += wire.client.record(b"b")
    reads = [(data := secured.recv(RECORD), turns.has_too_many_after(len(data))) for _ in range(2)]
    assert reads == [(b"a", False), (b"b", True)]
    assert wire.longest <= PIECE


def test_data_arrives_unchanged_in_records_and_reads_of_any_size(
    wire: Wire, secured: TlsSocket, turns: ReadCounter
) -> None:
    """Protects small reads of a large record: they must not be counted as records."""
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
    """Protects the event loop: each byte took 50 microseconds, and 64 KB in single bytes took 3 seconds."""
    wire.segment = 1
    with pytest.raises(ssl.SSLError, match="too many small parts"):
        TlsSocket(wire, new_context(files.certificate, files.key), turns).do_handshake()
    assert wire.taken <= FREE_READS + 1


def test_a_record_in_too_many_small_segments_ends_the_connection(wire: Wire, secured: TlsSocket) -> None:
    """Protects the event loop before a record is complete: reads of parts of a record are counted, too."""
    before, wire.segment = wire.taken, 1
    wire.sent += wire.client.record(bytes(RECORD))
    with pytest.raises(ssl.SSLError, match="too many small parts"):
        secured.recv(RECORD)
    assert wire.taken - before <= 4 * FREE_READS


def test_a_request_in_the_smallest_usual_segments_is_read(
    wire: Wire, turns: ReadCounter, files: Files
) -> None:
    """Protects clients on slow networks, from the handshake to the end of a large request."""
    wire.segment = SEGMENT
    sock = TlsSocket(wire, new_context(files.certificate, files.key), turns)
    sock.do_handshake()
    for _ in range(64):
        wire.sent += wire.client.record(bytes(RECORD))
        left = RECORD
        while left:
            data = sock.recv(RECORD)
            left -= len(data)
            assert not turns.has_too_many_after(len(data))
