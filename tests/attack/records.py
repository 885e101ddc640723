"""TLS records that no library sends: with one byte or no data, key updates, and renegotiations."""

import contextlib
import hmac
import socket
import ssl
import struct
import tempfile
import weakref
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA384
from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand

from tests.attack.live import job, review
from tests.attack.peers import Peers, post

HANDSHAKE, DATA = 22, 23
UPDATE_KEYS = b"\x18\x00\x00\x01"


def expand_label(secret: bytes, label: bytes, length: int) -> bytes:
    """Returns ``HKDF-Expand-Label`` of RFC 8446, without a context."""
    label = b"tls13 " + label
    info = struct.pack("!HB", length, len(label)) + label + b"\0"
    return HKDFExpand(SHA384(), length, info).derive(secret)


def derive_bytes(secret: bytes, seed: bytes, length: int) -> bytes:
    """Returns bytes of the pseudorandom function of TLS 1.2 (RFC 5246, section 5)."""
    result, chained = b"", seed
    while len(result) < length:
        chained = hmac.digest(secret, chained, "sha384")
        result += hmac.digest(secret, chained + seed, "sha384")
    return result[:length]


class Client:
    """A TLS client. OpenSSL performs its handshake, and this class makes the records after it.

    Attributes:
        ready: Whether the handshake is done.
    """

    def __init__(self, version: ssl.TLSVersion) -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        context.minimum_version = context.maximum_version = version
        context.set_ciphers("ECDHE+AES256+AESGCM")
        self._log = tempfile.NamedTemporaryFile()  # noqa: SIM115 - see the next line
        weakref.finalize(self, self._log.close)
        context.keylog_filename = self._log.name
        self._is_tls_1_2 = version is ssl.TLSVersion.TLSv1_2
        self._in, self._out, self._hello = ssl.MemoryBIO(), ssl.MemoryBIO(), b""
        self._tls = context.wrap_bio(self._in, self._out, server_hostname="localhost")
        self.ready = False

    def answer(self, data: bytes) -> bytes:
        """Returns the answer of the client to data of the server; without data, its first message."""
        self._hello = self._hello or data
        self._in.write(data)
        with contextlib.suppress(ssl.SSLWantReadError):
            self._tls.do_handshake()
            self._find_keys()
            self.ready = True
        return self._out.read()

    def _find_keys(self) -> None:
        lines = Path(self._log.name).read_text(encoding="ascii").splitlines()
        secrets = {line.split()[0]: line.split()[1:] for line in lines if not line.startswith("#")}
        if self._is_tls_1_2:
            random, secret = map(bytes.fromhex, secrets["CLIENT_RANDOM"])
            seed = b"key expansion" + self._hello[11:43] + random
            keys = derive_bytes(secret, seed, 2 * 32 + 2 * 4)
            self._key, self._salt, self._number = AESGCM(keys[:32]), keys[64:68], 1
        else:
            self._use(bytes.fromhex(secrets["CLIENT_TRAFFIC_SECRET_0"][1]))

    def _use(self, secret: bytes) -> None:
        self._secret, self._number = secret, 0
        self._key = AESGCM(expand_label(secret, b"key", 32))
        self._start = int.from_bytes(expand_label(secret, b"iv", 12))

    def record(self, data: bytes, kind: int = DATA) -> bytes:
        """Returns one record with this data."""
        number = self._number.to_bytes(8)
        self._number += 1
        if self._is_tls_1_2:
            sealed = self._key.encrypt(
                self._salt + number, data, number + struct.pack("!BHH", kind, 0x0303, len(data))
            )
            return struct.pack("!BHH", kind, 0x0303, len(number) + len(sealed)) + number + sealed
        head = struct.pack("!BHH", DATA, 0x0303, len(data) + 1 + 16)
        nonce = (self._start ^ int.from_bytes(number)).to_bytes(12)
        return head + self._key.encrypt(nonce, data + bytes([kind]), head)

    def update(self, *, answered: bool = False) -> bytes:
        """Returns a record with a key update. If ``answered``, the server must answer with a key update."""
        result = self.record(UPDATE_KEYS + bytes([answered]), HANDSHAKE)
        self._use(expand_label(self._secret, b"traffic upd", 48))
        return result

    def hello(self) -> bytes:
        """Returns a TLS 1.2 record with the shortest beginning of a handshake that OpenSSL recognises."""
        return self.record(b"\x01\0\0\0", HANDSHAKE)


class Records(Client):
    """A `Client` with a connection, ``raw``, on which the handshake is done."""

    def __init__(self, sock: socket.socket, version: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3) -> None:
        super().__init__(version)
        self.raw = sock
        sock.sendall(self.answer(b""))
        while not self.ready:
            sock.sendall(self.answer(sock.recv(65536)))


def small_records(records: Records, size: int) -> Iterator[bytes]:
    """Yields a request of 250 KB in records of this many bytes."""
    request = post(review(job("small", 250_000)))
    for at in range(0, len(request), size):
        yield records.record(request[at : at + size])


def key_updates(records: Records) -> Iterator[bytes]:
    """Yields key updates, and no data."""
    for _ in range(20_000):
        yield records.update()


def answered_key_updates(records: Records) -> Iterator[bytes]:
    """Yields key updates that the server must answer."""
    for _ in range(20_000):
        yield records.update(answered=True)


def renegotiations(records: Records) -> Iterator[bytes]:
    """Yields beginnings of renegotiations, in TLS 1.2."""
    for _ in range(20_000):
        yield records.hello()


def empty_records(records: Records) -> Iterator[bytes]:
    """Yields single bytes of a request, and before each byte as many empty records as OpenSSL accepts."""
    for byte in post(review(job("empty", 250_000)))[:4000]:
        yield from (records.record(b"") for _ in range(30))
        yield records.record(bytes([byte]))


def send_records(
    peers: Peers,
    count: int,
    make_records: Callable[[Records], Iterable[bytes]],
    version: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3,
) -> None:
    """Makes records and sends all of them at once, again and again, on this many connections."""

    def send() -> None:
        with contextlib.suppress(OSError):
            records = Records(peers.tcp(), version)
            records.raw.sendall(b"".join(make_records(records)))
            while records.raw.recv(65536):
                pass  # session tickets, and alerts about the records
            peers.close(records.raw)

    peers.together(count, send)
