"""A process that forks for every piece of long work.

It is forked before anything is served, and forks again for each piece, whose child ends with it: what the
work takes in memory goes back to the system, and work without an end is killed. A thread would do neither,
and would hold Python's lock while others wait for their reviews.

Each piece has a socket of its own, which the template hands on to the child: the job goes one way, what came
of it the other, each up to the end of the stream.
"""

import logging
import os
import pickle
import resource
import signal
import socket
import struct
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, NoReturn

import gevent
from gevent.socket import socket as gevent_socket

from webhook.work import BusyError, FailedError, TooLargeError

_SECONDS = struct.Struct("!d")
_PAGE = os.sysconf("SC_PAGE_SIZE")
_CHUNK = 1 << 20

log = logging.getLogger("webhook.work")


class Template:
    """The process, as the one that serves sees it; started again when it is gone."""

    def __init__(self, nice: int, memory: int) -> None:
        self._nice, self._memory = nice, memory
        self._start()

    def run(self, seconds: float, function: Callable[..., Any], *arguments: Any) -> Any:  # noqa: ANN401
        """Have a piece of work done within some seconds; errors as of `webhook.work.Work`."""
        if seconds <= 0:
            raise BusyError
        job = pickle.dumps((function, arguments))
        ours, theirs = socket.socketpair()
        with gevent_socket(fileno=ours.detach()) as pipe:
            with theirs:
                self._hand_over(theirs, seconds)
            try:
                with gevent.Timeout(seconds + 1, TimeoutError("no answer")):
                    pipe.sendall(job)
                    pipe.shutdown(socket.SHUT_WR)
                    told = b"".join(iter(partial(pipe.recv, _CHUNK), b""))
                result, failure = pickle.loads(told)  # noqa: S301 - from this program's own process
            except (OSError, EOFError, pickle.UnpicklingError) as error:
                log.error("the process for long work is given up: %s", error)  # noqa: TRY400
                self._stop()
                raise FailedError("the work was given up") from error
        if failure is not None:
            raise failure
        return result

    def _hand_over(self, pipe: socket.socket, seconds: float) -> None:
        message = [_SECONDS.pack(seconds)]
        try:
            socket.send_fds(self._control, message, [pipe.fileno()])
        except OSError:  # it ended since, and has not begun
            self._stop()
            try:
                self._start()
            except OSError as error:
                raise _no_process(error) from error
            socket.send_fds(self._control, message, [pipe.fileno()])

    def _start(self) -> None:
        self._control, theirs = socket.socketpair()
        self._pid: int | None = None
        with theirs:
            self._pid = os.fork()
            if not self._pid:
                os.nice(self._nice)
                _serve(theirs, self._memory)

    def _stop(self) -> None:
        pid, self._pid = self._pid, None
        self._control.close()
        if pid is not None:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


def _serve(control: socket.socket, memory: int) -> NoReturn:
    """Fork for every piece of work until the other end is closed."""
    try:
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT):
            signal.signal(number, signal.SIG_IGN)  # it ends with the process that it works for
        own = control.fileno()
        os.closerange(3, own)
        os.closerange(own + 1, resource.getrlimit(resource.RLIMIT_NOFILE)[0])
        while (received := socket.recv_fds(control, _SECONDS.size, 1))[0]:
            message, (descriptor,), _, _ = received
            with socket.socket(fileno=descriptor) as pipe, suppress(OSError):  # nobody waits any more
                _see_to(pipe, _SECONDS.unpack(message)[0], memory)
    finally:
        os._exit(0)


def _see_to(pipe: socket.socket, seconds: float, memory: int) -> None:
    """Have a child do a piece of work, and tell its end where the child cannot."""
    try:
        child = os.fork()
    except OSError as error:
        failure: Exception | None = _no_process(error)
    else:
        if not child:
            _work(pipe, seconds, memory)
        failure = _failure(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), seconds, memory)
    if failure:
        while pipe.recv(_CHUNK):
            pass  # a socket that is closed with something unread would reset the other end
        pipe.sendall(pickle.dumps((None, failure)))


def _work(pipe: socket.socket, seconds: float, memory: int) -> NoReturn:
    """Do one piece of work, within time and memory, and tell what came of it."""
    code = 1
    try:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_REAL, seconds)
        try:
            with _limited(memory), pipe.makefile("rb") as job:
                function, arguments = pickle.load(job)  # noqa: S301 - from this program's own process
                result = function(*arguments)
            told = pickle.dumps((result, None))
        except Exception as error:  # noqa: BLE001 - told to the one who waits
            failure = FailedError(traceback.format_exc())
            if isinstance(error, MemoryError) or isinstance(error.__context__, MemoryError):
                failure = _too_large(memory)
            told = pickle.dumps((None, failure))
        pipe.sendall(told)
        code = 0
    finally:
        os._exit(code)


@contextmanager
def _limited(memory: int) -> Iterator[None]:
    """Let this process grow by so many bytes and no more."""
    with open("/proc/self/statm") as found:  # noqa: PTH123 - the shortest way
        most = int(found.read().split()[0]) * _PAGE + memory
    before, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (most if hard < 0 else min(most, hard), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (before, hard))


def _failure(code: int, seconds: float, memory: int) -> FailedError | None:
    """What it means that the process of a piece of work ended so; None if it has told by itself."""
    if code in {-signal.SIGSEGV, -signal.SIGABRT, -signal.SIGBUS}:
        return _too_large(memory)  # a library in C that was refused memory
    if code == -signal.SIGALRM:
        return FailedError(f"it took longer than {seconds:.1f} s")
    return FailedError(f"its process ended with {code}") if code else None


def _too_large(memory: int) -> TooLargeError:
    return TooLargeError(f"it takes more than {memory >> 20} MiB of memory to evaluate")


def _no_process(error: OSError) -> BusyError:
    return BusyError(f"no process can be started: {error}")
