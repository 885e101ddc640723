"""Where is served, and the bounds on what peers can do there, with defaults and where each comes from."""

from dataclasses import dataclass

from webhook import limits

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
        tls: Whether the listener speaks TLS.
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
        head: Longest request head (request line and headers) in bytes; the API server's is below 1 KiB.
        body: Longest request body in bytes.
        buffered: Most bytes of requests and responses that a worker holds while they are received and
            sent, counted as they arrive. Above it the one that held most for longest has to go.
        connections: Most open connections of a worker. One more closes another one, see
            `webhook.serving.peers.Peers.add`; 960 stays below the usual limit of 1024 file descriptors.
        handshake_seconds: From accepting a connection to the end of its TLS handshake (Go's client
            gives up after 10 s).
        request_seconds: From the first to the last byte of a request.
        response_seconds: For the peer to take a response.
        idle_seconds: How long an idle connection stays open; above the API server's
            `API_SERVER_IDLE_SECONDS`, so that it is the client that closes and no request meets a
            closing connection.
        linger_seconds: How long a closed connection is read on, so that the last response is not cut
            off by a reset, and how long a stopping worker keeps idle connections for a request that
            may be on its way.
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
