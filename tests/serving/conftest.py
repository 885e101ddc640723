"""Starts real servers on loopback, and talks to them over real sockets."""

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
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import pytest

from certs import authority

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ROOT = Path(__file__).parents[2]
PATIENCE = 30.0
"""Seconds within which anything that a test waits for happens, on a busy machine."""


@dataclass
class Files:
    """Certificate files of one authority, as a mounted Secret has them."""

    directory: Path
    signer: authority.Pair
    log: list[str] = field(default_factory=list)

    @property
    def certificate(self) -> Path:
        """Where the server reads its certificate."""
        return self.directory / "tls.crt"

    @property
    def key(self) -> Path:
        """Where the server reads its key."""
        return self.directory / "tls.key"

    def issue(self, days: int = 1) -> authority.Pair:
        """A new pair, not yet in the files."""
        return authority.issue(
            self.signer, datetime.now(UTC), timedelta(days=days), ["localhost"], ["127.0.0.1"]
        )

    def client_context(self) -> ssl.SSLContext:
        """What an API server has: trust in this authority only."""
        return ssl.create_default_context(cadata=self.signer.certificate_pem().decode())


class Server:
    """A running server.

    Attributes:
        ports: The listeners' ports, in order.
        startup: Seconds from starting the process to its first answer.
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
        begun = time.monotonic()
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.serving.program", json.dumps(given)],
            cwd=ROOT,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
        )
        self._listening = threading.Event()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        stack.callback(self.stop)
        assert self._listening.wait(PATIENCE), self.log()
        assert self.ports, self.log()
        with self.client() as client:
            assert client.get("/") == 200
        self.startup = time.monotonic() - begun

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.lines.append(line)
            if "Listening at:" in line:
                self.ports = [int(port) for port in re.findall(r"https?://127\.0\.0\.1:(\d+)", line)]
                self._listening.set()
        self._listening.set()

    def log(self) -> str:
        """What the server has logged so far."""
        return "".join(self.lines)

    def wait_for(self, what: Callable[[], bool], message: str) -> None:
        """Wait, within `PATIENCE`, until ``what`` is true."""
        deadline = time.monotonic() + PATIENCE
        while not what():
            assert time.monotonic() < deadline, f"{message}\n{self.log()}"
            time.sleep(0.05)

    def tcp(self, listener: int = 0) -> socket.socket:
        """A TCP connection, closed at the end of the test."""
        sock = socket.create_connection(("127.0.0.1", self.ports[listener]), timeout=PATIENCE)
        return self.stack.enter_context(sock)

    def tls(self, context: ssl.SSLContext | None = None, **arguments: Any) -> ssl.SSLSocket:
        """A TLS connection, its handshake done, closed at the end of the test."""
        sock = (context or self.context).wrap_socket(self.tcp(), server_hostname="localhost", **arguments)
        return self.stack.enter_context(sock)

    def client(self) -> Client:
        """A client with a connection of its own."""
        return Client(self)

    def stop(self) -> int:
        """SIGTERM, then wait for the end."""
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
        """Send a body; return that of the response, which must be a 200."""
        self.connection.request("POST", path, body, headers or {})
        response = self.connection.getresponse()
        content = response.read()
        assert response.status == 200, content
        return content

    def get(self, path: str) -> int:
        """Ask for a path; return the status, and keep ``content`` and ``headers``."""
        self.connection.request("GET", path)
        response = self.connection.getresponse()
        self.content = response.read()
        self.headers = response.headers
        return response.status


def answer(sock: socket.socket) -> bytes:
    """Everything the server says until it closes."""
    parts = []
    try:
        while part := sock.recv(65536):
            parts.append(part)
    except (ConnectionResetError, ssl.SSLEOFError):
        parts.append(b"")
    return b"".join(parts)


@pytest.fixture
def files(tmp_path: Path) -> Files:
    """A serving certificate in files."""
    made = Files(tmp_path, authority.new_authority(datetime.now(UTC), timedelta(days=2)))
    pair = made.issue()
    made.key.write_bytes(pair.key_pem())
    made.certificate.write_bytes(pair.certificate_pem())
    return made


@pytest.fixture
def start(files: Files) -> Iterator[Callable[..., Server]]:
    """Starts a server with the settings given; it is stopped at the end of the test."""
    with ExitStack() as stack:
        yield lambda **settings: Server(files, stack, **settings)
