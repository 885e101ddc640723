"""The gunicorn worker: one loop that waits for all peers, and a crew that waits for none.

What it needs of gunicorn is what any worker class uses: ``workers.base.Worker``, the request parser, and
``http.wsgi.create``. ``tests/server/test_gunicorn_parts.py`` names each part and fails when one goes.
"""

from __future__ import annotations

import errno
import os
import selectors
import time
from threading import BoundedSemaphore
from typing import TYPE_CHECKING

from gunicorn.workers import base

from webhook.serving.connection import Connection, State
from webhook.serving.crew import Crew
from webhook.serving.exchange import Exchange
from webhook.serving.framing import Refused

if TYPE_CHECKING:
    import socket

    from webhook.serving.settings import Limits, ServerSettings
    from webhook.serving.tls import TlsFiles

_TURN_SECONDS = 1.0
"""Longest wait of the loop: deadlines are met within it, and gunicorn's heartbeat is kept."""
_ACCEPTS_A_TURN = 64


class Worker(base.Worker):  # type: ignore[misc]  # gunicorn has no types
    """Serves the application of `webhook.server` to all peers at once."""

    def init_process(self) -> None:
        """Prepare, after the fork, what belongs to this process, then run."""
        self.settings: ServerSettings = self.app.settings
        self.limits: Limits = self.settings.limits
        self.tls: TlsFiles = self.app.tls
        self.tls.say = self.log.warning
        self.connections: set[Connection] = set()
        self.large = BoundedSemaphore(self.limits.large_bodies)
        self.poller = selectors.DefaultSelector()
        self.next_sweep = 0.0
        super().init_process()

    def run(self) -> None:
        """Serve until told to stop, then finish what has begun."""
        self.crew = Crew(self, Exchange(self), self.PIPE[1])
        self.poller.register(self.PIPE[0], selectors.EVENT_READ, self._woken)
        for door, listener in enumerate(self.sockets):
            self.poller.register(listener, selectors.EVENT_READ, lambda d=door: self._accept(d))
        while self.alive and self.ppid == os.getppid():
            self._turn()
        self._drain()

    def _turn(self) -> None:
        self.notify()
        finished = self.crew.finished
        for key, _ in self.poller.select(0 if finished else _TURN_SECONDS):
            if isinstance(key.data, Connection):
                self._ready(key.data)
            else:
                key.data()
        # Only those that are there now: who pipelines without end has one turn like everyone else.
        for _ in range(len(finished)):
            self._settle(finished.popleft())
        self._sweep()

    def _drain(self) -> None:
        """Take what is queued at the listeners, answer what has begun, close what is idle."""
        self.alive = False
        for door, listener in enumerate(self.sockets):
            self._accept(door)
            self.poller.unregister(listener)
            listener.close()
        deadline = time.monotonic() + self.settings.graceful_seconds
        idle_until = time.monotonic() + self.limits.linger_seconds
        while self.connections and time.monotonic() < deadline:
            for peer in self.connections:
                if peer.state in {State.IDLE, State.HANDSHAKE}:
                    peer.deadline = min(peer.deadline, idle_until)
            self._turn()
        for peer in list(self.connections):
            self._close(peer)
        self.crew.stop()

    def _woken(self) -> None:
        """A signal came, or the crew handed connections back, which the turn sees to."""
        try:
            os.read(self.PIPE[0], 4096)
        except BlockingIOError:
            self.log.debug("woken without a byte")

    def _accept(self, door: int) -> None:
        listener: socket.socket = self.sockets[door]
        for _ in range(_ACCEPTS_A_TURN):
            try:
                sock, client = listener.accept()
                peer = Connection(sock, client, sock.getsockname(), door)
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno in {errno.EMFILE, errno.ENFILE}:
                    self._evict()
                    self.log.warning("no file descriptor left for a connection; closed another one")
                else:
                    self.log.debug("a peer went away before it was accepted: %s", error)
                return
            if len(self.connections) >= self.limits.connections:
                self._evict()
            self.connections.add(peer)
            peer.secure = not self.app.listeners[door].tls
            peer.expire_in(self.limits.handshake_seconds)
            self._settle(peer)

    def _ready(self, peer: Connection) -> None:
        """What a connection waited for has happened."""
        try:
            if peer.state is State.CLOSED:
                return  # closed in this very turn, to make room
            if peer.state is State.HANDSHAKE:
                self._hand_over(peer)
            elif peer.state is State.WRITING:
                peer.flush()
                self._settle(peer)
            elif peer.state is State.LINGER:
                if peer.discard():
                    self._close(peer)
            else:
                self._receive(peer)
        except OSError as error:
            self.log.debug("%s: %s", peer.client, error)
            self._close(peer)

    def _receive(self, peer: Connection) -> None:
        try:
            whole = peer.receive(self.limits, self.large)
        except Refused as refused:
            self.log.warning("refused a request of %s: %s", peer.client, refused)
            self._refuse(peer, refused)
            return
        if whole:
            self._hand_over(peer)
            return
        if peer.state is State.IDLE and peer.holds_part():
            peer.state = State.READING
            peer.expire_in(self.limits.request_seconds)
        self._watch(peer)

    def _refuse(self, peer: Connection, refused: Refused) -> None:
        peer.out += refused.response()
        peer.closing = True
        try:
            peer.flush()
        except OSError as error:
            self.log.debug("%s: %s", peer.client, error)
            peer.broken = True
        self._settle(peer)

    def _settle(self, peer: Connection) -> None:
        """Decide what a connection waits for after a handshake step, a request, or a write."""
        try:
            if peer.broken:
                self._close(peer)
            elif not peer.secure:
                peer.state = State.HANDSHAKE
                self._watch(peer)
            elif peer.out:
                if peer.state is not State.WRITING:
                    peer.state = State.WRITING
                    peer.expire_in(self.limits.response_seconds)
                self._watch(peer)
            elif peer.closing:
                peer.shut()
                peer.state = State.LINGER
                peer.expire_in(self.limits.linger_seconds)
                self._watch(peer)
            else:
                self._idle(peer)
        except OSError as error:
            self.log.debug("%s: %s", peer.client, error)
            self._close(peer)

    def _idle(self, peer: Connection) -> None:
        peer.state = State.IDLE
        peer.interest = selectors.EVENT_READ
        peer.expire_in(self.settings.keepalive_seconds)
        if peer.has_unread():
            self._receive(peer)
        else:
            self._watch(peer)

    def _hand_over(self, peer: Connection) -> None:
        """Have a handshake step or a request done; the connection comes back in ``crew.finished``."""
        if peer.secure and self.crew.is_short(peer):
            self.crew.here(peer)
        else:
            self._unwatch(peer)
            self.crew.by_thread(peer)

    def _watch(self, peer: Connection) -> None:
        if peer.watched:
            self.poller.modify(peer.sock, peer.interest, peer)  # free of charge when nothing changes
        else:
            self.poller.register(peer.sock, peer.interest, peer)
            peer.watched = True

    def _unwatch(self, peer: Connection) -> None:
        if peer.watched:
            self.poller.unregister(peer.sock)
            peer.watched = False

    def _sweep(self) -> None:
        """Give up the connections that are past their deadlines."""
        now = time.monotonic()
        if now < self.next_sweep:
            return
        self.next_sweep = now + _TURN_SECONDS
        for peer in [p for p in self.connections if p.deadline < now and p.state is not State.BUSY]:
            if peer.state is State.READING:
                peer.state = State.IDLE
                self._refuse(peer, Refused("408 Request Timeout", "the request did not arrive in time"))
            else:
                self._close(peer)

    def _evict(self) -> None:
        """Make room: close the connection whose deadline is nearest, slow peers before idle clients."""
        waiting = [peer for peer in self.connections if peer.state is not State.BUSY]
        if waiting:
            self._close(min(waiting, key=lambda peer: peer.deadline))

    def _close(self, peer: Connection) -> None:
        self._unwatch(peer)
        self.connections.discard(peer)
        peer.close()
