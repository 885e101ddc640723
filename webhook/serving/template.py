"""A process that forks for every piece of long work.

It is forked before anything is served, and forks again for each piece, whose child ends with it: what the
work takes in memory goes back to the system, and work without an end is killed. A thread would do neither,
and would hold Python's lock while others wait for their reviews.
"""

from __future__ import annotations

import enum
import logging
import os
import pickle
import resource
import signal
import struct
import traceback
from socket import socketpair
from typing import TYPE_CHECKING, Any, NoReturn

import gevent
from gevent import socket

from webhook.work import BusyError, FailedError, TooLargeError

if TYPE_CHECKING:
    import socket as standard

_JOB = struct.Struct("!dQ")
"""Before a job: the seconds that it may take, and its length."""
_LENGTH = struct.Struct("!Q")
_PAGE = os.sysconf("SC_PAGE_SIZE")

log = logging.getLogger("webhook.work")


class _End(enum.Enum):
    """How a piece of work ended."""

    DONE = enum.auto()
    TOO_LARGE = enum.auto()
    FAILED = enum.auto()
    BUSY = enum.auto()


_ERRORS = {_End.TOO_LARGE: TooLargeError, _End.FAILED: FailedError, _End.BUSY: BusyError}


class Template:
    """The process, as the one that serves sees it; started again when it is gone."""

    def __init__(self, nice: int, memory: int) -> None:
        self._nice, self._memory = nice, memory
        self._pid: int | None = None
        self._start()

    def run(self, job: bytes, seconds: float) -> Any:  # noqa: ANN401
        """Have a piece of work done.

        Args:
            job: A pickled function and its arguments.
            seconds: That it may take.

        Raises:
            BusyError: There is no time left, or no process can be started now.
            TooLargeError, FailedError: As `webhook.work.Work`.
        """
        if seconds <= 0:
            raise BusyError
        head = _JOB.pack(seconds, len(job))
        try:
            self._send(head, job)
            with gevent.Timeout(seconds + 1, TimeoutError("no answer")):
                end, result = pickle.loads(self._read())  # noqa: S301 - from this program's own process
        except (OSError, EOFError, pickle.UnpicklingError) as error:
            log.error("the process for long work is given up: %s", error)  # noqa: TRY400
            self._stop()
            raise FailedError("the work was given up") from error
        except BaseException:  # its peer had to go, and its answer must not be taken for another one's
            self._stop()
            raise
        if end is not _End.DONE:
            raise _ERRORS[end](result)
        return result

    def _send(self, head: bytes, job: bytes) -> None:
        if self._pid is not None:
            try:
                self._pipe.sendall(head + job)
            except OSError:  # it ended since, and has not begun
                self._stop()
        if self._pid is None:
            try:
                self._start()
            except OSError as error:
                raise BusyError(f"no process can be started: {error}") from error
            self._pipe.sendall(head + job)

    def _read(self) -> bytes:
        return self._exactly(_LENGTH.unpack(self._exactly(_LENGTH.size))[0])

    def _exactly(self, length: int) -> bytes:
        found = bytearray()
        while len(found) < length:
            part = self._pipe.recv(min(length - len(found), 1 << 20))
            if not part:
                raise EOFError("it has ended")
            found += part
        return bytes(found)

    def _start(self) -> None:
        ours, theirs = socketpair()
        try:
            self._pid = os.fork()
        except OSError:
            ours.close()
            theirs.close()
            raise
        if not self._pid:
            os.nice(self._nice)
            _serve(theirs, self._memory)
        theirs.close()
        self._pipe = socket.socket(fileno=ours.detach())

    def _stop(self) -> None:
        pid, self._pid = self._pid, None
        if pid is not None:
            self._pipe.close()
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


def _serve(pipe: standard.socket, memory: int) -> NoReturn:
    """Fork for every piece of work until the other end is closed."""
    try:
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT):
            signal.signal(number, signal.SIG_IGN)  # it ends with the process that it works for
        own = pipe.fileno()
        os.closerange(3, own)
        os.closerange(own + 1, resource.getrlimit(resource.RLIMIT_NOFILE)[0])
        with pipe, pipe.makefile("rb") as jobs:
            while head := jobs.read(_JOB.size):
                seconds, length = _JOB.unpack(head)
                answer = _forked(jobs.read(length), seconds, memory)
                pipe.sendall(_LENGTH.pack(len(answer)) + answer)
    finally:
        os._exit(0)


def _forked(job: bytes, seconds: float, memory: int) -> bytes:
    """The pickled end of a piece of work, told by its process, or by how that process ended."""
    reading, writing = os.pipe()
    try:
        child = os.fork()
    except OSError as error:
        os.close(reading)
        os.close(writing)
        return pickle.dumps((_End.BUSY, f"no process can be started: {error}"))
    if not child:
        _work(writing, job, seconds, memory)
    os.close(writing)
    with os.fdopen(reading, "rb") as told:
        answer = told.read()
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return pickle.dumps(_ended(code, seconds, memory)) if code else answer


def _work(pipe: int, job: bytes, seconds: float, memory: int) -> NoReturn:
    """Do one piece of work, within time and memory, and tell what came of it."""
    code = 1
    try:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_REAL, seconds)
        with open("/proc/self/statm") as found:  # noqa: PTH123 - the shortest way
            size = int(found.read().split()[0]) * _PAGE
        before, hard = resource.getrlimit(resource.RLIMIT_AS)
        most = size + memory
        resource.setrlimit(resource.RLIMIT_AS, (most if hard < 0 else min(most, hard), hard))
        try:
            function, arguments = pickle.loads(job)  # noqa: S301 - from this program's own process
            end = (_End.DONE, function(*arguments))
        except Exception as error:  # noqa: BLE001 - told to the one who waits
            end = (_End.FAILED, traceback.format_exc())
            if isinstance(error, MemoryError) or isinstance(error.__context__, MemoryError):
                end = _too_large(memory)
        resource.setrlimit(resource.RLIMIT_AS, (before, hard))
        with os.fdopen(pipe, "wb") as told:
            told.write(_pickled(end))
        code = 0
    finally:
        os._exit(code)


def _pickled(end: tuple[_End, Any]) -> bytes:
    try:
        return pickle.dumps(end)
    except Exception:  # noqa: BLE001 - told to the one who waits
        return pickle.dumps((_End.FAILED, traceback.format_exc()))


def _ended(code: int, seconds: float, memory: int) -> tuple[_End, str]:
    """What it means that the process of a piece of work ended without a word."""
    if code in {-signal.SIGSEGV, -signal.SIGABRT, -signal.SIGBUS}:
        return _too_large(memory)  # a library in C that was refused memory
    if code == -signal.SIGALRM:
        return _End.FAILED, f"it took longer than {seconds:.1f} s"
    return _End.FAILED, f"its process ended with {code}"


def _too_large(memory: int) -> tuple[_End, str]:
    return _End.TOO_LARGE, f"it takes more than {memory >> 20} MiB of memory to evaluate"
