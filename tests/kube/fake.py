"""An API server in memory. It answers `tests.kube.contract` as the real one does."""

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
NEVER_SECONDS = 30
"""A watch that has nothing to say for so long is a mistake of the test."""

_COLLECTION = re.compile(r"(?P<version>/api/v1|/apis/[^/]+/[^/]+)(/namespaces/(?P<namespace>[^/]+))?/[^/]+")


@dataclass
class FakeApi:
    """Keeps objects by path (`kube.client.KubernetesApi`).

    Attributes:
        objects: What is stored. Watches get what the verbs, `put` and `remove` change, not what a test
            changes in here.
        writes: Verb and name of each write that was done.
        paths: The path of every page and watch that was requested, in order.
        refuse: Calls whose verb and path have this in them are forbidden; lists and watches are GETs.
        before_write: Runs before the next write, as a competitor would.
        idle: Called when a watch has nothing more to say, instead of waiting for another thread to write.
        page: How many objects a page of a list has.
    """

    objects: dict[str, Object] = field(default_factory=dict)
    writes: list[str] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    refuse: str = ""
    before_write: Callable[[], object] | None = None
    idle: Callable[[], object] | None = None
    page: int = 500
    # Another server's history came before: version 1 is too old.
    _version: int = 100
    _oldest: int = 100
    _history: list[tuple[int, str, Object | None, Object | None]] = field(default_factory=list)
    _changed: threading.Condition = field(default_factory=threading.Condition)
    _streams: list[FakeStream] = field(default_factory=list)

    def get(self, path: str) -> Object | None:
        """Sees `kube.client.KubernetesApi`, as for the other verbs."""
        self._refuse(f"GET {path}")
        if path in self.objects:
            return copy.deepcopy(self.objects[path])
        return self._list(path) if _COLLECTION.fullmatch(urlsplit(path).path) else None

    def create(self, path: str, document: Object) -> Object:
        """Returns create."""
        self._writing()
        if not document.get("metadata", {}).get("name"):
            raise ApiError(f"POST {path}: 422 name is required")
        whole = f"{path}/{document['metadata']['name']}"
        self._refuse(f"POST {whole}")
        if "resourceVersion" in document["metadata"]:
            raise ApiError(f"POST {whole}: 500 resourceVersion should not be set on objects to be created")
        with self._changed:
            if whole in self.objects:
                raise ConflictError(f"POST {whole}: 409 already exists")
            made = copy.deepcopy(document)
            made["metadata"] |= {"uid": str(uuid.UUID(int=self._version))}
            collection = _COLLECTION.fullmatch(path)
            if collection and collection["namespace"]:
                made["metadata"]["namespace"] = collection["namespace"]
            return self._written("POST", whole, made)

    def replace(self, path: str, document: Object) -> Object:
        """Returns replace."""
        self._writing()
        self._refuse(f"PUT {path}")
        with self._changed:
            return self._update("PUT", path, copy.deepcopy(document))

    def patch(self, path: str, operations: list[Object]) -> Object:
        """Returns patch."""
        self._writing()
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
        """Delete; nothing here needs time to end."""
        del grace_seconds
        self._writing()
        self._refuse(f"DELETE {path}")
        with self._changed:
            if path not in self.objects:
                return
            there = self.objects[path]["metadata"]
            if any(there[key] != value for key, value in (preconditions or {}).items()):
                raise ConflictError(f"DELETE {path}: 409 has changed")
            self.remove(path)
            self.writes.append(f"DELETE {path.rsplit('/', 1)[1]}")

    def pages(self, path: str) -> Iterator[Object]:
        """Reads a collection in pages."""
        self.paths.append(path)
        self._refuse(f"GET {path}")
        whole = self._list(path)
        for start in range(0, max(len(whole["items"]), 1), self.page):
            yield {**whole, "items": whole["items"][start : start + self.page]}

    @contextmanager
    def stream(self, path: str) -> Iterator[FakeStream]:
        """Begins a watch."""
        self.paths.append(path)
        self._refuse(f"GET {path}")
        stream = FakeStream(self, path)
        self._streams.append(stream)
        try:
            yield stream
        finally:
            self._streams.remove(stream)

    # ---- No calls: what strangers do, and an API server that ends, breaks and forgets ----------------------

    def put(self, path: str, document: Object) -> None:
        """Writes an object as another client, over any version."""
        self._store(path, copy.deepcopy(document))

    def remove(self, path: str) -> None:
        """Deletes an object as another client."""
        with self._changed:
            self._version += 1
            gone = copy.deepcopy(self.objects.pop(path))
            gone["metadata"]["resourceVersion"] = str(self._version)
            self._history.append((self._version, path, gone, None))
            self._changed.notify_all()

    def forget(self) -> None:
        """Versions before the present one are too old for watches from now on."""
        with self._changed:
            self._history.clear()
            self._oldest = self._version

    def end_watches(self, error: str = "", *, bookmark: bool = True) -> None:
        """Ends the watches that are open, when they have said what there is.

        Args:
            error: With which the connection breaks; empty for an end in peace.
            bookmark: Whether they say how far they came, as at the end of their time.
        """
        with self._changed:
            for stream in self._streams:
                stream.ended, stream.error, stream.bookmark = True, error, bookmark
            self._changed.notify_all()

    # ---- Inside --------------------------------------------------------------------------------------------

    def _list(self, path: str) -> Object:
        with self._changed:
            matching = [
                copy.deepcopy(raw) for at, raw in sorted(self.objects.items()) if selected(path, at, raw)
            ]
            return {"metadata": {"resourceVersion": str(self._version)}, "items": matching}

    def _update(self, verb: str, path: str, document: Object) -> Object:
        if path not in self.objects:
            raise ConflictError(f"{verb} {path}: 404 not found")
        metadata, there = document["metadata"], self.objects[path]["metadata"]
        if metadata.get("name") != path.rsplit("/", 1)[1]:
            raise ApiError(f"{verb} {path}: 400 the name is another one")
        for key in ("resourceVersion", "uid"):
            if metadata.setdefault(key, there.get(key)) != there.get(key):
                raise ConflictError(f"{verb} {path}: 409 has changed")
        return self._written(verb, path, document)

    def _written(self, verb: str, path: str, document: Object) -> Object:
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

    def _writing(self) -> None:
        competitor, self.before_write = self.before_write, None
        if competitor:
            competitor()

    def _refuse(self, call: str) -> None:
        if self.refuse and self.refuse in call:
            raise ForbiddenError(f"{call}: 403 forbidden")

    def said_since(self, version: int, path: str) -> tuple[int, list[Object]]:
        """Returns the events of a watch after a version, and the version they lead to."""
        if version < self._oldest:
            status = {"kind": "Status", "code": 410, "message": f"too old resource version: {version}"}
            return self._version, [{"type": "ERROR", "object": status}]
        result = []
        for at, changed, before, after in self._history:
            was, now = (raw is not None and selected(path, changed, raw) for raw in (before, after))
            if at > version and (was or now):
                kind = "MODIFIED" if was and now else "ADDED" if now else "DELETED"
                raw = copy.deepcopy(after if now else before) or {}
                raw["metadata"]["resourceVersion"] = str(at)
                result.append({"type": kind, "object": raw})
        return self._version, result

    def wait(self, stream: FakeStream, version: int) -> None:
        """Waits for something after a version that a watch can say."""
        if self.idle and not stream.closed:
            self.idle()
            return
        with self._changed:
            woken = lambda: stream.closed or stream.ended or self._version > version  # noqa: E731
            assert self._changed.wait_for(woken, NEVER_SECONDS), f"{stream.path} had nothing to say"

    def close(self, stream: FakeStream) -> None:
        """Ends one watch."""
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
            version, events = self._api.said_since(version, self.path)
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
        """Ends it, from any thread."""
        self._api.close(self)


def selected(path: str, at: str, raw: Object) -> bool:
    """Returns whether a list or a watch of ``path`` has the object that is stored ``at``."""
    split = urlsplit(path)
    query = {key: value[0] for key, value in parse_qs(split.query).items()}
    collection = at.rpartition("/")[0]
    everywhere = re.sub(r"/namespaces/[^/]+(?=/)", "", collection)
    labels = raw.get("metadata", {}).get("labels") or {}
    return (
        split.path in {collection, everywhere}
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
    """Yields key, operator and value; only a key has no operator."""
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
    """A clock that tests move."""

    now: datetime = NOW

    def __call__(self) -> datetime:
        """Returns the time."""
        return self.now

    def forward(self, span: timedelta) -> None:
        """Lets time pass."""
        self.now += span
