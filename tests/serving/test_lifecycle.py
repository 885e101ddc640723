"""Tests of the end of the server process, and of the files that it writes."""

import os
import signal
import socket
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from testbed.waiting import until
from tests.serving.conftest import PATIENCE, Server


def refuses_connections(server: Server) -> bool:
    """Returns whether the server no longer listens at its address."""
    with socket.socket() as sock:
        return sock.connect_ex(("127.0.0.1", server.ports[0])) != 0


def stop(server: Server) -> None:
    """Sends SIGTERM to a server, and waits until it no longer listens."""
    server.process.send_signal(signal.SIGTERM)
    until(lambda: refuses_connections(server), "the server to close its listeners", PATIENCE, 0.01)


@pytest.fixture
def server(start: Callable[..., Server], tmp_path: Path) -> Server:
    (tmp_path / "heartbeat").mkdir()
    limits = {"linger_seconds": 0.2, "handshake_seconds": 600}
    return start(limits=limits, worker_tmp_dir=str(tmp_path / "heartbeat"))


def test_the_server_writes_only_a_heartbeat_file_and_finishes_begun_requests_after_sigterm(
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
        stop(server)
        half_sent.sendall(b"dy")
        assert half_sent.recv(12) == b"HTTP/1.1 200"
        end.touch()
        assert in_flight.result(PATIENCE) == 200
        assert (client.content, client.headers["Connection"]) == (b"slept", "close")
    assert server.process.wait(PATIENCE) == 0  # the server does not wait for idle and silent peers


@pytest.mark.limit(10, "a freeze of two seconds, and a server of its own")
def test_a_request_that_arrives_while_a_stopping_worker_is_frozen_is_answered(
    start: Callable[..., Server],
) -> None:
    """Protects creates during a rollout on a busy node: the API server does not send a review twice."""
    server = start(limits={"linger_seconds": 1.5})
    (worker,) = server.workers
    with server.client() as client:
        assert client.get("/") == 200
        stop(server)
        os.kill(worker, signal.SIGSTOP)
        client.connection.request("GET", "/")
        time.sleep(2)  # noqa: TID251 - a freeze that is longer than `linger_seconds`
        os.kill(worker, signal.SIGCONT)
        response = client.connection.getresponse()
        assert (response.status, response.headers["Connection"]) == (200, "close")


@pytest.mark.limit(10, "requests for three seconds, and a server of its own")
def test_a_stopping_worker_keeps_idle_connections_while_requests_arrive(start: Callable[..., Server]) -> None:
    """Protects creates in a burst, for which the API server takes connections that were idle for long."""
    server = start()
    clients = [server.client() for _ in range(6)]
    for client in clients:
        assert client.get("/") == 200
    stop(server)
    for client in clients:
        time.sleep(0.5)  # noqa: TID251 - altogether longer than `linger_seconds`
        assert client.get("/") == 200
        client.connection.close()
    assert server.process.wait(PATIENCE) == 0
