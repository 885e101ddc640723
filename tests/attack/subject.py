"""The program under attack: ``serve`` as a user starts it, with its own certificates and rule table."""

import contextlib
import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Self

from testbed.plane.process import free_ports
from testbed.waiting import until
from tests.attack.pairs import new_files
from tests.attack.processes import children
from webhook.documents import dump_yaml
from webhook.rules.load import default_draft

SERVE = Path(sys.executable).with_name("ultraserver-webhook")
START_SECONDS = 60
STOP_SECONDS = 8
PROBE_SECONDS = 5
"""``timeoutSeconds`` of the probes in the manifests."""
COVERAGE_PREFIX = "COVERAGE_"
"""Prefix of the variables that the program does not get: coverage would make it slower and larger."""


class Subject:
    """A running server with its own files. Use it as a context manager.

    Attributes:
        directory: The folder of ``tls.crt``, ``tls.key``, ``ca.crt``, ``rules.yaml``, and the output ``log``.
        port: The port of the listener for the API server.
        metrics_port: The port of the listener for metrics.
    """

    def __init__(self, directory: Path, *options: str) -> None:
        self.directory = directory
        self.files = new_files(directory)
        self.port, self.metrics_port = free_ports(2)
        (directory / "ca.crt").write_bytes(self.files.signer.certificate_pem())
        self.table = dump_yaml(default_draft().raw).encode()
        (directory / "rules.yaml").write_bytes(self.table)
        self.context = self.files.client_context()
        self._command = [str(SERVE), "serve", "--host", "127.0.0.1", "--port", str(self.port)]
        self._command += ["--metrics-port", str(self.metrics_port)]
        for name, file in {"tls-cert": "tls.crt", "tls-key": "tls.key", "rules": "rules.yaml"}.items():
            self._command += [f"--{name}", str(directory / file)]
        self._command += options

    def __enter__(self) -> Self:
        with (self.directory / "log").open("wb") as log:
            # If OpenSSL asked for a pass phrase, it would wait at this pipe for ever.
            self.process = subprocess.Popen(
                self._command,
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                env=_environment(),
                start_new_session=True,
            )
        try:
            self._wait_until_ready()
        except BaseException:
            self.__exit__()
            raise
        self.workers = self.worker_ids()
        return self

    def _wait_until_ready(self) -> None:
        def ready() -> bool:
            assert self.process.poll() is None, self.log()
            return self.probe("/readyz") == 200

        until(ready, "the program to be ready", START_SECONDS)

    def __exit__(self, *_: object) -> None:
        """Ends the program with SIGTERM, and then kills all processes of its session."""
        self.process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(STOP_SECONDS)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        if self.process.stdin:
            self.process.stdin.close()

    def worker_ids(self) -> list[int]:
        """Returns the worker processes: the child processes, or the process itself if it has none."""
        return children(self.process.pid) or [self.process.pid]

    def probe(self, path: str) -> int:
        """Returns the status of the answer to a probe of the kubelet; 0 if there is no answer in time."""
        return self.request(path)[0]

    def request(
        self, path: str, seconds: float = PROBE_SECONDS, body: bytes | None = None
    ) -> tuple[int, str]:
        """Requests a path; returns the status and text of the answer, and status 0 if there is none."""
        url = f"https://127.0.0.1:{self.port}{path}"
        request = urllib.request.Request(url, body, {"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=seconds, context=self.context) as answer:  # noqa: S310
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()
        except OSError:
            return 0, ""

    def log(self) -> str:
        """Returns what the program has printed so far."""
        return (self.directory / "log").read_text(encoding="utf-8", errors="replace")


def _environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith(COVERAGE_PREFIX)}
