"""Limits how long the server reads from a peer before other peers have their turn; limits small reads."""

import gevent

_TURN_BYTES = 64 * 1024
_TURN_READS = 16
"""Maximum numbers of bytes and of reads in the turn of a peer. A read takes about 20 microseconds."""
_LEAST_AVERAGE = 256
"""Minimum average size of a read, in bytes. Go's client writes records of at least 1 KiB, curl 16 KiB."""
_FREE_READS = 128
"""Number of reads that are allowed in addition to one read for each `_LEAST_AVERAGE` bytes. Together, these
reads take as long as a review. A head typed by hand needs fewer reads."""
_RECORD_OVERHEAD = 27
"""Number of bytes in a TLS record that are not data: 22 to 29 with data, 27 or more in a key update."""


class ReadCounter:
    """Counts the reads from a peer since its last response.

    With TLS, a read returns one record, which may have one byte or 16 KiB of data, or no data.
    """

    def __init__(self) -> None:
        self.renew()

    def renew(self) -> None:
        """Begins to count the reads of the next request."""
        self._reads = self._size = self._overhead = self._turn = 0

    def add_overhead(self, size: int) -> None:
        """Counts bytes from the peer that TLS read and that are not data."""
        self._overhead += size

    def has_too_many_after(self, size: int) -> bool:
        """Counts a read of ``size`` bytes, and lets other greenlets run if the turn of this peer is over.

        Returns:
            Whether there are too many small reads.
        """
        self._reads, self._size = self._reads + 1, self._size + size
        reads = max(self._reads, self._overhead // _RECORD_OVERHEAD)
        turn = self._size // _TURN_BYTES + reads // _TURN_READS
        if turn != self._turn:
            self._turn = turn
            gevent.sleep(0)
        return reads > _FREE_READS + self._size // _LEAST_AVERAGE
