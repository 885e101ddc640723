"""One attack on one server, and the result of the live reviews next to it."""

import json
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from tests.attack.attacks import Attack
from tests.attack.live import Count
from tests.attack.peers import Peers
from tests.attack.processes import ROOT, MemoryWatch, memory_limit
from tests.attack.subject import Subject


@dataclass(frozen=True)
class Measured:
    """What an attack did.

    Attributes:
        live: The results of the live reviews and of the probes.
        peak: Bytes of memory that the program held at most.
        limit: Bytes that the manifests allow it.
        replaced: Whether a process that serves is another one than before.
        log: What the program printed.
    """

    live: Count
    peak: int
    limit: int
    replaced: bool
    log: str


def measure(attack: Attack, seconds: float) -> Measured:
    """Starts the program, attack it in the long form next to live reviews of another process, and count."""
    with (
        tempfile.TemporaryDirectory() as directory,
        Subject(Path(directory), "--log-level", "warning") as subject,
    ):
        with MemoryWatch(subject.process.pid) as memory, Reviews(subject, long=attack.large) as reviews:
            with Peers(subject, seconds=seconds) as peers:
                attack.long(peers)
            count = reviews.stop()
            replaced = subject.worker_ids() != subject.workers
        return Measured(count, memory.peak, memory_limit(), replaced, subject.log())


class Reviews:
    """Live reviews, sent by another process while this is entered."""

    def __init__(self, subject: Subject, *, long: bool = False) -> None:
        given = {"port": subject.port, "ca": str(subject.directory / "ca.crt"), "long": long}
        given["server"] = subject.workers[0]
        self._command = [sys.executable, "-m", "tests.attack.live", json.dumps(given)]

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            self._command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == "ready\n"
        return self

    def stop(self) -> Count:
        """Waits for the answers that are due; returns all results."""
        output, _ = self._process.communicate(timeout=60)
        return Count(**json.loads(output))

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            self._process.kill()
            self._process.communicate()
