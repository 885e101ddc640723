"""Speaks TLS over a socket, and passes received bytes to OpenSSL in small pieces."""

import ssl
from typing import Any

import gevent

from webhook.serving.turns import ReadCounter

_PIECE = 8 * 1024
"""Maximum number of bytes that OpenSSL handles in one call: up to 300 key updates, in 5 milliseconds."""
_MOST_WITHOUT_DATA = 3 * _PIECE
"""Maximum number of bytes without data in one `recv`: more than a whole record (16 KiB and 256 bytes)."""
_RECORD = 16 * 1024
_SMALL_PARTS = "too many small parts"


class TlsSocket:
    """A TLS connection over a socket of gevent, with the interface of a socket.

    A socket of Python's ``ssl`` module would pass all received bytes to OpenSSL in one call. This call would
    not return while records without data arrive.
    """

    def __init__(self, sock: Any, context: ssl.SSLContext, reads: ReadCounter) -> None:  # noqa: ANN401 - gevent's
        self._sock, self._reads = sock, reads
        self._in, self._out = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._in, self._out, server_side=True)
        self.settimeout, self.shutdown, self.close = sock.settimeout, sock.shutdown, sock.close

    def do_handshake(self) -> None:
        """Performs the handshake. With a key of the certificate program, a signature takes 0.2 milliseconds.

        Raises:
            OSError: The peer does not speak TLS, disconnected, or sent too many small parts (50 µs per part).
        """
        while True:
            try:
                return self._tls.do_handshake()
            except ssl.SSLWantReadError:
                if self._reads.has_too_many_after(0):
                    raise ssl.SSLError(_SMALL_PARTS) from None
            finally:
                self._flush()  # also sends an alert
            if not self._feed():
                raise ssl.SSLEOFError(ssl.SSL_ERROR_EOF, "the peer disconnected during the handshake")

    def recv(self, size: int) -> bytes:
        """Returns data of the peer as soon as data arrives, or no bytes if the peer ended the connection.

        Raises:
            OSError: The connection broke, or the peer violated TLS or sent too many small or empty records.
        """
        overhead = 0
        while overhead <= _MOST_WITHOUT_DATA:
            before = self.count_waiting_bytes()
            try:
                data = self._tls.read(size)
            except ssl.SSLWantReadError:
                data = None
            finally:
                self._flush()  # also sends an alert
            overhead += before - self.count_waiting_bytes()
            if data is not None:
                self._reads.add_overhead(overhead - len(data))
                return data
            if overhead:
                gevent.sleep(0)
                if self._reads.has_too_many_after(0):
                    raise ssl.SSLError(_SMALL_PARTS)
            if not self._feed():
                return b""
        raise ssl.SSLError("too many records without data")

    def sendall(self, data: bytes | bytearray) -> None:
        """Sends data, one TLS record at a time.

        Raises:
            OSError: The peer disconnected.
        """
        for start in range(0, len(data), _RECORD):
            self._tls.write(memoryview(data)[start : start + _RECORD])
            self._flush()

    def count_waiting_bytes(self) -> int:
        """Returns the number of bytes that OpenSSL has not taken yet, or that `recv` has not returned yet."""
        return self._in.pending + self._tls.pending()

    def _feed(self) -> int:
        piece = self._sock.recv(_PIECE)
        return self._in.write(piece)

    def _flush(self) -> None:
        if self._out.pending:
            self._sock.sendall(self._out.read())
