"""An API server in memory. It passes the tests of `tests.kube.contract`, as the real API server does."""

from __future__ import annotations

import copy
import re
import threading
import uuid
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

import jsonpatch

from kube.api import ApiError, ConflictError, ForbiddenError, Object

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
MAX_WAIT_SECONDS = 30
"""The maximum time that a watch waits for an event. A longer wait is a mistake in the test."""

_COLLECTION = re.compile(r"(?P<version>/api/v1|/apis/[^/]+/[^/]+)(/namespaces/(?P<namespace>[^/]+))?/[^/]+")


@dataclass
class FakeApi:
    """Stores objects by path, and has the methods of `kube.client.KubernetesApi`.

    Attributes:
        objects: The stored objects. Watches have no events for changes that a test makes here directly.
        writes: The verb and the object's name of each write that succeeded.
        paths: The path of every list in pages and of every watch, in order.
        refuse: A call is forbidden if ``VERB PATH`` contains this text. The verb of lists and watches is GET.
        before_write: Called once, before the next write. It can write as another client.
        idle: Called when a watch has no more events, instead of waiting for another thread to write.
        page: The number of objects in a page of a list.
    """

    objects: dict[str, Object] = field(default_factory=dict)
    writes: list[str] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    refuse: str = ""
    before_write: Callable[[], object] | None = None
    idle: Callable[[], object] | None = None
    page: int = 500
    # Versions begin at 100, so that version 1 is too old.
    _version: int = 100
    _oldest: int = 100
    _history: list[tuple[int, str, Object | None, Object | None]] = field(default_factory=list)
    _changed: threading.Condition = field(default_factory=threading.Condition)
    _streams: list[FakeStream] = field(default_factory=list)

    def get(self, path: str) -> Object | None:
        """Returns an object or a list (see `kube.rest.RestApi`, also for the other methods)."""
        self._refuse(f"GET {path}")
        if path in self.objects:
            return copy.deepcopy(self.objects[path])
        return self._list(path) if _COLLECTION.fullmatch(urlsplit(path).path) else None

    def create(self, path: str, document: Object) -> Object:
        """Creates an object, and returns it."""
        self._begin_write()
        if not document.get("metadata", {}).get("name"):
            raise ApiError(f"POST {path}: 422 name is required")
        object_path = f"{path}/{document['metadata']['name']}"
        self._refuse(f"POST {object_path}")
        if "resourceVersion" in document["metadata"]:
            raise ApiError(
                f"POST {object_path}: 500 resourceVersion should not be set on objects to be created"
            )
        with self._changed:
            if object_path in self.objects:
                raise ConflictError(f"POST {object_path}: 409 already exists")
            created = copy.deepcopy(document)
            created["metadata"] |= {"uid": str(uuid.UUID(int=self._version))}
            collection = _COLLECTION.fullmatch(path)
            if collection and collection["namespace"]:
                created["metadata"]["namespace"] = collection["namespace"]
            return self._finish_write("POST", object_path, created)

    def replace(self, path: str, document: Object) -> Object:
        """Replaces an object, and returns it."""
        self._begin_write()
        self._refuse(f"PUT {path}")
        with self._changed:
            return self._update("PUT", path, copy.deepcopy(document))

    def patch(self, path: str, operations: list[Object]) -> Object:
        """Applies a JSON patch to an object, and returns the object."""
        self._begin_write()
        self._refuse(f"PATCH {path}")
        with self._changed:
            if path not in self.objects:
                raise ConflictError(f"PATCH {path}: 404 not found")
            try:
                patched = jsonpatch.apply_patch(self.objects[path], operations)
            except (jsonpatch.JsonPatchException, jsonpatch.JsonPointerException) as error:
                raise ApiError(f"PATCH {path}: 422 {error}") from error
            return self._update("PATCH", path, patched)

    def delete(
        self, path: str, preconditions: Mapping[str, str] | None = None, *, grace_seconds: int | None = None
    ) -> None:
        """Deletes an object at once."""
        del grace_seconds
        self._begin_write()
        self._refuse(f"DELETE {path}")
        with self._changed:
            if path not in self.objects:
                return
            metadata = self.objects[path]["metadata"]
            if any(metadata[key] != value for key, value in (preconditions or {}).items()):
                raise ConflictError(f"DELETE {path}: 409 has changed")
            self.remove(path)
            self.writes.append(f"DELETE {path.rsplit('/', 1)[1]}")

    def pages(self, path: str) -> Iterator[Object]:
        """Yields the pages of a collection."""
        self.paths.append(path)
        self._refuse(f"GET {path}")
        full_list = self._list(path)
        for start in range(0, max(len(full_list["items"]), 1), self.page):
            yield {**full_list, "items": full_list["items"][start : start + self.page]}

    @contextmanager
    def stream(self, path: str) -> Iterator[FakeStream]:
        """Begins a watch, and yields its events."""
        self.paths.append(path)
        self._refuse(f"GET {path}")
        stream = FakeStream(self, path)
        self._streams.append(stream)
        try:
            yield stream
        finally:
            self._streams.remove(stream)

    # ---- Changes by other clients, and faults of the API server --------------------------------------------

    def put(self, path: str, document: Object) -> None:
        """Writes an object as another client, and ignores its version."""
        self._store(path, copy.deepcopy(document))

    def remove(self, path: str) -> None:
        """Deletes an object as another client."""
        with self._changed:
            self._version += 1
            deleted = copy.deepcopy(self.objects.pop(path))
            deleted["metadata"]["resourceVersion"] = str(self._version)
            self._history.append((self._version, path, deleted, None))
            self._changed.notify_all()

    def forget(self) -> None:
        """Makes all versions before the present version too old for watches."""
        with self._changed:
            self._history.clear()
            self._oldest = self._version

    def end_watches(self, error: str = "", *, bookmark: bool = True) -> None:
        """Ends the open watches after their pending events.

        Args:
            error: The error of a broken connection; empty for a normal end.
            bookmark: Whether the watches end with a bookmark, as they do after their timeout.
        """
        with self._changed:
            for stream in self._streams:
                stream.ended, stream.error, stream.bookmark = True, error, bookmark
            self._changed.notify_all()

    # ---- Implementation ------------------------------------------------------------------------------------

    def _list(self, path: str) -> Object:
        with self._changed:
            matching = [
                copy.deepcopy(raw)
                for object_path, raw in sorted(self.objects.items())
                if selected(path, object_path, raw)
            ]
            return {"metadata": {"resourceVersion": str(self._version)}, "items": matching}

    def _update(self, verb: str, path: str, document: Object) -> Object:
        if path not in self.objects:
            raise ConflictError(f"{verb} {path}: 404 not found")
        metadata, stored_metadata = document["metadata"], self.objects[path]["metadata"]
        if metadata.get("name") != path.rsplit("/", 1)[1]:
            raise ApiError(f"{verb} {path}: 400 the name is another one")
        for key in ("resourceVersion", "uid"):
            if metadata.setdefault(key, stored_metadata.get(key)) != stored_metadata.get(key):
                raise ConflictError(f"{verb} {path}: 409 has changed")
        return self._finish_write(verb, path, document)

    def _finish_write(self, verb: str, path: str, document: Object) -> Object:
        self.writes.append(f"{verb} {path.rsplit('/', 1)[1]}")
        return copy.deepcopy(self._store(path, document))

    def _store(self, path: str, document: Object) -> Object:
        with self._changed:
            before = self.objects.get(path)
            if before != document:
                self._version += 1
                document.setdefault("metadata", {})["resourceVersion"] = str(self._version)
                self.objects[path] = document
                self._history.append((self._version, path, before, copy.deepcopy(document)))
                self._changed.notify_all()
            return self.objects[path]

    def _begin_write(self) -> None:
        competitor, self.before_write = self.before_write, None
        if competitor:
            competitor()

    def _refuse(self, call: str) -> None:
        if self.refuse and self.refuse in call:
            raise ForbiddenError(f"{call}: 403 forbidden")

    def events_since(self, version: int, path: str) -> tuple[int, list[Object]]:
        """Returns the present version, and the events of a watch after an older version."""
        if version < self._oldest:
            status = {"kind": "Status", "code": 410, "message": f"too old resource version: {version}"}
            return self._version, [{"type": "ERROR", "object": status}]
        events = []
        for at, object_path, before, after in self._history:
            matched, matches = (
                raw is not None and selected(path, object_path, raw) for raw in (before, after)
            )
            if at > version and (matched or matches):
                kind = "MODIFIED" if matched and matches else "ADDED" if matches else "DELETED"
                raw = copy.deepcopy(after if matches else before) or {}
                raw["metadata"]["resourceVersion"] = str(at)
                events.append({"type": kind, "object": raw})
        return self._version, events

    def wait(self, stream: FakeStream, version: int) -> None:
        """Waits until there is a change after a version, or the watch ends."""
        if self.idle and not stream.closed:
            self.idle()
            return
        with self._changed:
            can_continue = lambda: stream.closed or stream.ended or self._version > version  # noqa: E731
            assert self._changed.wait_for(can_continue, MAX_WAIT_SECONDS), f"{stream.path} had no event"

    def close(self, stream: FakeStream) -> None:
        """Ends a watch, as its client does."""
        with self._changed:
            stream.closed = True
            self._changed.notify_all()


