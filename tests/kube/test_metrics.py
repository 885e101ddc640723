"""Tests of the server of metrics."""

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


def scrape(server: Server) -> str:
    connection = HTTPConnection("127.0.0.1", server.server_port, timeout=5)
    connection.request("GET", "/metrics")
    with connection.getresponse() as response:
        assert response.status == 200
        return response.read().decode()


def test_silent_connections_are_limited_and_do_not_delay_a_scrape(server: Server) -> None:
    """Protects the programs: 17,000 silent connections, each with a thread, have filled their memory."""
    before = threading.active_count()
    silent = [
        socket.create_connection(("127.0.0.1", server.server_port), 5) for _ in range(2 * MAX_CONNECTIONS)
    ]
    assert "jobs 7.0" in scrape(server)
    until(lambda: threading.active_count() - before <= MAX_CONNECTIONS, "an end of the oldest connections")
    assert silent[0].recv(1) == b"", "the oldest connection must be closed"
    assert "jobs 7.0" in scrape(server)
    for connection in silent:
        connection.close()


def test_ended_connections_are_not_part_of_the_limit(server: Server) -> None:
    """Protects slow scrapers: the server once closed their connection after 64 requests of other clients."""
    with socket.create_connection(("127.0.0.1", server.server_port), 5) as slow:
        for _ in range(2 * MAX_CONNECTIONS):
            scrape(server)
        slow.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
        assert slow.recv(12) == b"HTTP/1.0 200"


@pytest.mark.parametrize("program", [certs.__main__.run, placement.__main__.run], ids=["certs", "placement"])
def test_the_default_address_of_the_metrics_includes_all_addresses_of_the_pod(program: click.Command) -> None:
    (default,) = (option.default for option in program.params if option.name == "metrics_host")
    # An empty host also means all addresses, but the server would look it up as a name, and fail.
    assert ipaddress.ip_address(default).is_unspecified
