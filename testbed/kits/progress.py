"""Runs long commands and never keeps quiet for long about them."""

import queue
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

HEARTBEAT_SECONDS = 10.0
LATEST = 100
"""Characters shown of the line that a command printed last."""
TAIL_LINES = 30
PACKAGES = "packages fetched or compiled"
"""What go's lines on standard error are about."""


class PhaseError(RuntimeError):
    """A command of the build failed."""


def say(text: str) -> None:
    """Writes one line at once, even into a pipe."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


class Progress:
    """Runs a known number of phases, with a line for each and a sign of life in between."""

    def __init__(self, phases: int) -> None:
        self._phases = phases
        self._done = 0
        self._start = time.monotonic()

    def phase(
        self, name: str, command: Sequence[str], *, cwd: Path, env: Mapping[str, str], counted: str = ""
    ) -> None:
        """Runs ``command`` to its end.

        Args:
            name: what the phase is called in the report.
            command: the program and its arguments.
            cwd: the folder it runs in.
            env: its whole environment.
            counted: what each line on standard error is about, ``packages`` for example. The number is shown,
                and standard output is ignored.

        Raises:
            PhaseError: the command failed; the message ends with what it said last.
        """
        self._done += 1
        began = time.monotonic()
        # Where nothing is counted, some programs say on standard output what is wrong: debootstrap does.
        out, err = (subprocess.DEVNULL, subprocess.PIPE) if counted else (subprocess.PIPE, subprocess.STDOUT)
        with subprocess.Popen(
            command, cwd=cwd, env=dict(env), stdout=out, stderr=err, text=True, errors="replace"
        ) as process:
            try:
                lines = self._follow(name, process, began, counted)
            except BaseException:
                process.kill()  # unshare ignores SIGTERM
                raise
        if process.returncode:
            raise PhaseError(f"{name}: {' '.join(command)} failed:\n" + "\n".join(lines[-TAIL_LINES:]))
        self._line(name, f"done in {time.monotonic() - began:.1f} s{_number(lines, counted)}")

    def _follow(self, name: str, process: subprocess.Popen[str], began: float, counted: str) -> list[str]:
        stream = process.stderr or process.stdout
        if stream is None:
            raise PhaseError(f"{name}: no output to follow")
        news: queue.Queue[str | None] = queue.Queue()
        reader = threading.Thread(target=_read, args=(stream, news), daemon=True)
        reader.start()
        lines: list[str] = []
        spoken = began
        while True:
            now = time.monotonic()
            if now - spoken >= HEARTBEAT_SECONDS:
                spoken = now
                latest = f", now {lines[-1][:LATEST]}" if lines else ""
                self._line(name, f"working{_number(lines, counted)}{latest}")
            try:
                line = news.get(timeout=1)
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


def _read(stream: IO[str], news: queue.Queue[str | None]) -> None:
    for line in stream:
        news.put(line.rstrip("\n"))
    news.put(None)
