"""The port that metrics are read from."""

import ipaddress
import socket
import threading
from collections.abc import Iterator
from http.client import HTTPConnection

import click
import pytest
from prometheus_client import CollectorRegistry, Gauge

import certs.__main__
import placement.__main__
from kube.metrics import MAX_CONNECTIONS, Server, serve
from testbed.waiting import until


@pytest.fixture
def server() -> Iterator[Server]:
    registry = CollectorRegistry()
    Gauge("jobs", "Jobs that wait.", registry=registry).set(7)
    server = serve("127.0.0.1", 0, registry)
    yield server
    server.shutdown()
    server.server_close()


def scraped(server: Server) -> str:
    connection = HTTPConnection("127.0.0.1", server.server_port, timeout=5)
    connection.request("GET", "/metrics")
    with connection.getresponse() as response:
        assert response.status == 200
        return response.read().decode()


def test_peers_that_send_nothing_cost_no_more_threads_and_keep_no_probe_waiting(server: Server) -> None:
    """Each of them had a thread for ever: 17,000 filled the memory of whole-job admission."""
    before = threading.active_count()
    silent = [
        socket.create_connection(("127.0.0.1", server.server_port), 5) for _ in range(2 * MAX_CONNECTIONS)
    ]
    assert "jobs 7.0" in scraped(server)
    until(lambda: threading.active_count() - before <= MAX_CONNECTIONS, "an end of the oldest connections")
    assert silent[0].recv(1) == b"", "the oldest are closed"
    assert "jobs 7.0" in scraped(server)
    for each in silent:
        each.close()


def test_connections_that_have_ended_do_not_count(server: Server) -> None:
    """They counted: the connection of a slow scraper was closed after 64 probes."""
    with socket.create_connection(("127.0.0.1", server.server_port), 5) as slow:
        for _ in range(2 * MAX_CONNECTIONS):
            scraped(server)
        slow.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
        assert slow.recv(12) == b"HTTP/1.0 200"


@pytest.mark.parametrize("program", [certs.__main__.run, placement.__main__.run], ids=["certs", "placement"])
def test_a_program_can_serve_metrics_at_the_address_that_it_has_by_default(program: click.Command) -> None:
    (default,) = (option.default for option in program.params if option.name == "metrics_host")
    # Any of the Pod's. An empty name, which means that to a socket, is looked up first, and is not a name.
    assert ipaddress.ip_address(default).is_unspecified
