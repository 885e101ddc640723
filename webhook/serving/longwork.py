"""Long work, one piece at a time in a process of its own, beside the loop that serves.

A template process is forked before anything is served. It forks again for every piece of work, and that child
ends with it: what the work takes in memory goes back to the system, and work without an end is killed. A
thread would do neither, and would hold Python's lock while others wait for their reviews.
"""

from __future__ import annotations

import itertools
import logging
import os
import pickle
import resource
import signal
import struct
import traceback
from bisect import insort
from socket import socketpair
from typing import TYPE_CHECKING, Any, NoReturn

import gevent
from gevent import socket
from gevent.event import Event

from webhook.work import BusyError, FailedError

if TYPE_CHECKING:
    import socket as standard
    from collections.abc import Callable

_LENGTH = struct.Struct("!Q")
_PAGE = os.sysconf("SC_PAGE_SIZE")

log = logging.getLogger("webhook.work")


class LongWork:
    """Does work in the order of its size; callable as `webhook.work.Work`."""

    def __init__(
        self,
        *,
        nice: int = 0,
        seconds: float = 8.0,
        memory: int = 48 * 1024 * 1024,
        waiting: int = 64,
        waiting_bytes: int = 6 * 1024 * 1024,
    ) -> None:
        """Start the template process; to be called before a connection is accepted.

        Args:
            nice: How far it stands behind others where there is one processor.
            seconds: Most time of one piece, in waiting as well as in work; an API server waits for 10.
            memory: Most bytes that one piece may take.
            waiting: Most pieces that wait; above it the largest one is refused.
            waiting_bytes: Most bytes, in sum, that the waiting ones work on.
        """
        self._nice, self._seconds, self._memory = nice, seconds, memory
        self._most, self._most_bytes = waiting, waiting_bytes
        self._number = itertools.count()
        self._waiting: list[tuple[int, int, _Turn]] = []
        self._busy = False
        self._start()

    def __call__(self, size: int, function: Callable[..., Any], *arguments: Any) -> Any:  # noqa: ANN401
        """See `webhook.work.Work`."""
        self._wait(size)
        try:
            return self._done(pickle.dumps((function, arguments)))
        finally:
            self._next()

    def _wait(self, size: int) -> None:
        if not self._busy:
            self._busy = True
            return
        turn = _Turn()
        place = (size, next(self._number), turn)
        insort(self._waiting, place)
        while len(self._waiting) > self._most or sum(at[0] for at in self._waiting) > self._most_bytes:
            self._waiting.pop()[2].refuse()
        if not turn.event.wait(self._seconds):
            self._waiting.remove(place)
            turn.refused = True
        if turn.refused:
            raise BusyError("too much work is waiting; try again")

    def _next(self) -> None:
        self._busy = bool(self._waiting)
        if self._waiting:
            self._waiting.pop(0)[2].event.set()

    def _done(self, job: bytes) -> Any:  # noqa: ANN401
        try:
            with gevent.Timeout(self._seconds + 1, TimeoutError("no answer")):
                _send(self._pipe, job)
                done, result = pickle.loads(self._read())  # noqa: S301 - from this program's own process
        except (OSError, EOFError) as error:
            log.error("starting the process for long work again: %s", error)  # noqa: TRY400
            self._stop()
            self._start()
            raise FailedError("the work was given up") from error
        if not done:
            raise FailedError(result)
        return result

    def _read(self) -> bytes:
        (length,) = _LENGTH.unpack(self._exactly(_LENGTH.size))
        return self._exactly(length)

    def _exactly(self, length: int) -> bytes:
        found = bytearray()
        while len(found) < length:
            part = self._pipe.recv(min(length - len(found), 1 << 20))
            if not part:
                raise EOFError("the process for long work has ended")
            found += part
        return bytes(found)

    def _start(self) -> None:
        ours, theirs = socketpair()
        self._template = os.fork()
        if not self._template:
            os.nice(self._nice)
            _template(theirs, self._seconds, self._memory)
        theirs.close()
        self._pipe = socket.socket(fileno=ours.detach())

    def _stop(self) -> None:
        self._pipe.close()
        os.kill(self._template, signal.SIGKILL)
        os.waitpid(self._template, 0)


class _Turn:
    """A piece of work that waits."""

    def __init__(self) -> None:
        self.event, self.refused = Event(), False

    def __lt__(self, _: object) -> bool:
        return False  # never asked: the numbers before it differ

    def refuse(self) -> None:
        self.refused = True
        self.event.set()


def _template(pipe: standard.socket, seconds: float, memory: int) -> NoReturn:
    """Fork for every piece of work until the other end is closed."""
    try:
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT):
            signal.signal(number, signal.SIG_IGN)  # it ends with the process that it works for
        own = pipe.fileno()
        os.closerange(3, own)
        os.closerange(own + 1, resource.getrlimit(resource.RLIMIT_NOFILE)[0])
        with pipe, pipe.makefile("rb") as jobs:
            while head := jobs.read(_LENGTH.size):
                job = jobs.read(_LENGTH.unpack(head)[0])
                if not (child := os.fork()):
                    _work(pipe, job, seconds, memory)
                _, status = os.waitpid(child, 0)
                if status:
                    reason = f"it took longer than {seconds:g} s"
                    if os.waitstatus_to_exitcode(status) != -signal.SIGALRM:
                        reason = f"its process ended with {os.waitstatus_to_exitcode(status)}"
                    _send(pipe, pickle.dumps((False, reason)))
    finally:
        os._exit(0)


def _work(pipe: standard.socket, job: bytes, seconds: float, memory: int) -> NoReturn:
    """Do one piece of work, within time and memory, and send what came of it."""
    code = 1
    try:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_REAL, seconds)
        with open("/proc/self/statm") as found:  # noqa: PTH123 - the shortest way
            size = int(found.read().split()[0]) * _PAGE
        resource.setrlimit(resource.RLIMIT_AS, (size + memory, -1))
        try:
            function, arguments = pickle.loads(job)  # noqa: S301 - from this program's own process
            result = (True, function(*arguments))
        except MemoryError:
            result = (False, f"it took more than {memory >> 20} MiB of memory")
        except Exception:  # noqa: BLE001 - told to the one who waits
            result = (False, traceback.format_exc())
        resource.setrlimit(resource.RLIMIT_AS, (-1, -1))
        data = pickle.dumps(result)
        signal.setitimer(signal.ITIMER_REAL, 0)
        _send(pipe, data)
        code = 0
    finally:
        os._exit(code)


def _send(pipe: Any, data: bytes) -> None:  # noqa: ANN401 - a socket of either library
    pipe.sendall(_LENGTH.pack(len(data)) + data)
