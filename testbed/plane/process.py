"""Starts child processes with a log, waits until they are ready, and stops them in reverse order."""

import contextlib
import os
import random
import shlex
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, NoReturn, Self

from testbed.waiting import seconds_left

REAPER = Path(__file__).with_name("reaper.py")
TAIL_LINES = 25
# These ports are below the ports of outgoing connections (32768 and up on Linux). A program listens on its
# port only seconds after the port is chosen. Until then, an outgoing connection must not get the port.
PORTS = range(20_000, 32_000)


def with_restarts(command: Sequence[str], before: Sequence[str] = (":",)) -> list[str]:
    """Returns a command that restarts a program whenever it ends, as a kubelet does.

    Args:
        command: The program and its arguments.
        before: A command that runs before each start.
    """
    return ["sh", "-c", f'while :; do {shlex.join(before)}; "$@"; sleep 1; done', "again", *command]


class ClusterError(RuntimeError):
    """The control plane, or a program next to it, did not start."""


_claimed_names: list[socket.socket] = []
"""Sockets that hold the ports that this process has claimed. The kernel closes them when the process ends."""


def _claim(port: int) -> bool:
    """Claims a port on which a program will listen; returns False if a process has already claimed it."""
    name = socket.socket(socket.AF_UNIX)
    try:
        # Like a port of loopback, this abstract name is unique in a network namespace.
        name.bind(f"\0testbed-port-{port}")
    except OSError:
        name.close()
        return False
    _claimed_names.append(name)
    return True


def free_ports(count: int) -> list[int]:
    """Claims and returns free ports of loopback. Each port stays bound until all are found."""
    with contextlib.ExitStack() as sockets:
        ports: list[int] = []
        for port in random.sample(PORTS, len(PORTS)):
            candidate = sockets.enter_context(socket.socket())
            with contextlib.suppress(OSError):
                candidate.bind(("127.0.0.1", port))
                if _claim(port):
                    ports.append(port)
            if len(ports) == count:
                return ports
    raise ClusterError(f"there are not {count} free ports on loopback")


def memory(pid: int, file: str, label: str) -> int:
    """Returns the bytes of a row in a file of ``/proc/PID``, by its label; 0 for a process that has ended."""
    try:
        lines = Path(f"/proc/{pid}/{file}").read_text(encoding="ascii").splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{label}:")), 0)


def max_memory(pid: int) -> int:
    """Returns the maximum memory of a process so far, in bytes; 0 for a process that has ended."""
    return memory(pid, "status", "VmHWM")


class Program:
    """A running child process and its log."""

    def __init__(self, name: str, process: subprocess.Popen[bytes], log: Path) -> None:
        self.name = name
        self.log = log
        self._process = process

    @property
    def pid(self) -> int:
        """The process id, which is also the id of its group."""
        return self._process.pid

    def tail(self) -> str:
        """Returns the last lines of the log."""
        lines = self.log.read_text(encoding="utf-8", errors="replace").splitlines()
        return "\n".join(lines[-TAIL_LINES:])

    def wait_ready(self, probe: Callable[[], bool], timeout: float) -> None:
        """Waits until ``probe`` returns true.

        Raises:
            ClusterError: The program has ended, or is not ready in time; the message quotes the log.
        """
        timeout = seconds_left(timeout)
        deadline = time.monotonic() + timeout
        while not probe():
            with contextlib.suppress(subprocess.TimeoutExpired):
                code = self._process.wait(0.05)
                raise ClusterError(
                    f"{self.name} ended with status {code}; {self.log} ends with:\n{self.tail()}"
                )
            if time.monotonic() > deadline:
                raise ClusterError(
                    f"{self.name} is not ready after {timeout:.0f} s; {self.log} ends with:\n{self.tail()}"
                )

    def stop(self, grace: float) -> None:
        """Sends SIGTERM to the process group, waits ``grace`` seconds, and sends SIGKILL."""
        # SIGKILL is always sent: members of a group, such as a server's workers, may outlive its leader.
        for signal_number, seconds in ((signal.SIGTERM, grace), (signal.SIGKILL, None)):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.pid, signal_number)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(seconds)


class Programs:
    """Starts programs, and stops them in reverse order, even if this process is killed.

    Use it as a context manager. A small reaper process reads from a pipe, and stops the programs when this
    process is killed.

    Args:
        logs: The folder of the logs.
        grace: The seconds between SIGTERM and SIGKILL.
    """

    def __init__(self, logs: Path, grace: float = 10.0) -> None:
        self.logs = logs
        self._grace = grace
        self._running: list[Program] = []
        self._reaper: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self.logs.mkdir(parents=True, exist_ok=True)
        self._reaper = subprocess.Popen(
            [sys.executable, "-S", str(REAPER), str(self._grace)],
            stdin=subprocess.PIPE,
            start_new_session=True,
        )
        return self

    def __exit__(self, *_: object) -> None:
        # After a second Ctrl-C, the reaper stops the programs that are still running.
        while self._running:
            self.stop(self._running[-1])
        if self._reaper and self._reaper.stdin:
            self._reaper.stdin.close()
            self._reaper.wait(30)

    @property
    def running(self) -> list[Program]:
        """The programs that were started and not stopped."""
        return list(self._running)

    def start(
        self,
        name: str,
        command: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
    ) -> Program:
        """Starts a program in a new process group, and appends its output to ``<name>.log``."""
        log = self.logs / f"{name}.log"
        with log.open("ab") as out:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                env=None if env is None else dict(env),
                cwd=cwd,
                start_new_session=True,
            )
        self._notify_reaper("+", process.pid)
        program = Program(name, process, log)
        self._running.append(program)
        return program

    def stop(self, program: Program) -> None:
        """Stops one program."""
        program.stop(self._grace)
        self._running.remove(program)
        self._notify_reaper("-", program.pid)

    def _notify_reaper(self, sign: str, pid: int) -> None:
        pipe: IO[bytes] | None = self._reaper.stdin if self._reaper else None
        if pipe is None:
            raise ClusterError("start and stop programs only inside `with Programs(...)`")
        pipe.write(f"{sign}{pid}\n".encode())
        pipe.flush()


def end_on_signals() -> None:
    """Makes SIGTERM and SIGHUP end this process like Ctrl-C, and SIGINT too if this is a background job."""
    for signal_number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(signal_number, _interrupt)


def wait_for_ctrl_c() -> NoReturn:
    """Waits until Ctrl-C, in short waits.

    A signal that arrives just before a wait is handled only after the wait.
    """
    while True:
        threading.Event().wait(1)


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt
