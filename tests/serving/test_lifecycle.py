"""The end of the process, and what it leaves."""

import signal
import socket
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from testbed.waiting import until
from tests.serving.conftest import PATIENCE, Server


def refuses_connections(server: Server) -> bool:
    """Returns whether nothing listens at the server's address any more."""
    with socket.socket() as sock:
        return sock.connect_ex(("127.0.0.1", server.ports[0])) != 0


@pytest.fixture
def server(start: Callable[..., Server], tmp_path: Path) -> Server:
    (tmp_path / "heartbeat").mkdir()
    limits = {"linger_seconds": 0.2, "handshake_seconds": 600}
    return start(limits=limits, worker_tmp_dir=str(tmp_path / "heartbeat"))


def test_nothing_is_written_but_the_heartbeat_file_and_at_sigterm_what_has_begun_is_finished(
    server: Server, tmp_path: Path
) -> None:
    server.wait_for("Control socket disabled")
    assert {path.name for path in tmp_path.iterdir()} == {"heartbeat", "tls.crt", "tls.key"}
    end = tmp_path / "end"
    with ThreadPoolExecutor() as pool, server.client() as client:
        for _ in range(5):
            server.tls()  # idle
            server.tcp()  # silent
        in_flight = pool.submit(client.get, f"/until?{end}")
        half_sent = server.tls()
        half_sent.sendall(b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\nbo")
        server.wait_for("asleep")
        server.process.send_signal(signal.SIGTERM)
        until(lambda: refuses_connections(server), "listeners that are closed", PATIENCE, 0.01)
        half_sent.sendall(b"dy")
        assert half_sent.recv(12) == b"HTTP/1.1 200"
        end.touch()
        assert in_flight.result(PATIENCE) == 200
        assert (client.content, client.headers["Connection"]) == (b"slept", "close")
    assert server.process.wait(PATIENCE) == 0  # idle and silent peers are not waited for
