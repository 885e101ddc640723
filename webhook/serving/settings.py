"""The listeners and the limits on peers, with defaults and their sources."""

from dataclasses import dataclass

from webhook import limits

API_SERVER_IDLE_SECONDS = 90
"""Time for which the API server keeps an idle connection to a webhook.

client-go builds its transport through apimachinery's ``SetTransportDefaults``, which takes
``IdleConnTimeout`` from Go's ``http.DefaultTransport``: 90 s (read in client-go 0.36.3, Go 1.25).
"""


@dataclass(frozen=True, slots=True)
class Listener:
    """One address that the server listens on.

    Attributes:
        host: Address to bind, IPv4 or IPv6 (without brackets).
        port: TCP port.
        tls: Whether the listener speaks TLS.
    """

    host: str = "0.0.0.0"  # noqa: S104 - a pod's address is not known beforehand
    port: int = 8443
    tls: bool = True

    @property
    def address(self) -> str:
        """The address in the form of gunicorn's ``bind``."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits on what peers can make the server hold, in bytes, counts and seconds.

    Attributes:
        head: Longest request head (request line and headers) in bytes; the API server's is below 1 KiB.
        body: Longest request body in bytes.
        buffered: Maximum number of bytes of requests and responses that a worker holds while they are
            received and sent, counted as they arrive. Above this, the connection with the largest product of
            bytes and time is closed.
        connections: Maximum number of open connections of a worker. Above this another one is closed (see
            `webhook.serving.peers.Peers.add`); 960 stays below the usual limit of 1024 file descriptors.
        handshake_seconds: From accepting a connection to the end of its TLS handshake (Go's client
            gives up after 10 s).
        request_seconds: From the first to the last byte of a request.
        response_seconds: For the peer to read a response.
        idle_seconds: How long an idle connection stays open; longer than the API server's
            `API_SERVER_IDLE_SECONDS`, so that the client closes first and no request meets a closing
            connection.
        linger_seconds: How long the server still reads from a closed connection, so that no reset cuts off
            the last response, and how long a stopping worker keeps idle connections after the last request:
            another one may be on its way.
        graceful_seconds: How long a stopping worker waits for requests in flight.
    """

    head: int = 16 * 1024
    body: int = limits.BODY
    buffered: int = 8 * 1024 * 1024
    connections: int = 960
    handshake_seconds: float = 5.0
    request_seconds: float = 10.0
    response_seconds: float = 10.0
    idle_seconds: float = 120.0
    linger_seconds: float = 2.0
    graceful_seconds: float = 25.0
