"""Leader election by a Lease: of several running programs, its holder runs the passes.

The rules are those of client-go (``tools/leaderelection``). A candidate may take over the Lease if its holder
has not renewed it for the Lease's duration, measured by the candidate's own clock; clocks of different
machines are never compared. The resourceVersion guards every write. An error here costs at most a few lost
races, because passes are safe without a leader. The election of the ``kubernetes`` package has no types,
never releases a Lease and runs the passes in its own thread, so it is not used.
"""

import contextlib
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

from kube.api import ConflictError, Object, leases
from kube.rest import RestApi

LONGEST: Final = 600
"""Maximum time to wait for a silent holder, in seconds: the duration in a stolen Lease may be 68 years."""


@dataclass(slots=True)
class Elector:
    """One candidate for a Lease. It raises `ApiError` if the Lease cannot be read or written.

    Attributes:
        api: The API server.
        namespace: The Lease's namespace.
        name: The Lease's name.
        identity: A unique name of this candidate, such as the pod's name.
        duration: Seconds after which another candidate may take over a Lease that is not renewed.
        labels: The Lease's labels, if this candidate creates it.
        watch: Returns the seconds of a clock that never jumps.
    """

    api: RestApi
    namespace: str
    name: str
    identity: str
    duration: int
    labels: Mapping[str, str]
    watch: Callable[[], float] = time.monotonic
    _seen: tuple[Any, ...] = field(default=(), init=False)
    _seen_at: float = field(default=0.0, init=False)

    def lead(self) -> bool:
        """Takes or renews the Lease if the rules permit it; returns whether this candidate holds it."""
        lease = self.api.get(self._path)
        if lease is not None and not self._may_take(lease):
            return False
        try:
            if lease is None:
                self.api.create(leases(self.namespace), self._taken({}))
            else:
                self.api.replace(self._path, self._taken(lease))
        except ConflictError:  # another candidate was faster
            return False
        return True

    def release(self) -> None:
        """Releases the Lease if this candidate holds it, so that the next one need not wait."""
        lease = self.api.get(self._path)
        if lease is None or _spec(lease).get("holderIdentity") != self.identity:
            return
        released = {**_spec(lease), "holderIdentity": "", "renewTime": _now()}
        with contextlib.suppress(ConflictError):  # another candidate holds it already
            self.api.replace(self._path, {**lease, "spec": released})

    @property
    def _path(self) -> str:
        return f"{leases(self.namespace)}/{self.name}"

    def _may_take(self, lease: Object) -> bool:
        spec = _spec(lease)
        holder = spec.get("holderIdentity")
        if not holder or holder == self.identity:
            return True
        version = (holder, spec.get("renewTime"))
        if version != self._seen:
            self._seen, self._seen_at = version, self.watch()
        # The duration in the Lease is used: the holder's settings may differ from those of this candidate.
        duration = spec.get("leaseDurationSeconds") or self.duration
        return self.watch() - self._seen_at > min(duration, max(LONGEST, self.duration))

    def _taken(self, lease: Object) -> Object:
        old, now = _spec(lease), _now()
        mine = old.get("holderIdentity") == self.identity
        spec = {
            **old,
            "holderIdentity": self.identity,
            "leaseDurationSeconds": self.duration,
            "acquireTime": old.get("acquireTime") if mine else now,
            "renewTime": now,
            "leaseTransitions": (old.get("leaseTransitions") or 0) + (0 if mine or not old else 1),
        }
        return {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": self.name, "labels": dict(self.labels)},
            **lease,
            "spec": spec,
        }


def _now() -> str:
    """Returns the time in the format of the Lease's fields, which only people read."""
    return f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%S.%fZ}"


def _spec(lease: Object) -> Object:
    spec: Object = lease.get("spec") or {}
    return spec
