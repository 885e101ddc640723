"""TLS 1.3 records that no library sends: of a byte, of nothing, and updates of keys."""

import contextlib
import os
import socket
import ssl
import struct
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA384
from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand

from tests.attack.live import job, review
from tests.attack.peers import Peers, post

HANDSHAKE, DATA = 22, 23
UPDATE_KEYS = b"\x18\x00\x00\x01\x00"


def expanded(secret: bytes, label: bytes, length: int) -> bytes:
    """``HKDF-Expand-Label`` of RFC 8446, without a context."""
    label = b"tls13 " + label
    info = struct.pack("!HB", length, len(label)) + label + b"\0"
    return HKDFExpand(SHA384(), length, info).derive(secret)


class Records:
    """A connection of which every record is made here, once its handshake is done by the library."""

    def __init__(self, peers: Peers) -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        with tempfile.NamedTemporaryFile() as log:
            context.keylog_filename = log.name
            self.sock = peers.tls(context)
            lines = Path(log.name).read_text(encoding="ascii").splitlines()
        cipher = self.sock.cipher()
        assert cipher
        assert cipher[0] == "TLS_AES_256_GCM_SHA384"
        secrets = dict(line.rpartition(" ")[::2] for line in lines if not line.startswith("#"))
        secret = next(value for key, value in secrets.items() if key.startswith("CLIENT_TRAFFIC_SECRET_0"))
        self.raw = socket.socket(fileno=os.dup(self.sock.fileno()))
        self.raw.settimeout(10)
        self._use(bytes.fromhex(secret))

    def _use(self, secret: bytes) -> None:
        self._secret, self._number = secret, 0
        self._key = AESGCM(expanded(secret, b"key", 32))
        self._start = int.from_bytes(expanded(secret, b"iv", 12))

    def record(self, data: bytes, kind: int = DATA) -> bytes:
        """One record with that in it."""
        head = struct.pack("!BHH", DATA, 0x0303, len(data) + 1 + 16)
        sealed = self._key.encrypt((self._start ^ self._number).to_bytes(12), data + bytes([kind]), head)
        self._number += 1
        return head + sealed

    def update(self) -> bytes:
        """A record that says that the next ones are of new keys."""
        told = self.record(UPDATE_KEYS, HANDSHAKE)
        self._use(expanded(self._secret, b"traffic upd", 48))
        return told


def small(records: Records, size: int) -> Iterator[bytes]:
    """A request of 250 KB in records of so many bytes."""
    request = post(review(job("small", 250_000)))
    for at in range(0, len(request), size):
        yield records.record(request[at : at + size])


def updates(records: Records) -> Iterator[bytes]:
    """Updates of keys, one after the other, and no data."""
    for _ in range(20_000):
        yield records.update()


def empty(records: Records) -> Iterator[bytes]:
    """A byte of a request now and then, and as many records of nothing between as OpenSSL takes."""
    for byte in post(review(job("empty", 250_000)))[:4000]:
        yield from (records.record(b"") for _ in range(30))
        yield records.record(bytes([byte]))


def sent(peers: Peers, count: int, made: Callable[[Records], Iterable[bytes]]) -> None:
    """Records that are made before and sent at once, by so many connections, again and again."""

    def send() -> None:
        with contextlib.suppress(OSError):
            records = Records(peers)
            data = b"".join(made(records))
            with records.raw:
                records.raw.sendall(data)
                records.raw.recv(1)
            peers.close(records.sock)

    peers.together(count, send)
