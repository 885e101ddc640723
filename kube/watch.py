"""Keeps a copy of a collection of the API server up to date, with list and watch.

Like client-go's reflector, a mirror lists a collection, and watches from the list's resourceVersion. When the
connection ends, it watches from the last resourceVersion. If that is too old, it lists again. The informer of
the ``kubernetes`` package is not used: it keeps whole objects, lists all at once, and does not report that it
has lost or restored the connection.
"""

import logging
import random
import threading
import time
from collections.abc import Callable
from http import HTTPStatus
from typing import TYPE_CHECKING, Generic, Self, TypeVar

from kube import messages
from kube.api import ApiError, GoneError, Object
from kube.backoff import waits
from kube.rest import with_query

if TYPE_CHECKING:
    from kube.client import EventStream, KubernetesApi

T = TypeVar("T")

Key = tuple[str, str]
"""Namespace and name. The namespace of a cluster-scoped object is empty."""

WATCH_SECONDS = (240, 360)
"""The range of the duration of a watch, so that the watches of several programs end at different times."""

NOT_SERVED_SECONDS = 60.0
"""The time between two attempts to list a collection that the API server does not serve."""

STALE_SECONDS = 10.0
"""The time without a watch after which a mirror lists again: a watch may send missed events late or never."""

SHORT_SECONDS = 1.0
"""A watch that ends within this time and without an event begins again only after a wait."""

_log = logging.getLogger("kube.watch")


