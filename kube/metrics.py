"""Serves metrics and other WSGI applications. Any Pod can connect to the port, so connections are limited."""

import contextlib
import socket
from collections import deque
from collections.abc import Mapping
from socketserver import ThreadingMixIn
from threading import Thread
from typing import Any, Final
from wsgiref.simple_server import WSGIServer, make_server

from prometheus_client import CollectorRegistry, make_wsgi_app
from prometheus_client.exposition import _SilentHandler as Handler

MAX_CONNECTIONS: Final = 64
"""The maximum number of connections at a time; each connection has a thread."""


class ConnectionHandler(Handler):
    """Serves one connection, and ends it if the peer sends nothing for `timeout` seconds."""

    timeout = 5.0


class Server(ThreadingMixIn, WSGIServer):
    """Serves each connection in a thread. If there are too many connections, it closes the oldest."""

    daemon_threads = True
    request_queue_size = 2 * MAX_CONNECTIONS

    def __init__(self, address: tuple[str, int], handler: Any) -> None:  # noqa: ANN401 - the type in the base class
        self.address_family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        self._connections = deque[socket.socket]()
        super().__init__(address, handler)

    def process_request(self, request: Any, client_address: Any) -> None:  # noqa: ANN401 - the types in the base class
        """Serves a connection."""
        self._connections.append(request)
        if len(self._connections) > MAX_CONNECTIONS:
            with contextlib.suppress(OSError):  # the connection has ended
                self._connections.popleft().shutdown(socket.SHUT_RDWR)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:  # noqa: ANN401 - the type in the base class
        """Ends a connection, and removes it from the open connections."""
        with contextlib.suppress(ValueError):  # `process_request` has removed the connection as the oldest
            self._connections.remove(request)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ANN401 - the types in the base class
        """Logs nothing: the peer has closed the connection, or has sent an invalid request."""


def serve(host: str, port: int, registry: CollectorRegistry, apps: Mapping[str, Any] | None = None) -> Server:
    """Starts a thread that serves metrics until the program ends, and returns the server.

    Args:
        host: The address.
        port: Its port.
        registry: The metrics.
        apps: WSGI applications by path. All other paths serve the metrics.

    Raises:
        OSError: The address cannot be used.
    """
    metrics, apps = make_wsgi_app(registry), apps or {}

    def app(environ: dict[str, Any], start: Any) -> Any:  # noqa: ANN401 - WSGI's types
        return apps.get(environ["PATH_INFO"], metrics)(environ, start)

    server = make_server(host, port, app, Server, ConnectionHandler)
    Thread(target=server.serve_forever, daemon=True).start()
    return server
