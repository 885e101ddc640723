"""A value that is read from files: read again when they change, kept when they are broken."""

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
        until: Unix time at which it is worth to try the same files again.
    """

    def __init__(self, why: str, until: float = math.inf) -> None:
        super().__init__(why)
        self.until = until


class Watched(Generic[T]):
    """A value and the files it is read from.

    Attributes:
        value: The newest that could be used.
        problem: Why the files, as they are now, cannot be used; empty when they are in use.
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
        """Read it for the first time.

        Args:
            what: What it is, for the log.
            paths: The files now; a link that is swapped, as for a mounted ConfigMap, counts as a change.
            load: Reads and checks them; it raises `UnusableError` or `OSError`.
            log: Where changes are logged.
            first: What is in use until the files can be used; None: they have to be used at once.

        Raises:
            UnusableError: There is no last good value to keep.
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
        """Read changed files; what could not be used before is not read again until it changes.

        One caller reads; the others have the value so far. It costs one look at each file.

        Args:
            load: Stands for the one given at the start.

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
        # Taken before reading: files that change meanwhile differ from it, and are read again.
        seen = self._signature()
        try:
            value = load()
        except (UnusableError, OSError) as error:
            self._refuse(error, news=seen != self._seen or str(error) != self.problem)
        else:
            self.value = value
            self.problem, self._again = "", math.inf
            self._log.warning("reloaded %s", self._what, extra={"file": self._what})
            self.on_change("reloaded")
        self._seen = seen

    def _refuse(self, error: UnusableError | OSError, *, news: bool = True) -> None:
        self.problem, self._again = str(error), error.until if isinstance(error, UnusableError) else math.inf
        if news:
            fields = {"file": self._what, "problem": self.problem}
            self._log.error("keeping %(file)s as it was: %(problem)s", fields, extra=fields)
            self.on_change("refused")

    def _signature(self) -> tuple[tuple[str | int, ...], ...]:
        try:
            paths = self._paths()
        except OSError as error:  # a directory that goes away while it is listed
            return ((error.errno or -1,),)
        return tuple((str(path), *_identity(path)) for path in paths)


def _identity(path: Path) -> tuple[int, ...]:
    """What tells one version of a file from another; a missing file has one, too."""
    try:
        found = os.stat(path)  # noqa: PTH116 - half the cost of Path.stat, and asked for every handshake
    except OSError as error:
        return (error.errno or -1,)
    return (found.st_ino, found.st_size, found.st_mtime_ns)
