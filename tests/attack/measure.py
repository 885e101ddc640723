"""Measures live reviews during an attack on a server."""

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
class Measurement:
    """The effect of an attack.

    Attributes:
        live: The results of the live reviews and of the probes.
        peak: The largest number of bytes of memory that the program used.
        limit: The memory limit in the manifests, in bytes.
        replaced: Whether the worker processes have changed.
        log: The output of the program.
    """

    live: Count
    peak: int
    limit: int
    replaced: bool
    log: str


def measure(attack: Attack, seconds: float) -> Measurement:
    """Starts the program, and measures live reviews of another process during the long form of an attack."""
    with (
        tempfile.TemporaryDirectory() as directory,
        Subject(Path(directory), "--log-level", "warning") as subject,
    ):
        with MemoryWatch(subject.process.pid) as memory, Reviews(subject, long=attack.large) as reviews:
            with Peers(subject, seconds=seconds) as peers:
                attack.long(peers)
            count = reviews.stop()
            replaced = subject.worker_ids() != subject.workers
        return Measurement(count, memory.peak, memory_limit(), replaced, subject.log())


class Reviews:
    """Live reviews that another process sends. Use it as a context manager."""

    def __init__(self, subject: Subject, *, long: bool = False) -> None:
        options = {"port": subject.port, "ca": str(subject.directory / "ca.crt"), "long": long}
        options["server"] = subject.workers[0]
        self._command = [sys.executable, "-m", "tests.attack.live", json.dumps(options)]

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            self._command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == "ready\n"
        return self

    def stop(self) -> Count:
        """Waits for the answers to the last reviews; returns the counts."""
        output, _ = self._process.communicate(timeout=60)
        return Count(**json.loads(output))

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            self._process.kill()
            self._process.communicate()
