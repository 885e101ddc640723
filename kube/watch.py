"""A collection as the API server has it, followed by list and watch and kept as little of as is needed.

The protocol is that of client-go's reflector: list, watch from the list's resourceVersion on, go on from the
last version that was seen when the connection ends, and list again when that version is too old. The
``kubernetes`` package's own informer keeps whole objects, lists them at once, and does not say that it is
cut off, nor that it follows again; so it is not used.
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
"""Namespace and name; the namespace is empty for what has none."""

WATCH_SECONDS = (240, 360)
"""How long one watch lasts: a span, so that those of several programs do not all end together."""

UNSERVED_SECONDS = 60.0
"""After these a collection is looked for again that the API server does not serve."""

STALE_SECONDS = 10.0
"""A copy that was not followed for so long is listed again: what was missed comes one by one, if at all."""

SHORT_SECONDS = 1.0
"""A watch that ends sooner, with nothing said, is begun again after a wait only."""

_log = logging.getLogger("kube.watch")


class Mirror(Generic[T]):
    """A copy of a collection that follows it in a thread; use as a context manager.

    Args:
        api: The API server; a mirror needs one of its own, as it keeps a connection busy.
        path: Of the collection; its query may select by label or field.
        project: Makes what is kept of an object, which must not refer to the object itself; None for
            one that is of no interest, as if it did not exist.
        changed: Called from the thread when what is kept has changed, or `lost` has: wake whoever looks at
            them, and return.
        unserved: What it means that the API server does not serve the collection, which is empty then;
            for one that every API server serves, nothing.
        clock: Seconds of a clock that never jumps.
        wait: Waits for the event, so many seconds at most.
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
        """Why the copy may be old; empty while it is followed."""
        return self._lost

    def check(self) -> None:
        """See that its thread still runs, also while the copy is lost.

        Raises:
            RuntimeError: Its thread has ended by a mistake, and nobody follows it again.
        """
        if self._error is not None:
            raise RuntimeError(f"{self._path} is no longer watched") from self._error

    def wait(self, seconds: float) -> bool:
        """Wait until everything has been listed once; says whether it was."""
        return self._listed.wait(seconds)

    def items(self) -> dict[Key, T]:
        """What there is now; the caller's own dictionary."""
        with self._lock:
            return dict(self._items)

    def stop(self) -> None:
        """End `follow`, from any thread."""
        self._stopped.set()
        if stream := self._stream:
            stream.close()

    def follow(self) -> None:
        """Follow the collection until `stop`: list it, and then watch; failures are tried again."""
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
                    self._say(str(error))
                if self._unserved:
                    self._version = ""  # it may be served no longer
                self._wait(self._stopped, next(self._waits))
                continue
            if not self._note(before, began):
                self._wait(self._stopped, next(self._waits))

    def _note(self, before: str, began: float) -> bool:
        """Remember until when it was followed; a watch that ended at once and said nothing did not."""
        followed = self._version != before or self._clock() - began >= SHORT_SECONDS
        if followed:
            self._until = self._clock()
        return followed

    def _stale(self, now: float) -> bool:
        """Whether it was not followed for long: it counts as followed again once it is listed."""
        return bool(self._lost) and now - self._until >= STALE_SECONDS

    def _follow_safely(self) -> None:
        try:
            self.follow()
        except Exception as error:  # noqa: BLE001 - an object that could not be read, say: `check` raises it
            self._error = error
            self._say("the watch has ended")

    def _is_served(self) -> bool:
        """Whether there is such a collection; that there is none is said once."""
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
        self._say("")

    def _watch(self) -> None:
        seconds = random.randint(*WATCH_SECONDS)  # noqa: S311 - spreads load, hides nothing
        query = {"watch": "1", "allowWatchBookmarks": "true", "timeoutSeconds": str(seconds)}
        with self._api.stream(with_query(self._path, resourceVersion=self._version, **query)) as stream:
            self._stream = stream
            if self._stopped.is_set():  # it was stopped while this one was begun
                return
            if self._lost:
                # Not with the first event: where nothing changes there may be none for a long time.
                self._say("")
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
                self._items[key] = item  # also where it is the same: its version is what a deletion names
            elif not same:
                del self._items[key]
        if not same:
            self._changed()

    def _say(self, lost: str) -> None:
        self._lost = lost
        self._changed()


def _key(raw: Object) -> Key:
    metadata = raw["metadata"]
    return metadata.get("namespace", ""), metadata["name"]
