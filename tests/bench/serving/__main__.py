"""Compares worker classes under an API server's kind of client: ``python -m tests.bench.serving``.

Every number is a ratio to this project's worker, measured in the same run, in turns, on loopback. With
``--before PATH``, a checkout of another commit with a ``.venv`` of its own, that commit's worker takes part.
"""

from __future__ import annotations

import json
import re
import signal
import socket
import ssl
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path

import click

from certs import authority

ROOT = Path(__file__).parents[3]
CLIENTS = 4
SECONDS = 2.0
ROUNDS = 3
TIMEOUT = 2.0
BEFORE = "before"
BODY = json.dumps({"items": [{"name": f"container-{n}", "value": "x" * 40} for n in range(85)]}).encode()
HEAD = b"POST /mutate?timeout=10s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
REQUEST = HEAD + b"Content-Length: %d\r\n\r\n" % len(BODY) + BODY


class Contender:
    """A running server of one kind."""

    def __init__(self, kind: str, directory: Path, stack: ExitStack, before: Path | None) -> None:
        begun = time.monotonic()
        program, checkout, worker = sys.executable, ROOT, kind
        if before and kind == BEFORE:
            program, checkout, worker = str(before / ".venv/bin/python"), before, "ours"
        self.process = subprocess.Popen(
            [program, "-m", "tests.bench.serving.contender", worker, str(directory)],
            cwd=checkout,
            stderr=subprocess.PIPE,
            text=True,
        )
        stack.callback(self.stop)
        assert self.process.stderr is not None
        port = None
        while port is None:
            line = self.process.stderr.readline()
            assert line, f"{kind} did not start"
            port = re.search(r"https://127\.0\.0\.1:(\d+)", line)
        self.address = ("127.0.0.1", int(port[1]))
        threading.Thread(target=self.process.stderr.read, daemon=True).start()
        self.context = ssl.create_default_context(cafile=directory / "ca.crt")
        with self.connect() as sock:
            exchange(sock)
        self.startup = time.monotonic() - begun

    def connect(self) -> ssl.SSLSocket:
        """A TLS connection."""
        sock = socket.create_connection(self.address, timeout=TIMEOUT)
        try:
            return self.context.wrap_socket(sock, server_hostname="localhost")
        except BaseException:
            sock.close()
            raise

    def stop(self) -> None:
        """End the process."""
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(3)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait(3)


def exchange(sock: ssl.SSLSocket) -> bool:
    """One review; returns whether the connection is kept.

    Raises:
        OSError: No answer in time.
    """
    sock.sendall(REQUEST)
    said = b""
    while b"\r\n\r\n" not in said or len(said) < said.index(b"\r\n\r\n") + 4 + len(BODY):
        part = sock.recv(65536)
        if not part:
            raise ConnectionResetError("closed before the answer was whole")
        said += part
    return b"Connection: keep-alive" in said


def load(server: Contender, *, keep: bool) -> dict[str, float]:
    """Reviews for `SECONDS`, from `CLIENTS` clients: how many a second, how slow, how many failed."""
    times: list[float] = []
    failed: list[OSError] = []
    until = time.monotonic() + SECONDS

    def client() -> None:
        sock = None
        while time.monotonic() < until:
            begun = time.monotonic()
            try:
                sock = sock or server.connect()
                if not (exchange(sock) and keep):
                    sock.close()
                    sock = None
            except OSError as error:
                failed.append(error)
                if sock is not None:
                    sock.close()
                sock = None
            else:
                times.append(time.monotonic() - begun)
        if sock is not None:
            sock.close()

    threads = [threading.Thread(target=client) for _ in range(CLIENTS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    slow = statistics.quantiles(times, n=100)[98] if len(times) > 1 else float("nan")
    return {
        "rate": len(times) / SECONDS,
        "p99": slow,
        "failed": len(failed) / max(1, len(failed) + len(times)),
    }


def annoyed(server: Contender) -> dict[str, float]:
    """The same, beside 16 spare connections, a half-open handshake, a silent and a trickling peer."""
    stop = threading.Event()
    with ExitStack() as stack:
        for _ in range(16):
            try:
                stack.enter_context(server.connect())
            except OSError:
                break  # a server that is already full: what comes next shows it
        for hello in (b"", b"\x16\x03\x01\x02"):
            stack.enter_context(socket.create_connection(server.address)).sendall(hello)

        def trickle() -> None:
            try:
                with server.connect() as sock:
                    for at in range(len(REQUEST)):
                        sock.sendall(REQUEST[at : at + 1])
                        if stop.wait(0.1):
                            return
            except OSError:
                return

        thread = threading.Thread(target=trickle)
        thread.start()
        time.sleep(0.3)
        try:
            return load(server, keep=True)
        finally:
            stop.set()
            thread.join()


@click.command()
@click.option(
    "--before", type=click.Path(path_type=Path), help="A checkout of another commit, with its .venv."
)
@click.option("--rounds", default=ROUNDS, show_default=True)
@click.option("--only", multiple=True, help="These contenders and ours.")
def main(before: Path | None, rounds: int, only: tuple[str, ...]) -> None:
    """Measure and print."""
    kinds = ["ours", *([BEFORE] if before else []), "gthread", "sync", "gevent"]
    kinds = [kind for kind in kinds if not only or kind in (*only, "ours")]
    results: dict[str, dict[str, list[float]]] = {kind: {} for kind in kinds}
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        now = datetime.now(UTC)
        signer = authority.new_authority(now, timedelta(days=1))
        pair = authority.issue(signer, now, timedelta(days=1), ["localhost"], ["127.0.0.1"])
        (directory / "ca.crt").write_bytes(signer.certificate_pem())
        (directory / "tls.crt").write_bytes(pair.certificate_pem())
        (directory / "tls.key").write_bytes(pair.key_pem())
        for _ in range(rounds):
            for kind in kinds:
                with ExitStack() as stack:
                    server = Contender(kind, directory, stack, before)
                    keep, new, beside = load(server, keep=True), load(server, keep=False), annoyed(server)
                for what, value in {
                    "startup s": server.startup,
                    "kept /s": keep["rate"],
                    "kept p99 ms": keep["p99"] * 1000,
                    "new /s": new["rate"],
                    "annoyed /s": beside["rate"],
                    "annoyed failed %": beside["failed"] * 100,
                }.items():
                    results[kind].setdefault(what, []).append(value)
    report(results)


def report(results: dict[str, dict[str, list[float]]]) -> None:
    """Print medians, and their ratios to this project's worker."""
    columns = list(results["ours"])
    print(f"{'':10}" + "".join(f"{column:>24}" for column in columns))  # noqa: T201 - a report
    for kind, found in results.items():
        row = f"{kind:10}"
        for column in columns:
            value, ours = statistics.median(found[column]), statistics.median(results["ours"][column])
            ratio = f"({value / ours:.2f}x)" if ours else ""
            row += f"{value:15.2f}{ratio:>9}"
        print(row)  # noqa: T201


if __name__ == "__main__":
    main()
