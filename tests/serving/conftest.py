"""Starts real servers on loopback, and clients of these servers.

The start of a server takes half a second of processor time, so the tests of a module share servers with equal
settings.
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
"""Maximum number of seconds for which a test waits, even on a busy machine."""


class Server:
    """A running server.

    Attributes:
        ports: The listeners' ports, in order.
        workers: The worker processes at the start. Later there may be more.
    """

    def __init__(self, files: Files, stack: ExitStack, **settings: Any) -> None:
        self.files = files
        self.context = files.client_context()
        self.stack = stack
        self.lines: list[str] = []
        self.ports: list[int] = []
        arguments = {
            "certificate": str(files.certificate),
            "key": str(files.key),
            "loglevel": "debug",
            **settings,
        }
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.serving.program", json.dumps(arguments)],
            cwd=ROOT,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
        )
        self._listening, self._has_logged = threading.Event(), threading.Condition()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        stack.callback(self.stop)
        assert self._listening.wait(PATIENCE), self.log()
        assert self.ports, self.log()
        self.wait_until_it_answers()
        self.workers = {*children(self.process.pid)}

    def wait_until_it_answers(self) -> None:
        """Waits until the server answers. On a stalled machine, a request can fail, so it is repeated."""
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
            with self._has_logged:
                self.lines.append(line)
                self._has_logged.notify_all()
            if "Listening at:" in line:
                self.ports = [int(port) for port in re.findall(r"https?://127\.0\.0\.1:(\d+)", line)]
                self._listening.set()
        self._listening.set()

    def log(self) -> str:
        """Returns what the server has logged so far."""
        return "".join(self.lines)

    def wait_for(self, text: str) -> None:
        """Waits until the server has logged a text."""
        with self._has_logged:
            is_logged = self._has_logged.wait_for(lambda: text in self.log(), PATIENCE)
        assert is_logged, f"waited {PATIENCE:.0f} s for {text!r} in the log:\n{self.log()}"

    def tcp(self, listener: int = 0) -> socket.socket:
        """Returns a TCP connection."""
        sock = socket.create_connection(("127.0.0.1", self.ports[listener]), timeout=PATIENCE)
        return self.stack.enter_context(sock)

    def tls(self, context: ssl.SSLContext | None = None, **arguments: Any) -> ssl.SSLSocket:
        """Returns a TLS connection after the handshake."""
        sock = (context or self.context).wrap_socket(self.tcp(), server_hostname="localhost", **arguments)
        return self.stack.enter_context(sock)

    def client(self) -> Client:
        """Returns a client with a new connection."""
        return Client(self)

    def stop(self) -> int:
        """Sends SIGTERM and waits for the end of the server; returns its exit code."""
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
        """Sends a body; returns the body of the response, whose status must be 200."""
        self.connection.request("POST", path, body, headers or {})
        response = self.connection.getresponse()
        content = response.read()
        assert response.status == 200, content
        return content

    def get(self, path: str) -> int:
        """Requests a path; returns the status, and sets ``content`` and ``headers``."""
        self.connection.request("GET", path)
        response = self.connection.getresponse()
        self.content = response.read()
        self.headers = response.headers
        return response.status


def read_all(sock: socket.socket) -> bytes:
    """Returns all data that the server sends until it closes the connection."""
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
    """Returns the module's server with the given settings, and starts it at the first call."""
    running: dict[str, Server] = {}
    files = new_files(tmp_path_factory.mktemp("shared"))
    with ExitStack() as stack:

        def shared(**settings: Any) -> Server:
            key = json.dumps(settings, sort_keys=True)
            if key not in running:
                running[key] = Server(files, stack, **settings)
            return running[key]

        yield shared
        for server in running.values():  # all end at the same time, before the stack waits for them
            server.process.terminate()


@pytest.fixture
def shared(servers: Callable[..., Server]) -> Iterator[Callable[..., Server]]:
    """Works like `servers`; closes a test's connections and checks that the same workers still serve."""
    used: dict[Server, ExitStack] = {}

    def server(**settings: Any) -> Server:
        instance = servers(**settings)
        if instance not in used:
            used[instance], instance.stack = instance.stack, ExitStack()
        return instance

    yield server
    for instance, stack in used.items():
        instance.stack.close()
        instance.stack = stack
        instance.wait_until_it_answers()
        assert instance.workers <= {*children(instance.process.pid)}, instance.log()
        assert "Traceback" not in instance.log(), instance.log()
