"""When a peer's turn to be read from ends, and when it makes too many reads of too few bytes."""

import gevent

_TURN_BYTES = 64 * 1024
_TURN_READS = 16
"""Of one peer before the others have their turn; a read takes about 20 microseconds, whatever it brings."""
_LEAST = 256
"""Bytes that a read brings on average. Go's client writes records of 1 KiB or more, curl of 16 KiB."""
_FREE_READS = 128
"""More than a request takes whose head is typed; a review costs as much time as they do."""
_OVERHEAD = 27
"""Bytes of a record of TLS that are not data: 22 and 29 with data, 27 and more in an update of keys."""


class Turns:
    """What one peer has been read, since its last response.

    TLS gives one record a read: 64 KiB may be one read, or 65,536. A record without data counts as a read.
    """

    def __init__(self) -> None:
        self.renew()

    def renew(self) -> None:
        """Begin to count for the next request."""
        self._reads = self._size = self._overhead = self._turn = 0

    def add_overhead(self, size: int) -> None:
        """Count bytes that TLS took from the peer beyond those that it gave."""
        self._overhead += size

    def count(self, size: int) -> bool:
        """Count a read of so many bytes, and give others their turn where this one's is over.

        Returns:
            Whether the reads are too many for what they brought.
        """
        self._reads, self._size = self._reads + 1, self._size + size
        reads = max(self._reads, self._overhead // _OVERHEAD)
        turn = self._size // _TURN_BYTES + reads // _TURN_READS
        if turn != self._turn:
            self._turn = turn
            gevent.sleep(0)
        return reads > _FREE_READS + self._size // _LEAST
