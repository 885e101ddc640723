"""Defines the settings of listeners and the limits on peers, with the sources of the defaults."""

from dataclasses import dataclass

from webhook import limits

API_SERVER_IDLE_SECONDS = 90
"""Time for which the API server keeps an idle connection to a webhook.

client-go calls ``SetTransportDefaults`` of apimachinery, which copies ``IdleConnTimeout`` of Go's
``http.DefaultTransport``: 90 s (client-go 0.36.3, Go 1.25).
"""


@dataclass(frozen=True, slots=True)
class Listener:
    """An address on which the server listens."""

    # The IPv4 or IPv6 address, without brackets.
    host: str = "0.0.0.0"  # noqa: S104 - a pod's address is not known beforehand
    port: int = 8443  # the TCP port
    tls: bool = True  # whether the listener speaks TLS

    @property
    def address(self) -> str:
        """Returns the address in the form of gunicorn's setting ``bind``."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits on the memory, the connections and the time that peers can use."""

    # Maximum number of bytes of a request line with headers; the API server sends less than 1 KiB.
    head: int = 16 * 1024
    body: int = limits.BODY  # maximum number of bytes of a request body
    buffered: int = 8 * 1024 * 1024  # maximum number of bytes of requests and responses that a worker holds
    # Maximum number of open connections of a worker. The usual limit on open files is 1024.
    connections: int = 960
    # Maximum time from accepting a connection to the end of its TLS handshake. Go's client stops after 10 s.
    handshake_seconds: float = 5.0
    request_seconds: float = 10.0  # maximum time from the first to the last byte of a request
    response_seconds: float = 10.0  # maximum time in which a response is sent
    # Maximum time for which an idle connection is open. It is longer than `API_SERVER_IDLE_SECONDS`, so that
    # the API server closes first and never sends a request to a connection that is being closed.
    idle_seconds: float = 120.0
    # Maximum time for which the server still reads from a connection that it closes. If it did not read, a
    # reset could cut off the last response. Also the time for which a stopping worker keeps idle connections
    # after its last response, because another request may arrive.
    linger_seconds: float = 2.0
    # Maximum time for which a stopping worker waits for its connections to end.
    graceful_seconds: float = 25.0
