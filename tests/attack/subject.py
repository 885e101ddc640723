"""The program under attack: ``serve`` as a user starts it, with certificates and a table of its own."""

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
MEASURED = "COVERAGE_"
"""What is attacked is the program, not the program under coverage, which is slower and larger."""


class Subject:
    """A running server with files of its own.

    Attributes:
        directory: Holds ``tls.crt``, ``tls.key``, ``ca.crt``, ``rules.yaml`` and ``log``.
        port: The port of the listener for the API server; ``metrics_port`` of the other one.
        said: What the program printed so far can be read from the file ``log``.
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
            # A terminal's question would wait for ever at this pipe, as it would in no one's terminal.
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
        """Asks it to end; what an attack keeps busy is killed, with the processes of its own session."""
        self.process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(STOP_SECONDS)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        if self.process.stdin:
            self.process.stdin.close()

    def worker_ids(self) -> list[int]:
        """Returns the processes that serve: those that the first one started, or that one alone."""
        return children(self.process.pid) or [self.process.pid]

    def probe(self, path: str) -> int:
        """Returns the status that a probe of the kubelet is answered; 0 where it is not answered in time."""
        return self.asked(path)[0]

    def asked(self, path: str, seconds: float = PROBE_SECONDS, body: bytes | None = None) -> tuple[int, str]:
        """Status and text of the answer at a path, to a body of JSON if given; 0 for none in time."""
        url = f"https://127.0.0.1:{self.port}{path}"
        sent = urllib.request.Request(url, body, {"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(sent, timeout=seconds, context=self.context) as answer:  # noqa: S310
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
    return {name: value for name, value in os.environ.items() if not name.startswith(MEASURED)}
