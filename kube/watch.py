"""A copy of a collection of the API server, kept up to date by list and watch.

The protocol is that of client-go's reflector: list, watch from the list's resourceVersion, continue from the
last resourceVersion when the connection ends, and list again when that one is too old. The informer of the
``kubernetes`` package keeps whole objects, lists all at once, and does not report that it is cut off or has
recovered, so it is not used.
"""

import logging
import random
import threading
import time
from collections.abc import Callable
from http import HTTPStatus
from typing import TYPE_CHECKING, Generic, Self, TypeVar

from kube.api import ApiError, GoneError, Object
from kube.backoff import waits
from kube.rest import with_query

if TYPE_CHECKING:
    from kube.client import EventStream, KubernetesApi

T = TypeVar("T")

Key = tuple[str, str]
"""Namespace and name; the namespace is empty for an object of the cluster."""

WATCH_SECONDS = (240, 360)
"""Duration of a watch: a range, so that the watches of several programs do not all end together."""

UNSERVED_SECONDS = 60.0
"""Time until the next look for a collection that the API server does not serve."""

STALE_SECONDS = 10.0
"""A copy that was cut off for this long is listed again: missed events arrive one by one, or never."""

SHORT_SECONDS = 1.0
"""A watch that ends sooner and without an event is begun again only after a wait."""

_log = logging.getLogger("kube.watch")


class Mirror(Generic[T]):
    """A copy of a collection that follows it in a thread; use as a context manager.

    Args:
        api: The API server; each mirror needs its own client, because it keeps a connection busy.
        path: The collection's path; its query may select by label or field.
        project: Returns what to keep of an object, which must not refer to the object itself; None ignores
            the object.
        changed: Called from the thread when the copy or `lost` has changed; must wake its reader and return.
        unserved: What follows if the API server does not serve the collection, whose copy is then empty;
            empty for a collection that every API server serves.
        clock: Returns the seconds of a clock that never jumps.
        wait: Waits for the event for at most the given seconds.
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
        self._unserved, self._clock, self._wait, self._waits = unserved, clock, wait, waits()
        self._items: dict[Key, T] = {}
        self._version = self._lost = ""
        self._until = 0.0
        self._served = True
        self._stream: EventStream | None = None
        self._error: Exception | None = None
        self._lock, self._listed, self._stopped = threading.Lock(), threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._follow_safely, name=f"watch {path}", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        self._thread.join()

    @property
    def lost(self) -> str:
        """Why the copy may be stale; empty while it is up to date."""
        return self._lost

    def check(self) -> None:
        """Checks that the thread still runs.

        Raises:
            RuntimeError: The thread has ended by an unexpected error, and the copy stays stale.
        """
        if self._error is not None:
            raise RuntimeError(f"{self._path} is no longer watched") from self._error

    def wait(self, seconds: float) -> bool:
        """Waits until the collection has been listed once; returns whether it was."""
        return self._listed.wait(seconds)

    def items(self) -> dict[Key, T]:
        """Returns the present copy; the dictionary is the caller's own."""
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
            began = self._clock()
            before = self._version = "" if self._stale(began) else self._version
            try:
                if not before and not self._is_served():
                    self._show({})
                    self._wait(self._stopped, UNSERVED_SECONDS)
                    continue
                if not before:
                    self._list()
                self._watch()
            except GoneError as error:
                _log.info("%s: listing again: %s", self._path, error)
                self._version = ""
            except ApiError as error:
                if not self._stopped.is_set():
                    if not self._lost:
                        _log.warning("cannot watch %s: %s", self._path, error)
                        self._note(before, began)
                    self._set_lost(str(error))
                if self._unserved:
                    self._version = ""  # the API server may no longer serve it
                self._wait(self._stopped, next(self._waits))
                continue
            if not self._note(before, began):
                self._wait(self._stopped, next(self._waits))

    def _note(self, before: str, began: float) -> bool:
        """Returns whether the collection was followed: a short watch without an event is not enough."""
        followed = self._version != before or self._clock() - began >= SHORT_SECONDS
        if followed:
            self._until = self._clock()
        return followed

    def _stale(self, now: float) -> bool:
        """Returns whether the copy was cut off for so long that it must be listed again."""
        return bool(self._lost) and now - self._until >= STALE_SECONDS

    def _follow_safely(self) -> None:
        try:
            self.follow()
        except Exception as error:  # noqa: BLE001 - such as an object that is not readable: `check` raises it
            self._error = error
            self._set_lost("the watch has ended")

    def _is_served(self) -> bool:
        """Returns whether the API server serves the collection; logs once that it does not."""
        served = not self._unserved or self._api.get(with_query(self._path, limit="1")) is not None
        if self._served and not served:
            _log.warning("%s is not served: %s", self._path, self._unserved)
        self._served = served
        return served

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
        self._show(items)

    def _show(self, items: dict[Key, T]) -> None:
        with self._lock:
            self._items = items
        self._listed.set()
        self._set_lost("")

    def _watch(self) -> None:
        seconds = random.randint(*WATCH_SECONDS)  # noqa: S311 - spreads load, hides nothing
        query = {"watch": "1", "allowWatchBookmarks": "true", "timeoutSeconds": str(seconds)}
        with self._api.stream(with_query(self._path, resourceVersion=self._version, **query)) as stream:
            self._stream = stream
            if self._stopped.is_set():  # `stop` was called while this stream was begun
                return
            if self._lost:
                # Not with the first event: if nothing changes, there may be none for a long time.
                self._set_lost("")
            for event in stream:
                kind, raw = event.get("type"), event.get("object") or {}
                if kind == "ERROR":
                    gone = raw.get("code") == HTTPStatus.GONE
                    raise (GoneError if gone else ApiError)(f"{self._path}: {raw.get('message')}")
                self._version = raw["metadata"]["resourceVersion"]
                self._waits = waits()
                if kind != "BOOKMARK":
                    self._keep(_key(raw), None if kind == "DELETED" else self._project(raw))

    def _keep(self, key: Key, item: T | None) -> None:
        with self._lock:
            same = self._items.get(key) == item
            if item is not None:
                self._items[key] = item  # also if it is equal: a deletion needs the newest version
            elif not same:
                del self._items[key]
        if not same:
            self._changed()

    def _set_lost(self, lost: str) -> None:
        self._lost = lost
        self._changed()


def _key(raw: Object) -> Key:
    metadata = raw["metadata"]
    return metadata.get("namespace", ""), metadata["name"]
