"""Starts real servers on loopback, and talks to them over real sockets.

A server takes half a second of a processor to start, so the tests of a module share those of equal settings.
"""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self

import pytest

from tests.attack.pairs import Files, new_files
from tests.attack.processes import children

ROOT = Path(__file__).parents[2]
PATIENCE = 30.0
"""Seconds within which anything that a test waits for happens, on a busy machine."""


class Server:
    """A running server.

    Attributes:
        ports: The listeners' ports, in order.
        workers: The processes that served when it began; there may be more.
    """

    def __init__(self, files: Files, stack: ExitStack, **settings: Any) -> None:
        self.files = files
        self.context = files.client_context()
        self.stack = stack
        self.lines: list[str] = []
        self.ports: list[int] = []
        given = {
            "certificate": str(files.certificate),
            "key": str(files.key),
            "loglevel": "debug",
            **settings,
        }
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.serving.program", json.dumps(given)],
            cwd=ROOT,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
        )
        self._listening, self._said = threading.Event(), threading.Condition()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        stack.callback(self.stop)
        assert self._listening.wait(PATIENCE), self.log()
        assert self.ports, self.log()
        self.asked()
        self.workers = {*children(self.process.pid)}

    def asked(self) -> None:
        """Waits until it answers: a client that a stalled machine makes too slow tries again."""
        deadline = time.monotonic() + PATIENCE
        while not self._answers(deadline):
            pass

    def _answers(self, deadline: float) -> bool:
        with self.client() as client:
            try:
                assert client.get("/") == 200, client.content
            except OSError as error:
                if time.monotonic() > deadline:
                    raise AssertionError(self.log()) from error
                return False
            return True

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            with self._said:
                self.lines.append(line)
                self._said.notify_all()
            if "Listening at:" in line:
                self.ports = [int(port) for port in re.findall(r"https?://127\.0\.0\.1:(\d+)", line)]
                self._listening.set()
        self._listening.set()

    def log(self) -> str:
        """Returns what the server has logged so far."""
        return "".join(self.lines)

    def wait_for(self, text: str) -> None:
        """Waits until the server has logged a text."""
        with self._said:
            result = self._said.wait_for(lambda: text in self.log(), PATIENCE)
        assert result, f"waited {PATIENCE:.0f} s for {text!r} in the log:\n{self.log()}"

    def tcp(self, listener: int = 0) -> socket.socket:
        """Returns a TCP connection."""
        sock = socket.create_connection(("127.0.0.1", self.ports[listener]), timeout=PATIENCE)
        return self.stack.enter_context(sock)

    def tls(self, context: ssl.SSLContext | None = None, **arguments: Any) -> ssl.SSLSocket:
        """Returns a TLS connection, its handshake done."""
        sock = (context or self.context).wrap_socket(self.tcp(), server_hostname="localhost", **arguments)
        return self.stack.enter_context(sock)

    def client(self) -> Client:
        """Returns a client with a connection of its own."""
        return Client(self)

    def stop(self) -> int:
        """Returns SIGTERM, then wait for the end."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            code = self.process.wait(40)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait(PATIENCE)
            raise
        self._reader.join(PATIENCE)
        if self.process.stderr is not None:
            self.process.stderr.close()
        return code


class Client:
    """One keep-alive connection to a server."""

    def __init__(self, server: Server) -> None:
        self.connection = http.client.HTTPSConnection(
            "localhost", server.ports[0], context=server.context, timeout=PATIENCE
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.connection.close()

    def post(self, path: str, body: bytes, headers: dict[str, str] | None = None) -> bytes:
        """Sends a body; return that of the response, which must be a 200."""
        self.connection.request("POST", path, body, headers or {})
        response = self.connection.getresponse()
        content = response.read()
        assert response.status == 200, content
        return content

    def get(self, path: str) -> int:
        """Asks for a path; return the status, and keep ``content`` and ``headers``."""
        self.connection.request("GET", path)
        response = self.connection.getresponse()
        self.content = response.read()
        self.headers = response.headers
        return response.status


def answer(sock: socket.socket) -> bytes:
    """Returns everything the server says until it closes."""
    parts = []
    try:
        while part := sock.recv(65536):
            parts.append(part)
    except (ConnectionResetError, ssl.SSLEOFError):
        parts.append(b"")
    return b"".join(parts)


@pytest.fixture
def files(tmp_path: Path) -> Files:
    """A serving certificate in files, for one test."""
    return new_files(tmp_path)


@pytest.fixture
def start(files: Files) -> Iterator[Callable[..., Server]]:
    """Starts a server for one test."""
    with ExitStack() as stack:
        yield lambda **settings: Server(files, stack, **settings)


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Server]]:
    """The module's server of given settings, which is started when it is first asked for."""
    running: dict[str, Server] = {}
    made = new_files(tmp_path_factory.mktemp("shared"))
    with ExitStack() as stack:

        def shared(**settings: Any) -> Server:
            key = json.dumps(settings, sort_keys=True)
            if key not in running:
                running[key] = Server(made, stack, **settings)
            return running[key]

        yield shared
        for server in running.values():  # at the same time, before each is waited for
            server.process.terminate()


@pytest.fixture
def shared(servers: Callable[..., Server]) -> Iterator[Callable[..., Server]]:
    """`servers`; the connections of a test are closed at its end, and the same processes must still serve."""
    used: dict[Server, ExitStack] = {}

    def server(**settings: Any) -> Server:
        nodes = servers(**settings)
        if nodes not in used:
            used[nodes], nodes.stack = nodes.stack, ExitStack()
        return nodes

    yield server
    for nodes, stack in used.items():
        nodes.stack.close()
        nodes.stack = stack
        nodes.asked()
        assert nodes.workers <= {*children(nodes.process.pid)}, nodes.log()
        assert "Traceback" not in nodes.log(), nodes.log()