class Mirror(Generic[T]):
    """A copy of a collection, which a thread keeps up to date. Use it as a context manager.

    Args:
        api: The API server; each mirror needs its own client, because it keeps a connection busy.
        path: The collection's path, whose query may select by label or field.
        project: Returns the item to keep for an object; None ignores the object. The item must not refer to
            the object.
        changed: Called in the thread when the copy or `stale_reason` has changed; it must wake the reader and
            return at once.
        unserved: A text for the log: what the program does if the API server does not serve the collection.
            The copy is then empty. Without this text, it is an error if the collection is not served.
        clock: Returns the seconds of a monotonic clock.
        wait: Waits for the event, up to a number of seconds.
    """

    def __init__(  # noqa: PLR0913 - the last two are for tests
        self,
        api: "KubernetesApi",
        path: str,
        project: Callable[[Object], T | None],
        changed: Callable[[], object] = lambda: None,
        *,
        unserved: str = "",
        clock: Callable[[], float] = time.monotonic,
        wait: Callable[[threading.Event, float], bool] = threading.Event.wait,
    ) -> None:
        self._api, self._path, self._project, self._changed = api, path, project, changed
        self._effect_if_unserved, self._clock, self._wait, self._waits = unserved, clock, wait, waits()
        self._items: dict[Key, T] = {}
        self._version = self._stale_reason = ""
        self._last_progress_time = 0.0
        self._was_served = True
        self._stream: EventStream | None = None
        self._error: Exception | None = None
        self._lock, self._listed_event, self._stopped = threading.Lock(), threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._follow_safely, name=f"watch {path}", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        self._thread.join()

    @property
    def stale_reason(self) -> str:
        """Why the copy may be stale; empty while it is up to date, and before the first try to list."""
        return self._stale_reason

    def check(self) -> None:
        """Raises the error with which the thread has ended, if any.

        Raises:
            RuntimeError: The thread has ended with an unexpected error, and the copy stays stale.
        """
        if self._error is not None:
            raise RuntimeError(messages.not_watched(self._path)) from self._error

    def wait(self, seconds: float) -> bool:
        """Waits until the collection was listed, for at most ``seconds``; returns whether it was listed."""
        return self._listed_event.wait(seconds)

    def items(self) -> dict[Key, T]:
        """Returns the present copy, as a dictionary that the caller may change."""
        with self._lock:
            return dict(self._items)

    def stop(self) -> None:
        """Ends `follow`, from any thread."""
        self._stopped.set()
        if stream := self._stream:
            stream.close()

    def follow(self) -> None:
        """Lists and watches the collection until `stop`; tries again after errors."""
        while not self._stopped.is_set():
            start = self._clock()
            version = self._version = "" if self._must_list(start) else self._version
            try:
                if not version and not self._is_served():
                    self._replace_items({})
                    self._wait(self._stopped, NOT_SERVED_SECONDS)
                    continue
                if not version:
                    self._list()
                self._watch()
            except GoneError as error:
                _log.info("%s: listing again: %s", self._path, error)
                self._version = ""
            except ApiError as error:
                if not self._stopped.is_set():
                    if not self._stale_reason:
                        _log.warning("cannot watch %s: %s", self._path, error)
                        self._note_progress(version, start)
                    self._set_stale_reason(str(error))
                if self._effect_if_unserved:
                    self._version = ""  # the API server may no longer serve the collection
                self._wait(self._stopped, next(self._waits))
                continue
            if not self._note_progress(version, start):
                self._wait(self._stopped, next(self._waits))

    def _note_progress(self, old_version: str, start: float) -> bool:
        """Returns whether the watch had an event or lasted for `SHORT_SECONDS`. If so, stores the time."""
        has_progress = self._version != old_version or self._clock() - start >= SHORT_SECONDS
        if has_progress:
            self._last_progress_time = self._clock()
        return has_progress

    def _must_list(self, now: float) -> bool:
        """Returns whether the copy had no watch for so long that the collection must be listed again."""
        return bool(self._stale_reason) and now - self._last_progress_time >= STALE_SECONDS

    def _follow_safely(self) -> None:
        try:
            self.follow()
        except Exception as error:  # noqa: BLE001 - `check` raises it in the caller's thread
            self._error = error
            self._set_stale_reason(messages.WATCH_ENDED)

    def _is_served(self) -> bool:
        """Returns whether the API server serves the collection; if it does not, logs this once."""
        path = with_query(self._path, limit="1")
        is_served = not self._effect_if_unserved or self._api.get(path) is not None
        if self._was_served and not is_served:
            _log.warning("%s is not served: %s", self._path, self._effect_if_unserved)
        self._was_served = is_served
        return is_served

    def _list(self) -> None:
        items: dict[Key, T] = {}
        version = ""
        for page in self._api.pages(self._path):
            version = page["metadata"]["resourceVersion"]
            for raw in page.get("items") or []:
                item = self._project(raw)
                if item is not None:
                    items[_key(raw)] = item
        self._version = version
        self._replace_items(items)

    def _replace_items(self, items: dict[Key, T]) -> None:
        with self._lock:
            self._items = items
        self._listed_event.set()
        self._set_stale_reason("")

    def _watch(self) -> None:
        seconds = random.randint(*WATCH_SECONDS)  # noqa: S311 - spreads load, hides nothing
        query = {"watch": "1", "allowWatchBookmarks": "true", "timeoutSeconds": str(seconds)}
        with self._api.stream(with_query(self._path, resourceVersion=self._version, **query)) as stream:
            self._stream = stream
            if self._stopped.is_set():  # `stop` was called while this stream began
                return
            if self._stale_reason:
                # Do not wait for an event: if nothing changes, there may be none for a long time.
                self._set_stale_reason("")
            for event in stream:
                kind, raw = event.get("type"), event.get("object") or {}
                if kind == "ERROR":
                    is_gone = raw.get("code") == HTTPStatus.GONE
                    raise (GoneError if is_gone else ApiError)(f"{self._path}: {raw.get('message')}")
                self._version = raw["metadata"]["resourceVersion"]
                self._waits = waits()
                if kind != "BOOKMARK":
                    self._store(_key(raw), None if kind == "DELETED" else self._project(raw))

    def _store(self, key: Key, item: T | None) -> None:
        with self._lock:
            is_equal = self._items.get(key) == item
            if item is not None:
                self._items[key] = item  # also if it is equal: some fields are not compared
            elif not is_equal:
                del self._items[key]
        if not is_equal:
            self._changed()

    def _set_stale_reason(self, reason: str) -> None:
        self._stale_reason = reason
        self._changed()


def _key(raw: Object) -> Key:
    metadata = raw["metadata"]
    return metadata.get("namespace", ""), metadata["name"]
