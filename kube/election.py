"""Leader election with a Lease: only the replica that holds the Lease runs passes.

The rules are the rules of client-go (``tools/leaderelection``). A replica may take over the Lease if the
holder has not renewed it for the duration in the Lease. The replica measures this time with its own clock,
and does not compare the clocks of different machines. A write fails if the Lease has another resourceVersion.
Passes are safe even with two leaders, so an error here causes at most a few conflicts. The election of the
``kubernetes`` package is not used: it has no types, never releases a Lease and runs the passes in its thread.
"""

import contextlib
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

from kube.api import ConflictError, Object, leases_path
from kube.rest import RestApi

MAX_WAIT_SECONDS: Final = 600
"""Maximum wait before a takeover, unless `Elector.duration` is longer. A forged Lease can last 68 years."""


@dataclass(slots=True)
class Elector:
    """A replica that can hold a Lease. The methods raise `ApiError` if they cannot use the Lease."""

    api: RestApi  # the API server
    namespace: str  # the Lease's namespace
    name: str  # the Lease's name
    identity: str  # a unique name of this replica, such as the pod's name
    duration: int  # seconds after which another replica may take over a Lease that is not renewed
    labels: Mapping[str, str]  # the Lease's labels, if this replica creates the Lease
    clock: Callable[[], float] = time.monotonic  # returns the seconds of a clock that never jumps
    _seen_renewal: tuple[Any, ...] = field(default=(), init=False)  # the last holder and renewTime, or ()
    _seen_renewal_time: float = field(default=0.0, init=False)  # when `_seen_renewal` changed, by `clock`

    def lead(self) -> bool:
        """Takes or renews the Lease if the rules permit it; returns whether this replica is the holder."""
        lease = self.api.get(self._path)
        if lease is not None and not self._may_take(lease):
            return False
        try:
            if lease is None:
                self.api.create(leases_path(self.namespace), self._with_this_holder({}))
            else:
                self.api.replace(self._path, self._with_this_holder(lease))
        except ConflictError:  # another replica was faster
            return False
        return True

    def release(self) -> None:
        """Releases the Lease if this replica holds it, so that another replica need not wait."""
        lease = self.api.get(self._path)
        if lease is None or _spec(lease).get("holderIdentity") != self.identity:
            return
        spec = {**_spec(lease), "holderIdentity": "", "renewTime": _now()}
        with contextlib.suppress(ConflictError):  # another replica has taken the Lease
            self.api.replace(self._path, {**lease, "spec": spec})

    @property
    def _path(self) -> str:
        return f"{leases_path(self.namespace)}/{self.name}"

    def _may_take(self, lease: Object) -> bool:
        spec = _spec(lease)
        holder = spec.get("holderIdentity")
        if not holder or holder == self.identity:
            return True
        renewal = (holder, spec.get("renewTime"))
        if renewal != self._seen_renewal:
            self._seen_renewal, self._seen_renewal_time = renewal, self.clock()
        # The Lease has the duration of its holder, whose settings may differ from this replica's settings.
        duration = spec.get("leaseDurationSeconds") or self.duration
        return self.clock() - self._seen_renewal_time > min(duration, max(MAX_WAIT_SECONDS, self.duration))

    def _with_this_holder(self, lease: Object) -> Object:
        old_spec, now = _spec(lease), _now()
        is_holder = old_spec.get("holderIdentity") == self.identity
        changes = 0 if is_holder or not old_spec else 1
        spec = {
            **old_spec,
            "holderIdentity": self.identity,
            "leaseDurationSeconds": self.duration,
            "acquireTime": old_spec.get("acquireTime") if is_holder else now,
            "renewTime": now,
            "leaseTransitions": (old_spec.get("leaseTransitions") or 0) + changes,
        }
        return {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": self.name, "labels": dict(self.labels)},
            **lease,
            "spec": spec,
        }


def _now() -> str:
    """Returns the present time in the format of a Lease. Replicas check only whether it changes."""
    return f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%S.%fZ}"


def _spec(lease: Object) -> Object:
    spec: Object = lease.get("spec") or {}
    return spec
