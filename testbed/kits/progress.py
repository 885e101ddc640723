"""Runs long commands, and reports their progress."""

import queue
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

HEARTBEAT_SECONDS = 10.0
"""The time between two reports of the progress of a phase."""
MAX_LINE = 100
"""The maximum length of the command's latest line in a report."""
TAIL_LINES = 30
"""The number of last lines of a failed command in the error."""
PACKAGES = "packages fetched or compiled"
"""The meaning of a line that go writes to standard error."""


class PhaseError(RuntimeError):
    """A command of the build failed."""


def say(text: str) -> None:
    """Writes a line, and flushes it, because a pipe would delay it."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


class Progress:
    """Runs a known number of phases. Reports each phase, and the progress of long phases."""

    def __init__(self, phases: int) -> None:
        self._phases = phases
        self._done = 0
        self._start = time.monotonic()

    def phase(
        self, name: str, command: Sequence[str], *, cwd: Path, env: Mapping[str, str], counted: str = ""
    ) -> None:
        """Runs ``command`` to its end.

        Args:
            name: The name of the phase in the report.
            command: The program and its arguments.
            cwd: The folder in which it runs.
            env: The complete environment.
            counted: The meaning of a line on standard error, for example ``packages``. With it, the report
                has the number of these lines, and standard output is ignored.

        Raises:
            PhaseError: The command has failed; the message ends with its last lines.
        """
        self._done += 1
        start = time.monotonic()
        # Some programs, such as debootstrap, write errors to standard output.
        out, err = (subprocess.DEVNULL, subprocess.PIPE) if counted else (subprocess.PIPE, subprocess.STDOUT)
        with subprocess.Popen(
            command, cwd=cwd, env=dict(env), stdout=out, stderr=err, text=True, errors="replace"
        ) as process:
            try:
                lines = self._follow(name, process, start, counted)
            except BaseException:
                process.kill()  # unshare ignores SIGTERM
                raise
        if process.returncode:
            raise PhaseError(f"{name}: {' '.join(command)} failed:\n" + "\n".join(lines[-TAIL_LINES:]))
        self._line(name, f"done in {time.monotonic() - start:.1f} s{_number(lines, counted)}")

    def _follow(self, name: str, process: subprocess.Popen[str], start: float, counted: str) -> list[str]:
        stream = process.stderr or process.stdout
        if stream is None:
            raise PhaseError(f"{name}: no output to follow")
        output: queue.Queue[str | None] = queue.Queue()
        reader = threading.Thread(target=_read, args=(stream, output), daemon=True)
        reader.start()
        lines: list[str] = []
        last_report = start
        while True:
            now = time.monotonic()
            if now - last_report >= HEARTBEAT_SECONDS:
                last_report = now
                latest = f", now {lines[-1][:MAX_LINE]}" if lines else ""
                self._line(name, f"working{_number(lines, counted)}{latest}")
            try:
                line = output.get(timeout=1)
            except queue.Empty:
                continue
            if line is None:
                reader.join()
                return lines
            lines.append(line)

    def _line(self, name: str, text: str) -> None:
        elapsed = time.monotonic() - self._start
        say(f"[{self._done}/{self._phases}] {elapsed:5.0f} s  {name:<24} {text}")


def _number(lines: list[str], counted: str) -> str:
    return f", {len(lines)} {counted}" if counted else ""


def _read(stream: IO[str], output: queue.Queue[str | None]) -> None:
    for line in stream:
        output.put(line.rstrip("\n"))
    output.put(None)
