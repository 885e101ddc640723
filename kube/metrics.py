"""The port that a program's metrics are read from."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client import start_http_server

if TYPE_CHECKING:
    from collections.abc import Callable

    from prometheus_client import CollectorRegistry


def serve(registry: CollectorRegistry, host: str, port: int) -> Callable[[], object]:
    """Answer GETs on a port, from a thread.

    Returns:
        What ends that.

    Raises:
        OSError: The port is taken.
    """
    server, thread = start_http_server(port, host, registry)

    def stop() -> None:
        server.shutdown()
        server.server_close()
        thread.join()

    return stop
