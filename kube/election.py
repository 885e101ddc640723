"""Which of several running programs does the passes: whoever holds a Lease.

The rules are client-go's (``tools/leaderelection``): a holder that has not renewed for the lease's duration,
by the watch of whoever observes it, may be followed; every write is guarded by the resourceVersion. Clocks
of different machines are never compared. A mistake would cost a lost race or two and no more: passes are
safe without a leader. The ``kubernetes`` package's own election has no types, never gives a Lease back and
keeps the passes in a thread of its own, so it is not used.
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
"""Seconds that a silent holder is waited for, whatever it promised: a stolen Lease may say 68 years."""


@dataclass(slots=True)
class Elector:
    """One candidate for a Lease. It raises `ApiError` where that cannot be read or written.

    Attributes:
        api: The API server.
        namespace: Of the Lease.
        name: Its name.
        identity: Of this candidate; no two may be the same, a pod's name will do.
        duration: Seconds after which a holder that does not renew may be followed.
        labels: Of the Lease, where it is made.
        watch: Seconds of a clock that never jumps.
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
        """Take the Lease, or renew it, where that is fair; says whether this candidate holds it."""
        lease = self.api.get(self._path)
        if lease is not None and not self._may_take(lease):
            return False
        try:
            if lease is None:
                self.api.create(leases(self.namespace), self._claim({}))
            else:
                self.api.replace(self._path, self._claim(lease))
        except ConflictError:  # somebody else was faster
            return False
        return True

    def release(self) -> None:
        """Give the Lease back, if it is this candidate's, so that the next need not wait."""
        lease = self.api.get(self._path)
        if lease is None or _spec(lease).get("holderIdentity") != self.identity:
            return
        given = {**_spec(lease), "holderIdentity": "", "renewTime": _now()}
        with contextlib.suppress(ConflictError):  # then it is somebody else's already
            self.api.replace(self._path, {**lease, "spec": given})

    @property
    def _path(self) -> str:
        return f"{leases(self.namespace)}/{self.name}"

    def _may_take(self, lease: Object) -> bool:
        spec = _spec(lease)
        holder = spec.get("holderIdentity")
        if not holder or holder == self.identity:
            return True
        seen = (holder, spec.get("renewTime"))
        if seen != self._seen:
            self._seen, self._seen_at = seen, self.watch()
        # By the duration its holder promised to renew in, which may have other settings than this one.
        promised = spec.get("leaseDurationSeconds") or self.duration
        return self.watch() - self._seen_at > min(promised, max(LONGEST, self.duration))

    def _claim(self, lease: Object) -> Object:
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
    """The time, as the Lease's own fields have it, which are for people."""
    return f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%S.%fZ}"


def _spec(lease: Object) -> Object:
    spec: Object = lease.get("spec") or {}
    return spec
