"""gunicorn's gevent worker, with deadlines and limits on connections.

gunicorn reads requests, finds their ends, calls the application and writes responses, each connection in its
own greenlet. `webhook.serving.peers` has our part; this module connects the two. The test
``tests/serving/test_gunicorn_parts.py`` lists the parts of gunicorn that it needs, and fails if one is
missing.
"""

import io
import json
import os
import ssl
import time
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from http import HTTPStatus
from types import SimpleNamespace
from typing import Any, Final

import gevent
from gevent import socket
from gevent.lock import BoundedSemaphore
from gevent.server import StreamServer
from gunicorn.http import errors
from gunicorn.http.body import ChunkedReader
from gunicorn.workers.base_async import AsyncWorker
from gunicorn.workers.ggevent import GeventWorker

from webhook.errors import code_of, reason_of
from webhook.serving.peers import Peer, Peers, RefusedError
from webhook.serving.settings import Listener

WsgiApp = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]
"""A WSGI application: ``app(environ, start_response)``."""

_TURN_SECONDS = 0.25
"""Interval of the checks of deadlines, and of gunicorn's heartbeat."""
_PIPELINED_PAUSE = 0.01
"""Seconds after a pipelined request, which take turns: no API server sends one before it has its answer."""
_ACCEPTS_A_TURN = 16
"""Maximum number of connections that are accepted at a time: a flood leaves time for the existing ones."""

_FAILED: Final = HTTPStatus.INTERNAL_SERVER_ERROR
_STATUSES: Final = {
    errors.UnsupportedTransferCoding: HTTPStatus.NOT_IMPLEMENTED,
    errors.LimitRequestLine: HTTPStatus.REQUEST_URI_TOO_LONG,
    errors.LimitRequestHeaders: HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE,
    errors.ExpectationFailed: HTTPStatus.EXPECTATION_FAILED,
    (errors.ParseException, ssl.SSLError): HTTPStatus.BAD_REQUEST,
}
"""The status of errors of gunicorn and TLS; the first match is used. Other errors are the application's."""


class Worker(GeventWorker):  # type: ignore[misc]  # gunicorn has no types
    """Serves the applications of `webhook.server`."""

    alive: bool
    sockets: list[Any]
    wsgi: Any
    last_request: float
    """When a stopping worker last answered a request, by ``time.monotonic()``."""

    def patch(self) -> None:
        """Replaces the listeners by gevent's; the standard library stays unpatched: nothing waits with it."""
        self.sockets = [
            socket.socket(listener.FAMILY, socket.SOCK_STREAM, fileno=listener.sock.detach())
            for listener in self.sockets
        ]

    def run(self) -> None:
        """Serves until a signal, then finishes the requests that have begun."""
        self.peers, self.pipelined = Peers(self.app.limits), BoundedSemaphore()
        self.apps: dict[Listener, WsgiApp] = self.wsgi
        self.wsgi = self._call
        servers = [
            StreamServer(sock, handle=partial(self._connected, listener, sock.getsockname()))
            for sock, listener in zip(self.sockets, self.app.listeners, strict=True)
        ]
        for server in servers:
            server.max_accept = _ACCEPTS_A_TURN
            server.start()
        while self.alive and self.ppid == os.getppid():
            self._turn()
        self.alive = False  # from now on every response closes the connection
        gevent.sleep(_TURN_SECONDS)  # for connections that are queued at the listeners
        for server in servers:
            server.close()
        limits, begun = self.peers.limits, time.monotonic()
        self.last_request = begun
        while len(self.peers) and (now := time.monotonic()) - begun < limits.graceful_seconds:
            # A request may still arrive: an API server with many idle connections reuses the oldest ones.
            if now - self.last_request > limits.linger_seconds:
                self.peers.end_idle()
            self._turn()

    def timeout_ctx(self) -> AbstractContextManager[None]:
        """Disables gunicorn's deadline, which would include the time until the next request's head."""
        return nullcontext()

    def _turn(self) -> None:
        self.tmp.notify()
        self.peers.sweep()
        gevent.sleep(_TURN_SECONDS)

    def _connected(self, listener: Listener, name: Any, client: Any, addr: Any) -> None:  # noqa: ANN401
        """Serves one connection, from the handshake to its end."""
        peer = Peer(client, listener, self.peers)
        self.peers.add(peer)
        try:
            if listener.tls:
                peer.secure(self.app.tls.context())
            # gunicorn only needs the listening socket's name, even after it is closed.
            AsyncWorker.handle(self, SimpleNamespace(getsockname=lambda: name), peer, addr)
        except OSError as error:
            self.log.debug("%s: %s", addr, error)
        finally:
            peer.drop()
            self.peers.discard(peer)

    def handle_request(self, listener_name: Any, req: Any, sock: Peer, addr: Any) -> None:  # noqa: ANN401
        """Serves one request, whose head has arrived.

        Raises:
            RefusedError: Its body exceeds the limits.
        """
        if isinstance(req.body.reader, ChunkedReader):
            raise RefusedError(411, reason_of(501))
        if req.body.reader.length > self.peers.limits.body:
            raise RefusedError(413, f"a body may have {self.peers.limits.body} bytes at most")
        sock.request = req
        sock.expect()
        super().handle_request(listener_name, req, sock, addr)
        is_pipelined = req.unreader.buf.getbuffer().nbytes or sock.has_more()
        sock.flush()
        sock.wait()
        gevent.sleep(0)
        if is_pipelined:
            with self.pipelined:
                gevent.sleep(_PIPELINED_PAUSE)

    def _call(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        """Calls the application of the listener after the whole body has arrived."""
        peer: Peer = environ["gunicorn.socket"]
        wanted, body = int(environ.get("CONTENT_LENGTH") or 0), environ["wsgi.input"].read()
        if len(body) < wanted:
            raise RefusedError(400, f"the body ended after {len(body)} of {wanted} bytes")
        peer.serve()
        environ["wsgi.input"] = io.BytesIO(body)
        environ["wsgi.url_scheme"] = "https" if peer.listener.tls else "http"
        response = self.apps[peer.listener](environ, start_response)
        if not self.alive:
            peer.request.force_close()
            self.last_request = time.monotonic()
        return response

    def handle_error(self, req: Any, client: Peer, addr: Any, exc: BaseException) -> None:  # noqa: ANN401
        """Answers a request that is refused, or for which the application failed."""
        status = status_of(exc)
        if status is _FAILED:
            self.log.error("%s failed", getattr(req, "uri", "a request"), exc_info=exc)
        else:
            self.log.warning("refused a request of %s: %s", addr, exc)
        reason = exc.reason if isinstance(exc, RefusedError) else reason_of(status)
        client.sendall(last_response(status, reason))


def status_of(error: BaseException) -> HTTPStatus:
    """Returns the HTTP status for an error of a connection."""
    if isinstance(error, RefusedError):
        return error.status
    return next((status for kinds, status in _STATUSES.items() if isinstance(error, kinds)), _FAILED)


def last_response(status: HTTPStatus, reason: str) -> bytes:
    """Returns an error response in the form of the applications', before the connection is closed."""
    body = json.dumps({"code": code_of(status), "error": reason}) + "\n"
    head = (
        f"HTTP/1.1 {status.value} {status.phrase}",
        "Connection: close",
        "Content-Type: application/json",
        f"Content-Length: {len(body)}",
    )
    return "\r\n".join((*head, "", body)).encode()
