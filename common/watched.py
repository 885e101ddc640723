"""Keeps a value that is read from files. Changed files are read again, but invalid files are ignored."""

import logging
import math
import os
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Generic, TypeVar

T = TypeVar("T")


class UnusableError(ValueError):
    """The files cannot be used; the message has the reason.

    Attributes:
        retry_time: The Unix time at which the same files are read again; infinite for never.
    """

    def __init__(self, reason: str, retry_time: float = math.inf) -> None:
        super().__init__(reason)
        self.retry_time = retry_time


class Watched(Generic[T]):
    """A value, and the files from which it is read.

    Attributes:
        value: The newest valid value.
        problem: Why the present files cannot be used; empty if they are in use.
        on_change: Called with ``reloaded`` after every reload, and with ``refused`` once for every change
            that cannot be used.
    """

    def __init__(
        self,
        name: str,
        paths: Callable[[], Sequence[Path]],
        load: Callable[[], T],
        log: logging.Logger,
        first: T | None = None,
    ) -> None:
        """Reads the value for the first time.

        Args:
            name: The name of the files in the log.
            paths: Returns the present files. A swapped link, such as a mounted ConfigMap's, is a change.
            load: Reads and checks the files; raises `UnusableError` or `OSError`.
            log: The logger for changes.
            first: The value until the files are valid; None requires valid files at once.

        Raises:
            UnusableError: The files are invalid, and there is no first value.
            OSError: A file cannot be read, and there is no first value.
        """
        self._name, self._paths, self._load, self._log = name, paths, load, log
        self._lock = threading.Lock()
        self.problem, self._retry_time = "", math.inf
        self.on_change: Callable[[str], object] = lambda _: None
        self._signature_read = self._signature()
        try:
            self.value = load()
        except (UnusableError, OSError) as error:
            if first is None:
                raise
            self.value = first
            self._refuse(error)

    def refresh(self, load: Callable[[], T] | None = None) -> T:
        """Reads changed files, and returns the value.

        Invalid files are read again when they change, or at `UnusableError.retry_time`. While one caller
        reads, other callers get the old value. A call costs a listing and one ``stat`` of each file.

        Args:
            load: Reads the files in this call, in place of the constructor's ``load``.

        Returns:
            The newest valid value.
        """
        has_changed = self._signature() != self._signature_read or time.time() >= self._retry_time
        if has_changed and self._lock.acquire(blocking=False):
            try:
                self._reload(load or self._load)
            finally:
                self._lock.release()
        return self.value

    def _reload(self, load: Callable[[], T]) -> None:
        # Computed before reading, so that files that change meanwhile are read again.
        signature = self._signature()
        try:
            value = load()
        except (UnusableError, OSError) as error:
            self._refuse(error, is_new=signature != self._signature_read or str(error) != self.problem)
        else:
            self.value = value
            self.problem, self._retry_time = "", math.inf
            self._log.warning("reloaded %s", self._name, extra={"file": self._name})
            self.on_change("reloaded")
        self._signature_read = signature

    def _refuse(self, error: UnusableError | OSError, *, is_new: bool = True) -> None:
        self.problem = str(error)
        self._retry_time = error.retry_time if isinstance(error, UnusableError) else math.inf
        if is_new:
            fields = {"file": self._name, "problem": self.problem}
            self._log.error("keeping %(file)s as it was: %(problem)s", fields, extra=fields)
            self.on_change("refused")

    def _signature(self) -> tuple[tuple[str | int, ...], ...]:
        try:
            paths = self._paths()
        except OSError as error:  # such as a directory that is deleted while it is listed
            return ((error.errno or -1,),)
        return tuple((str(path), *_identity(path)) for path in paths)


def _identity(path: Path) -> tuple[int, ...]:
    """Returns numbers that identify a version of a file; a missing file also has a number."""
    try:
        stat = os.stat(path)  # noqa: PTH116 - every TLS handshake waits for this, and Path.stat is slower
    except OSError as error:
        return (error.errno or -1,)
    return (stat.st_ino, stat.st_size, stat.st_mtime_ns)
