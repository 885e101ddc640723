"""Limits how long one peer is read before others, and how many small reads it may cause."""

import gevent

_TURN_BYTES = 64 * 1024
_TURN_READS = 16
"""Maximum number of bytes, or of reads, of one peer in its turn; a read takes about 20 microseconds."""
_LEAST = 256
"""Minimum average size of a read, in bytes. Go's client writes records of 1 KiB or more, curl of 16 KiB."""
_FREE_READS = 128
"""Small reads without an error. A request head typed by hand needs fewer; these take as long as a review."""
_OVERHEAD = 27
"""Bytes of a TLS record that are not data: 22 and 29 with data, 27 and more in a key update."""


class Turns:
    """Counts the reads from a peer since its last response.

    With TLS a read returns one record: 64 KiB may be one read, or 65,536. A record without data is a read.
    """

    def __init__(self) -> None:
        self.renew()

    def renew(self) -> None:
        """Begins to count for the next request."""
        self._reads = self._size = self._overhead = self._turn = 0

    def add_overhead(self, size: int) -> None:
        """Counts bytes that TLS read from the peer beyond the data."""
        self._overhead += size

    def count(self, size: int) -> bool:
        """Counts a read of ``size`` bytes, and lets other peers run if the turn of this one is over.

        Returns:
            Whether the reads are too many for their bytes.
        """
        self._reads, self._size = self._reads + 1, self._size + size
        reads = max(self._reads, self._overhead // _OVERHEAD)
        turn = self._size // _TURN_BYTES + reads // _TURN_READS
        if turn != self._turn:
            self._turn = turn
            gevent.sleep(0)
        return reads > _FREE_READS + self._size // _LEAST
