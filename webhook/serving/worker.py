"""Extends gunicorn's gevent worker with deadlines and limits on connections.

gunicorn reads requests, calls the application and writes responses, each connection in its own greenlet. This
module connects gunicorn with the deadlines and limits of `webhook.serving.peers`. The test
``tests/serving/test_gunicorn_parts.py`` lists the parts of gunicorn that this module uses, and fails if a
part is missing.
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

from webhook import messages
from webhook.messages import code_of, reason_of
from webhook.serving.peers import Peer, PeerSet, RefusedError
from webhook.serving.settings import Listener

WsgiApp = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]
"""A WSGI application: ``app(environ, start_response)``."""

_CHECK_SECONDS = 0.25
"""Time between checks of deadlines, and between gunicorn's heartbeats."""
_PIPELINED_PAUSE = 0.01
"""Seconds for which a connection pauses after a pipelined request. API servers send no such requests."""
_MOST_ACCEPTED = 16
"""Maximum number of connections that are accepted at a time, so that a flood delays no other connection."""

_FAILED: Final = HTTPStatus.INTERNAL_SERVER_ERROR
_STATUS_BY_ERRORS: Final = {
    errors.UnsupportedTransferCoding: HTTPStatus.NOT_IMPLEMENTED,
    errors.LimitRequestLine: HTTPStatus.REQUEST_URI_TOO_LONG,
    errors.LimitRequestHeaders: HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE,
    errors.ExpectationFailed: HTTPStatus.EXPECTATION_FAILED,
    (errors.ParseException, ssl.SSLError): HTTPStatus.BAD_REQUEST,
}
"""The HTTP status for each type of error of gunicorn and TLS. Errors of other types have `_FAILED`."""


class Worker(GeventWorker):  # type: ignore[misc]  # gunicorn has no types
    """Serves the applications of `webhook.server`."""

    alive: bool
    sockets: list[Any]
    wsgi: Any
    last_response_time: float
    """While the worker stops: the ``time.monotonic()`` of the last response, at first of the stop's begin."""

    def patch(self) -> None:
        """Replaces the listening sockets with sockets of gevent. The standard library is not patched."""
        self.sockets = [
            socket.socket(listener.FAMILY, socket.SOCK_STREAM, fileno=listener.sock.detach())
            for listener in self.sockets
        ]

    def run(self) -> None:
        """Serves until SIGTERM or the end of the parent, then finishes the requests that have begun."""
        self.peers, self.pipelined_lock = PeerSet(self.app.limits), BoundedSemaphore()
        self.apps: dict[Listener, WsgiApp] = self.wsgi
        self.wsgi = self._call
        servers = [
            StreamServer(sock, handle=partial(self._serve_connection, listener, sock.getsockname()))
            for sock, listener in zip(self.sockets, self.app.listeners, strict=True)
        ]
        for server in servers:
            server.max_accept = _MOST_ACCEPTED
            server.start()
        while self.alive and self.ppid == os.getppid():
            self._check()
        self.alive = False  # from now on every response closes the connection
        gevent.sleep(_CHECK_SECONDS)  # accepts the connections that wait at the listeners
        for server in servers:
            server.close()
        limits, start = self.peers.limits, time.monotonic()
        self.last_response_time = start
        while len(self.peers) and (now := time.monotonic()) - start < limits.graceful_seconds:
            # A request may still arrive on an idle connection, because an API server reuses its connections.
            if now - self.last_response_time > limits.linger_seconds:
                self.peers.end_idle()
            self._check()

    def timeout_ctx(self) -> AbstractContextManager[None]:
        """Disables gunicorn's deadline, which would include the idle time before the next request."""
        return nullcontext()

    def _check(self) -> None:
        self.tmp.notify()
        self.peers.sweep()
        gevent.sleep(_CHECK_SECONDS)

    def _serve_connection(self, listener: Listener, name: Any, client: Any, addr: Any) -> None:  # noqa: ANN401
        """Serves one connection, from the handshake to its end."""
        peer = Peer(client, listener, self.peers)
        self.peers.add(peer)
        try:
            if listener.tls:
                peer.secure(self.app.tls.context())
            # gunicorn needs only the name of the listening socket, which may be closed already.
            AsyncWorker.handle(self, SimpleNamespace(getsockname=lambda: name), peer, addr)
        except OSError as error:
            self.log.debug("%s: %s", addr, error)
        finally:
            peer.drop()
            self.peers.discard(peer)

    def handle_request(self, listener_name: Any, req: Any, sock: Peer, addr: Any) -> None:  # noqa: ANN401
        """Serves one request, whose head has arrived.

        Raises:
            RefusedError: The body of the request is too long or chunked.
        """
        if isinstance(req.body.reader, ChunkedReader):
            raise RefusedError(411)
        if req.body.reader.length > self.peers.limits.body:
            raise RefusedError(413)
        sock.request = req
        sock.begin_request()
        super().handle_request(listener_name, req, sock, addr)
        is_pipelined = req.unreader.buf.getbuffer().nbytes or sock.is_readable()
        sock.flush()
        sock.begin_idle()
        gevent.sleep(0)
        if is_pipelined:
            # Connections with pipelined requests wait for each other, so they do not delay other connections.
            with self.pipelined_lock:
                gevent.sleep(_PIPELINED_PAUSE)

    def _call(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        """Calls the application of the listener after the whole body has arrived."""
        peer: Peer = environ["gunicorn.socket"]
        length, body = int(environ.get("CONTENT_LENGTH") or 0), environ["wsgi.input"].read()
        if len(body) < length:
            raise RefusedError(400, messages.short_body(len(body), length))
        peer.serve()
        environ["wsgi.input"] = io.BytesIO(body)
        environ["wsgi.url_scheme"] = "https" if peer.listener.tls else "http"
        response = self.apps[peer.listener](environ, start_response)
        if not self.alive:
            peer.request.force_close()
            self.last_response_time = time.monotonic()
        return response

    def handle_error(self, req: Any, client: Peer, addr: Any, exc: BaseException) -> None:  # noqa: ANN401
        """Logs and answers a request that this server refuses, or whose application failed."""
        status = status_of(exc)
        if status is _FAILED:
            self.log.error("%s failed", getattr(req, "uri", "a request"), exc_info=exc)
        else:
            self.log.warning("refused a request of %s: %s", addr, exc)
        reason = exc.reason if isinstance(exc, RefusedError) else reason_of(status)
        client.sendall(error_response(status, reason))


def status_of(error: BaseException) -> HTTPStatus:
    """Returns the HTTP status for an error of a connection."""
    if isinstance(error, RefusedError):
        return error.status
    statuses = (status for types, status in _STATUS_BY_ERRORS.items() if isinstance(error, types))
    return next(statuses, _FAILED)


def error_response(status: HTTPStatus, reason: str) -> bytes:
    """Returns an error response that closes the connection. Its JSON is like that of the applications."""
    body = json.dumps({"code": code_of(status), "error": reason}) + "\n"
    head = (
        f"HTTP/1.1 {status.value} {status.phrase}",
        "Connection: close",
        "Content-Type: application/json",
        f"Content-Length: {len(body)}",
    )
    return "\r\n".join((*head, "", body)).encode()
