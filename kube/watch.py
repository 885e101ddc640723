"""A collection as the API server has it, followed by list and watch and kept as little of as is needed.

The protocol is that of client-go's reflector: list, watch from the list's resourceVersion on, go on from the
last version that was seen when the connection ends, and list again when that version is too old.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import TYPE_CHECKING, Generic, TypeVar

from kube.api import ApiError, GoneError
from kube.backoff import Backoff

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from kube.api import Object, Stream, WatchApi

T = TypeVar("T")

Key = tuple[str, str]
"""Namespace and name; the namespace is empty for what has none."""

WATCH_SECONDS = (240, 360)
"""How long one watch lasts: a span, so that those of several programs do not all end together."""

SHORT_SECONDS = 1.0
"""A watch that ends sooner, with nothing said, is begun again after a wait only."""

_log = logging.getLogger("kube.watch")


@dataclass(frozen=True, slots=True)
class Listed(Generic[T]):
    """Everything that there is; what was known before is void."""

    items: Mapping[Key, T]


@dataclass(frozen=True, slots=True)
class Changed(Generic[T]):
    """One object is new or different; ``item`` is None when it is gone."""

    key: Key
    item: T | None


@dataclass(frozen=True, slots=True)
class Lost:
    """The API server cannot be followed now, for this reason; what is known may be old."""

    why: str


@dataclass(frozen=True, slots=True)
class Resumed:
    """After `Lost`: the API server is followed again, from where it was."""


@dataclass(slots=True)
class Watch(Generic[T]):
    """The events of a collection, without end.

    Attributes:
        api: The API server; a watch needs one of its own, as it keeps a connection busy.
        path: Of the collection; its query may select by label or field.
        project: Makes what is kept of an object, which must not refer to the object itself; None for
            one that is of no interest, as if it did not exist.
        backoff: Between tries.
        clock: Seconds of a clock that never jumps.
        wait: Waits for the event, so many seconds at most.
    """

    api: WatchApi
    path: str
    project: Callable[[Object], T | None]
    backoff: Backoff = field(default_factory=Backoff)
    clock: Callable[[], float] = time.monotonic
    wait: Callable[[threading.Event, float], bool] = threading.Event.wait
    _version: str = field(default="", init=False)
    _lost: bool = field(default=False, init=False)
    _stream: Stream | None = field(default=None, init=False)
    _stopped: threading.Event = field(default_factory=threading.Event, init=False)

    def stop(self) -> None:
        """End the events, from any thread."""
        self._stopped.set()
        if stream := self._stream:
            stream.close()

    def events(self) -> Iterator[Listed[T] | Changed[T] | Lost | Resumed]:
        """Follow the collection until `stop`. `Listed` comes first; failures are `Lost`, and tried again."""
        while not self._stopped.is_set():
            began = self.clock()
            before = self._version
            try:
                if not before:
                    yield self._list()
                yield from self._changes()
            except GoneError as error:
                _log.info("%s: listing again: %s", self.path, error)
                self._version = ""
            except ApiError as error:
                if not self._stopped.is_set():
                    self._lost = True
                    yield Lost(str(error))
                self._wait()
                continue
            if self._version == before and self.clock() - began < SHORT_SECONDS:
                self._wait()

    def _wait(self) -> None:
        self.wait(self._stopped, self.backoff.next())

    def _list(self) -> Listed[T]:
        items: dict[Key, T] = {}
        version = ""
        for page in self.api.pages(self.path):
            version = page["metadata"]["resourceVersion"]
            for raw in page.get("items") or []:
                item = self.project(raw)
                if item is not None:
                    items[_key(raw)] = item
        self._version, self._lost = version, False
        return Listed(items)

    def _changes(self) -> Iterator[Changed[T] | Resumed]:
        seconds = random.randint(*WATCH_SECONDS)  # noqa: S311 - spreads load, hides nothing
        query = f"watch=1&allowWatchBookmarks=true&resourceVersion={self._version}&timeoutSeconds={seconds}"
        with self.api.stream(f"{self.path}{'&' if '?' in self.path else '?'}{query}") as stream:
            self._stream = stream
            if self._stopped.is_set():  # it was stopped while this one was begun
                return
            if self._lost:
                # Not with the first event: where nothing changes there may be none for a long time.
                self._lost = False
                yield Resumed()
            for event in stream:
                kind, raw = event.get("type"), event.get("object") or {}
                if kind == "ERROR":
                    gone = raw.get("code") == HTTPStatus.GONE
                    raise (GoneError if gone else ApiError)(f"{self.path}: {raw.get('message')}")
                self._version = raw["metadata"]["resourceVersion"]
                self.backoff.reset()
                if kind != "BOOKMARK":
                    yield Changed(_key(raw), None if kind == "DELETED" else self.project(raw))


class Mirror(Generic[T]):
    """A copy of a collection that follows it in a thread; use as a context manager.

    Args:
        watch: Followed from the beginning of the context to its end.
        changed: Called from the thread when what is kept has changed: wake whoever looks at `items`,
            and return.
    """

    def __init__(self, watch: Watch[T], changed: Callable[[], object] = lambda: None) -> None:
        self._watch, self._changed = watch, changed
        self._items: dict[Key, T] = {}
        self._lock = threading.Lock()
        self._listed = threading.Event()
        self._lost = ""
        self._error: Exception | None = None
        self._thread = threading.Thread(target=self._follow, name=f"watch {watch.path}", daemon=True)

    def __enter__(self) -> Mirror[T]:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._watch.stop()
        self._thread.join()

    @property
    def lost(self) -> str:
        """Why the copy may be old; empty while it is followed."""
        return self._lost

    def check(self) -> None:
        """See that the copy is still followed, if only to be told that it is lost.

        Raises:
            RuntimeError: Its thread has ended by a mistake, and nobody follows it again.
        """
        if self._error is not None:
            raise RuntimeError(f"{self._watch.path} is not followed any longer") from self._error

    def wait(self, seconds: float) -> bool:
        """Wait until everything has been listed once; says whether it was."""
        return self._listed.wait(seconds)

    def items(self) -> dict[Key, T]:
        """What there is now; the caller's own dictionary."""
        with self._lock:
            return dict(self._items)

    def _follow(self) -> None:
        try:
            self._copy()
        except Exception as error:  # noqa: BLE001 - an object that could not be read, say: `check` raises it
            self._lost, self._error = "the watch has ended", error
            self._changed()

    def _copy(self) -> None:
        for event in self._watch.events():
            match event:
                case Listed(items):
                    with self._lock:
                        self._items = dict(items)
                    self._lost = ""
                    self._listed.set()
                case Changed(key, item):
                    with self._lock:
                        same = self._items.get(key) == item
                        if item is None:
                            self._items.pop(key, None)
                        else:
                            self._items[key] = item
                    if same:  # nothing of what is kept
                        continue
                case Resumed():
                    self._lost = ""
                case Lost(why):
                    if not self._lost:
                        _log.warning("cannot follow %s: %s", self._watch.path, why)
                    self._lost = why
            self._changed()


def _key(raw: Object) -> Key:
    metadata = raw["metadata"]
    return metadata.get("namespace", ""), metadata["name"]
