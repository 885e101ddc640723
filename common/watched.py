"""A value that is read from files: it is read again when they change, and kept when they are invalid."""

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
    """Files that cannot be used; the message says why.

    Attributes:
        until: Unix time at which to try the same files again.
    """

    def __init__(self, why: str, until: float = math.inf) -> None:
        super().__init__(why)
        self.until = until


class Watched(Generic[T]):
    """A value and the files it is read from.

    Attributes:
        value: The newest valid value.
        problem: Why the present files cannot be used; empty if they are in use.
        on_change: Called with ``reloaded`` after every reload, and with ``refused`` once for every change
            that cannot be used.
    """

    def __init__(
        self,
        what: str,
        paths: Callable[[], Sequence[Path]],
        load: Callable[[], T],
        log: logging.Logger,
        first: T | None = None,
    ) -> None:
        """Reads the value for the first time.

        Args:
            what: The name of the files in the log.
            paths: Returns the present files; a swapped link, as of a mounted ConfigMap, counts as a change.
            load: Reads and checks the files; raises `UnusableError` or `OSError`.
            log: The logger for changes.
            first: The value until the files are valid; None requires valid files at once.

        Raises:
            UnusableError: The files are invalid, and there is no first value.
            OSError: A file cannot be read.
        """
        self._what, self._paths, self._load, self._log = what, paths, load, log
        self._lock = threading.Lock()
        self.problem, self._again = "", math.inf
        self.on_change: Callable[[str], object] = lambda _: None
        self._seen = self._signature()
        try:
            self.value = load()
        except (UnusableError, OSError) as error:
            if first is None:
                raise
            self.value = first
            self._refuse(error)

    def refresh(self, load: Callable[[], T] | None = None) -> T:
        """Reads changed files, and returns the value; invalid files are not read again until they change.

        One caller reads; the others get the old value meanwhile. A call costs one ``stat`` of each file.

        Args:
            load: Used in place of the one given at the start.

        Returns:
            The value in use.
        """
        changed = self._signature() != self._seen or time.time() >= self._again
        if changed and self._lock.acquire(blocking=False):
            try:
                self._reload(load or self._load)
            finally:
                self._lock.release()
        return self.value

    def _reload(self, load: Callable[[], T]) -> None:
        # Before reading, so that files that change meanwhile are read again.
        signature = self._signature()
        try:
            value = load()
        except (UnusableError, OSError) as error:
            self._refuse(error, news=signature != self._seen or str(error) != self.problem)
        else:
            self.value = value
            self.problem, self._again = "", math.inf
            self._log.warning("reloaded %s", self._what, extra={"file": self._what})
            self.on_change("reloaded")
        self._seen = signature

    def _refuse(self, error: UnusableError | OSError, *, news: bool = True) -> None:
        self.problem, self._again = str(error), error.until if isinstance(error, UnusableError) else math.inf
        if news:
            fields = {"file": self._what, "problem": self.problem}
            self._log.error("keeping %(file)s as it was: %(problem)s", fields, extra=fields)
            self.on_change("refused")

    def _signature(self) -> tuple[tuple[str | int, ...], ...]:
        try:
            paths = self._paths()
        except OSError as error:  # such as a directory that is deleted while it is listed
            return ((error.errno or -1,),)
        return tuple((str(path), *_identity(path)) for path in paths)


def _identity(path: Path) -> tuple[int, ...]:
    """Returns numbers that differ between versions of a file; a missing file has one, too."""
    try:
        stat = os.stat(path)  # noqa: PTH116 - half the cost of Path.stat, at every handshake
    except OSError as error:
        return (error.errno or -1,)
    return (stat.st_ino, stat.st_size, stat.st_mtime_ns)
