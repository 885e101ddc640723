"""Child processes on loopback: started with a log, watched until ready, stopped in reverse order."""

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

from testbed.waiting import left

REAPER = Path(__file__).with_name("reaper.py")
TAIL_LINES = 25
# Below the range that outgoing connections take their ports from (32768 and up on Linux): between choosing
# a port and listening on it lie seconds, in which a client of something else could get it.
PORTS = range(20_000, 32_000)


def supervised(command: Sequence[str], before: Sequence[str] = (":",)) -> list[str]:
    """Returns a command that starts a program whenever it has ended, as a Deployment does with its container.

    Args:
        command: the program.
        before: what is run each time before it.
    """
    return ["sh", "-c", f'while :; do {shlex.join(before)}; "$@"; sleep 1; done', "again", *command]


class ClusterError(RuntimeError):
    """The control plane, or a program next to it, did not start."""


_claims: list[socket.socket] = []
"""Names of the ports that this process was given; the kernel takes them back when it ends."""


def _claimed(port: int) -> bool:
    """Returns whether no other process was given a port: it may listen on it only seconds later."""
    name = socket.socket(socket.AF_UNIX)
    try:
        # Like a port of loopback, such a name is one network namespace's.
        name.bind(f"\0testbed-port-{port}")
    except OSError:
        name.close()
        return False
    _claims.append(name)
    return True


def free_ports(count: int) -> list[int]:
    """Returns free ports of loopback, which were not given before; all are held until the last is found."""
    with contextlib.ExitStack() as held:
        ports: list[int] = []
        for port in random.sample(PORTS, len(PORTS)):
            candidate = held.enter_context(socket.socket())
            with contextlib.suppress(OSError):
                candidate.bind(("127.0.0.1", port))
                if _claimed(port):
                    ports.append(port)
            if len(ports) == count:
                return ports
    raise ClusterError(f"no {count} free ports on loopback")


def memory(pid: int, file: str, label: str) -> int:
    """Returns bytes, from a file of ``/proc`` about a process and a label in it; 0 for one that has ended."""
    try:
        lines = Path(f"/proc/{pid}/{file}").read_text(encoding="ascii").splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{label}:")), 0)


def most_memory(pid: int) -> int:
    """Bytes of memory that a process held at most so far; 0 for one that has ended."""
    return memory(pid, "status", "VmHWM")


class Program:
    """One running child process and its log."""

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
            ClusterError: the program ended, or the time is over; the message quotes the log.
        """
        timeout = left(timeout)
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
        """Sends SIGTERM to the whole group, waits, and sends SIGKILL."""
        # SIGKILL in any case: a group may outlive its leader, a server's own workers for example.
        for sign, patience in ((signal.SIGTERM, grace), (signal.SIGKILL, None)):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.pid, sign)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(patience)


class Programs:
    """Starts programs and stops them in reverse order, even when this process gets no chance to.

    Use as a context manager. A small reaper process holds the other end of a pipe, and cleans up when this
    process is killed.

    Args:
        logs: the folder of the logs.
        grace: how many seconds a program gets between SIGTERM and SIGKILL.
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
        # A second Ctrl-C must not leave half of them behind; the reaper would, but later and in silence.
        while self._running:
            self.stop(self._running[-1])
        if self._reaper and self._reaper.stdin:
            self._reaper.stdin.close()
            self._reaper.wait(30)

    @property
    def running(self) -> list[Program]:
        """Those that were started and not stopped."""
        return list(self._running)

    def start(
        self,
        name: str,
        command: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
    ) -> Program:
        """Starts a program in a process group of its own, with its output added to ``<name>.log``."""
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
        self._tell("+", process.pid)
        program = Program(name, process, log)
        self._running.append(program)
        return program

    def stop(self, program: Program) -> None:
        """Stops one program before its turn."""
        program.stop(self._grace)
        self._running.remove(program)
        self._tell("-", program.pid)

    def _tell(self, sign: str, pid: int) -> None:
        pipe: IO[bytes] | None = self._reaper.stdin if self._reaper else None
        if pipe is None:
            raise ClusterError("programs are started and stopped inside `with Programs(...)` only")
        pipe.write(f"{sign}{pid}\n".encode())
        pipe.flush()


def end_as_by_ctrl_c() -> None:
    """Has `kill` and a closed terminal end this as cleanly as Ctrl-C, which background jobs would ignore."""
    for sign in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(sign, _interrupt)


def wait_for_ctrl_c() -> NoReturn:
    """Waits for it, forever.

    A signal that comes just before a wait begins does not end it: it is looked at when the wait is over.
    """
    while True:
        threading.Event().wait(1)


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt
