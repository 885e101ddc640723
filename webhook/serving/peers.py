"""Who is connected to a worker: deadlines, what they make it hold, and who goes when there is no room."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from gevent import getcurrent

from webhook.serving.handshakes import Handshakes
from webhook.serving.peer import Peer, RefusedError, State, gone

if TYPE_CHECKING:
    from collections.abc import Iterable

    from webhook.serving.settings import Limits


class Peers:
    """All peers of a worker.

    Attributes:
        limits: What they may make this process hold.
        seconds: How long each state may last.
        held: Bytes that all of them hold.
        handshakes: Threads that do the steps of handshakes.
    """

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.seconds = {
            State.HANDSHAKE: limits.handshake_seconds,
            State.WAITING: limits.idle_seconds,
            State.HEAD: limits.request_seconds,
            State.BODY: limits.request_seconds,
            State.SERVED: float("inf"),
            State.SENDING: limits.response_seconds,
            State.CLOSING: limits.linger_seconds,
        }
        self._all: set[Peer] = set()
        self.held = 0
        self.handshakes = Handshakes()

    def __len__(self) -> int:
        return len(self._all)

    def add(self, peer: Peer) -> None:
        """Take in a newcomer, in the place of another one if need be.

        Who never got an answer goes first, the oldest of them; then who waits longest for its next request.
        So a flood drives itself out, before it drives out an API server's connections.
        """
        if len(self._all) >= self.limits.connections:
            oldest = min(self._unserved(), key=lambda peer: (peer.requests > 0, peer.since), default=None)
            self._evict(oldest)
        self._all.add(peer)

    def discard(self, peer: Peer) -> None:
        """The connection is closed."""
        self._all.discard(peer)
        self.release(peer)

    def hold(self, peer: Peer, size: int) -> None:
        """Count bytes that came or are to go; above the limit who held most for longest has to go.

        Bytes times seconds: a review that has just come is small by both, whoever else is connected.
        """
        peer.held += size
        self.held += size
        if self.held > self.limits.buffered:
            now = time.monotonic()
            self._evict(
                max(self._unserved(), key=lambda peer: peer.held * self._age(peer, now), default=None)
            )

    def release(self, peer: Peer) -> None:
        """The bytes of a peer are no longer held."""
        self.held -= peer.held
        peer.held = 0

    def sweep(self) -> None:
        """Give up those that are past their deadlines."""
        now = time.monotonic()
        for peer in self._all:
            if peer.deadline < now:
                peer.deadline = now + self.limits.linger_seconds
                error = RefusedError(408, "the request did not arrive in time")
                self._end(peer, error if peer.state in {State.HEAD, State.BODY} else gone("too slow"))

    def stop(self) -> None:
        """Have every connection closed after the answer that is due, or soon where none is.

        A request may be on its way to those that are idle, so they have a moment.
        """
        latest = time.monotonic() + self.limits.linger_seconds
        for peer in self._all:
            if peer.request is not None:
                peer.request.force_close()
            elif peer.state in {State.WAITING, State.HANDSHAKE}:
                peer.deadline = min(peer.deadline, latest)

    def _unserved(self) -> Iterable[Peer]:
        return (peer for peer in self._all if peer.state is not State.SERVED)

    def _age(self, peer: Peer, now: float) -> float:
        """Seconds since it began what it is doing."""
        return now - (peer.deadline - self.seconds[peer.state])

    def _evict(self, peer: Peer | None) -> None:
        if peer:
            self.discard(peer)
            peer.ended = True  # nothing more is said to it
            self._end(peer, gone("evicted"))

    def _end(self, peer: Peer, error: Exception) -> None:
        if peer.greenlet is getcurrent():
            raise error
        peer.doomed = True
        peer.greenlet.kill(error, block=False)