class FakeStream:
    """The events of a watch (`kube.client.EventStream`)."""

    def __init__(self, api: FakeApi, path: str) -> None:
        self._api, self.path = api, path
        self.closed = self.ended = self.bookmark = False
        self.error = ""

    def __iter__(self) -> Iterator[Object]:
        """Yields the events, until the end."""
        query = parse_qs(urlsplit(self.path).query)
        version = int(query["resourceVersion"][0])
        while True:
            version, events = self._api.events_since(version, self.path)
            yield from events
            if any(event["type"] == "ERROR" for event in events):
                return
            if self.closed:
                raise ApiError("closed")
            if not events and self.error:
                raise ApiError(self.error)
            if not events and self.ended:
                if self.bookmark and "allowWatchBookmarks" in query:
                    yield {"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": str(version)}}}
                return
            if not events:
                self._api.wait(self, version)

    def close(self) -> None:
        """Ends the watch, from any thread."""
        self._api.close(self)


def selected(path: str, object_path: str, raw: Object) -> bool:
    """Returns whether a list or a watch of ``path`` includes the object that is stored at ``object_path``."""
    split = urlsplit(path)
    query = {key: value[0] for key, value in parse_qs(split.query).items()}
    collection = object_path.rpartition("/")[0]
    all_namespaces = re.sub(r"/namespaces/[^/]+(?=/)", "", collection)
    labels = raw.get("metadata", {}).get("labels") or {}
    return (
        split.path in {collection, all_namespaces}
        and all(
            labels.get(key, "") == value if equals else key in labels
            for key, equals, value in _terms(query.get("labelSelector", ""))
        )
        and all(
            (_field(raw, key) == value) == (equals == "=")
            for key, equals, value in _terms(query.get("fieldSelector", ""))
        )
    )


def _terms(selector: str) -> Iterator[tuple[str, str, str]]:
    """Yields the key, operator and value of each term. The operator is empty if the term is only a key."""
    for term in filter(None, selector.split(",")):
        key, equals, value = term.partition("=")
        yield key.removesuffix("!"), "!=" if key.endswith("!") else equals, value


def _field(raw: Object, path: str) -> Any:
    obj: Any = raw
    for key in path.split("."):
        obj = obj.get(key, "")
    return obj


@dataclass
class Clock:
    """A clock that only a test moves."""

    now: datetime = NOW

    def __call__(self) -> datetime:
        """Returns the time."""
        return self.now

    def forward(self, span: timedelta) -> None:
        """Moves the clock forward."""
        self.now += span
