"""One request, whole, through gunicorn's parser and the application, to a whole response."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gunicorn.http import RequestParser, wsgi
from gunicorn.http.errors import NoMoreData

from webhook.serving.connection import Connection, Sink
from webhook.serving.framing import Refused

if TYPE_CHECKING:
    from webhook.serving.settings import WsgiApp

TLS_KEY = "webhook.tls"
"""WSGI environment key of the `webhook.serving.tls.TlsFiles` in use, for readiness and metrics."""


class Exchange:
    """Serves requests for a worker; any thread may call it."""

    def __init__(self, worker: Any) -> None:  # noqa: ANN401 - gunicorn has no types
        """Keep what a request needs.

        Args:
            worker: The `webhook.serving.worker.Worker`, its application loaded.
        """
        self._worker = worker
        self._apps: list[WsgiApp] = worker.app.applications(worker.wsgi)
        self._schemes = ["https" if listener.tls else "http" for listener in worker.app.listeners]

    def serve(self, peer: Connection) -> None:
        """Answer ``peer.request``, and send what the peer takes at once.

        Raises:
            OSError: The connection broke while the answer was sent.
        """
        sink = Sink()
        request = None
        try:
            request = next(RequestParser(self._worker.cfg, [peer.request], peer.client))
            keep = self._answer(request, peer, sink)
        except (NoMoreData, StopIteration):
            sink.data[:] = Refused("400 Bad Request", "the request is incomplete").response()
            keep = False
        except Exception as error:  # noqa: BLE001 - of the application or the parser; logged there
            sink.data.clear()
            self._worker.handle_error(request, sink, peer.client, error)
            keep = False
        peer.done()
        peer.out += sink.data
        peer.closing = not keep
        peer.flush()

    def _answer(self, request: Any, peer: Connection, sink: Sink) -> bool:  # noqa: ANN401
        """Fill ``sink``; returns whether the connection can be kept."""
        worker = self._worker
        response, environ = wsgi.create(request, sink, peer.client, peer.server, worker.cfg)
        environ["wsgi.multithread"] = True
        environ["wsgi.url_scheme"] = self._schemes[peer.door]
        environ[TLS_KEY] = worker.tls
        parts = self._apps[peer.door](environ, response.start_response)
        try:
            if not worker.alive:  # asked after the application: the signal may have come meanwhile
                response.force_close()
            for part in parts:
                response.write(part)
            response.close()
        finally:
            if hasattr(parts, "close"):
                parts.close()
        return not response.should_close()
