"""What an operator may say about the listeners, with defaults and where each comes from."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from webhook import limits

if TYPE_CHECKING:
    from pathlib import Path

WsgiApp = Callable[[dict[str, Any], Callable[..., Any]], Any]
"""A WSGI application: ``app(environ, start_response)``."""

API_SERVER_IDLE_SECONDS = 90
"""How long the API server keeps an idle connection to a webhook.

client-go builds its transport through apimachinery's ``SetTransportDefaults``, which takes
``IdleConnTimeout`` from Go's ``http.DefaultTransport``: 90 s (read in client-go 0.36.3, Go 1.25).
"""


@dataclass(frozen=True, slots=True)
class Listener:
    """One address that is served.

    Attributes:
        host: Address to bind, IPv4 or IPv6 (no brackets).
        port: TCP port.
        tls: Whether the listener speaks TLS, with the certificate of the settings.
    """

    host: str = "0.0.0.0"  # noqa: S104 - a pod's address is not known beforehand
    port: int = 8443
    tls: bool = True

    @property
    def address(self) -> str:
        """The address as gunicorn's ``bind`` wants it."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds on what peers can make the server hold, in bytes, counts and seconds.

    Attributes:
        request_line: Longest request line in bytes (gunicorn's own default, 4094).
        head: Longest request head (request line and headers) in bytes; the API server's is below 1 KiB.
        header_fields: Most header fields of a request.
        body: Longest request body in bytes.
        buffered: Most bytes of requests and responses that a worker holds while they are received and
            sent, counted as they arrive. Above it the oldest unfinished one has to go.
        connections: Most open connections of a worker. One more closes another one, see
            `webhook.serving.peers.Peers.add`; 960 stays below the usual limit of 1024 file descriptors.
        handshake_seconds: From accepting a connection to the end of its TLS handshake (Go's client
            gives up after 10 s).
        request_seconds: From the first to the last byte of a request.
        response_seconds: For the peer to take a response.
        linger_seconds: How long a closed connection is read on, so that the last response is not cut
            off by a reset, and how long a stopping worker keeps idle connections for a request that
            may be on its way.
    """

    request_line: int = 4094
    head: int = 16 * 1024
    header_fields: int = 64
    body: int = limits.BODY
    buffered: int = 8 * 1024 * 1024
    connections: int = 960
    handshake_seconds: float = 5.0
    request_seconds: float = 10.0
    response_seconds: float = 10.0
    linger_seconds: float = 2.0


def writable_tmp() -> str | None:
    """Directory for gunicorn's heartbeat files that also works under a read-only root.

    ``/dev/shm`` is a tmpfs of every container, so it is writable there and never stalls on a disk.

    Returns:
        The directory, or None for Python's own choice of temporary directory.
    """
    shm = "/dev/shm"  # noqa: S108 - a directory; the files in it are made by mkstemp
    return shm if os.access(shm, os.W_OK | os.X_OK) else None


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """How the server runs.

    Attributes:
        certificate: PEM file with the serving certificate and its chain.
        key: PEM file with its private key.
        listener: The main listener.
        workers: Processes. One uses one processor; replicas are the way to more.
        keepalive_seconds: How long an idle connection stays open; above the API server's
            `API_SERVER_IDLE_SECONDS`, so that it is the client that closes and no request meets a
            closing connection.
        graceful_seconds: How long a stopping server waits for requests in flight.
        timeout_seconds: A worker whose loop stands still this long is replaced.
        limits: What one peer can make the server hold.
        worker_tmp_dir: Directory of the heartbeat files, see `writable_tmp`.
        log_level: gunicorn's level: debug, info, warning, error or critical.
        log_config: A ``logging.config.dictConfig`` document for gunicorn's loggers; None for its own.
    """

    certificate: Path
    key: Path
    listener: Listener = field(default_factory=Listener)
    workers: int = 1
    keepalive_seconds: int = 120
    graceful_seconds: int = 25
    timeout_seconds: int = 30
    limits: Limits = field(default_factory=Limits)
    worker_tmp_dir: str | None = field(default_factory=writable_tmp)
    log_level: str = "info"
    log_config: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        """Refuse what could only fail later.

        Raises:
            ValueError: A count below one, or a keep-alive that the API server outlives.
        """
        if self.workers < 1:
            raise ValueError(f"workers must be 1 or more, not {self.workers}")
        if self.keepalive_seconds <= API_SERVER_IDLE_SECONDS:
            raise ValueError(
                f"keepalive_seconds is {self.keepalive_seconds}; it must be above the API server's "
                f"{API_SERVER_IDLE_SECONDS}, or requests meet connections that are being closed"
            )
