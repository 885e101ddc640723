"""TLS over a socket, in pieces: OpenSSL reads from memory, where no more than one piece waits for it."""

import ssl
from typing import Any

import gevent

from webhook.serving.turns import Turns

_PIECE = 8 * 1024
"""Bytes that OpenSSL may take in one call. It takes 300 updates of keys in 5 milliseconds."""
_WITHOUT_DATA = 3 * _PIECE
"""Bytes that may come before some of their data is here; a record has 16 KiB and 256 bytes at most."""
_RECORD = 16 * 1024
_SMALL = "too many small parts"


class Secured:
    """A TLS connection of gevent's socket, in the place of that socket.

    A socket of Python's ``ssl`` module gives OpenSSL all that comes, and OpenSSL handles records without data
    within one call for as long as they come.
    """

    def __init__(self, sock: Any, context: ssl.SSLContext, turns: Turns) -> None:  # noqa: ANN401 - gevent's
        self._sock, self._turns = sock, turns
        self._in, self._out = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._in, self._out, server_side=True)
        self.settimeout, self.shutdown, self.close = sock.settimeout, sock.shutdown, sock.close

    def do_handshake(self) -> None:
        """Do the handshake; OpenSSL signs in 0.2 milliseconds with the certificate program's key.

        Raises:
            OSError: The peer speaks no TLS, went away, or sends small parts: each costs 50 microseconds.
        """
        while True:
            try:
                return self._tls.do_handshake()
            except ssl.SSLWantReadError:
                if self._turns.count(0):
                    raise ssl.SSLError(_SMALL) from None
            finally:
                self._flush()  # an alert, too
            if not self._feed():
                raise ssl.SSLEOFError(ssl.SSL_ERROR_EOF, "the peer left during the handshake")

    def recv(self, size: int) -> bytes:
        """Return data of the peer as soon as there is some, or nothing at its end.

        Raises:
            OSError: The peer went away, broke a rule of TLS, or sends records without data or in small parts.
        """
        overhead = 0
        while overhead <= _WITHOUT_DATA:
            before = self.waiting()
            try:
                data = self._tls.read(size)
            except ssl.SSLWantReadError:
                data = None
            finally:
                self._flush()  # an alert, too
            overhead += before - self.waiting()
            if data is not None:
                self._turns.add_overhead(overhead - len(data))
                return data
            if overhead:
                gevent.sleep(0)
                if self._turns.count(0):
                    raise ssl.SSLError(_SMALL)
            if not self._feed():
                return b""
        raise ssl.SSLError("too many records without data")

    def sendall(self, data: bytes | bytearray) -> None:
        """Send data, a record at a time.

        Raises:
            OSError: The peer went away.
        """
        for start in range(0, len(data), _RECORD):
            self._tls.write(memoryview(data)[start : start + _RECORD])
            self._flush()

    def waiting(self) -> int:
        """Bytes that came and that OpenSSL, or who reads from it, has not taken."""
        return self._in.pending + self._tls.pending()

    def _feed(self) -> int:
        piece = self._sock.recv(_PIECE)
        return self._in.write(piece)

    def _flush(self) -> None:
        if self._out.pending:
            self._sock.sendall(self._out.read())
