"""An API server in memory: versions, conflicts and refusals as the real one has them, and nothing else."""

from __future__ import annotations

import copy
import threading
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import jsonpatch

from kube.api import ApiError, ConflictError, Object

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kube.loop import Loop


class InThread:
    """Something with a loop that runs in a thread."""

    def run_in_thread(self, loop: Loop) -> None:
        """Starts it."""
        self.loop = loop
        self.thread = threading.Thread(target=loop.run)
        self.thread.start()

    def end(self) -> None:
        """Ends it as SIGTERM does."""
        self.loop.stop()
        self.thread.join(10)
        assert not self.thread.is_alive()


NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)


@dataclass
class FakeApi:
    """Keeps objects by path. ``before_write`` runs before each write, as a competitor would."""

    objects: dict[str, Object] = field(default_factory=dict)
    writes: list[str] = field(default_factory=list)
    refuse: str = ""
    before_write: Callable[[], object] | None = None
    _version: int = 0

    def get(self, path: str) -> Object | None:
        """See `certs.api.Api`, as for the other verbs."""
        self._refuse(f"GET {path}")
        return copy.deepcopy(self.objects.get(path))

    def create(self, path: str, document: Object) -> Object:
        """Create."""
        self._writing()
        whole = f"{path}/{document['metadata']['name']}"
        self._refuse(f"POST {whole}")
        if whole in self.objects:
            raise ConflictError(f"{whole} already exists")
        return self._store("POST", whole, document)

    def replace(self, path: str, document: Object) -> Object:
        """Replace."""
        self._writing()
        self._refuse(f"PUT {path}")
        if path not in self.objects or self._at(path) != document["metadata"]["resourceVersion"]:
            raise ConflictError(f"{path} has changed")
        return self._store("PUT", path, document)

    def patch(self, path: str, operations: list[Object]) -> Object:
        """Patch."""
        self._writing()
        self._refuse(f"PATCH {path}")
        patched: Object = jsonpatch.apply_patch(self.objects.get(path, {"metadata": {}}), operations)
        if path not in self.objects or self._at(path) != patched["metadata"]["resourceVersion"]:
            raise ConflictError(f"{path} has changed")
        return self._store("PATCH", path, patched)

    def delete(self, path: str, preconditions: Mapping[str, str] | None = None) -> None:
        """Delete."""
        self._writing()
        self._refuse(f"DELETE {path}")
        there = self.objects.get(path, {}).get("metadata", {})
        if there and any(there[key] != value for key, value in (preconditions or {}).items()):
            raise ConflictError(f"{path} has changed")
        if self.objects.pop(path, None):
            self.writes.append(f"DELETE {path.rsplit('/', 1)[1]}")

    def put(self, path: str, document: Object) -> None:
        """What a stranger writes, whatever is there."""
        self._store("", path, document)

    def _at(self, path: str) -> str:
        version: str = self.objects[path]["metadata"]["resourceVersion"]
        return version

    def _store(self, verb: str, path: str, document: Object) -> Object:
        self._version += 1
        stored = copy.deepcopy(document)
        stored.setdefault("metadata", {})["resourceVersion"] = str(self._version)
        self.objects[path] = stored
        if verb:
            self.writes.append(f"{verb} {path.rsplit('/', 1)[1]}")
        return copy.deepcopy(stored)

    def _writing(self) -> None:
        competitor, self.before_write = self.before_write, None
        if competitor:
            competitor()

    def _refuse(self, call: str) -> None:
        if self.refuse and self.refuse in call:
            raise ApiError(f"{call}: 403 forbidden")


@dataclass
class Clock:
    """A clock that moves when told."""

    now: datetime = NOW

    def __call__(self) -> datetime:
        """The time."""
        return self.now

    def forward(self, span: timedelta) -> None:
        """Let time pass."""
        self.now += span
