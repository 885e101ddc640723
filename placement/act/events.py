"""What people see with ``kubectl describe pod``: why a job waits, and whether it was admitted.

An Event is told about a job's first waiting pod and its launcher, once for each text, and again now and then
while it stays true: Events are kept for an hour only.
"""

import logging
import time
import uuid
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from common.times import stamp
from kube.api import ApiError, ForbiddenError, Object
from kube.rest import RestApi
from placement.decide.jobs import Job
from placement.decide.plan import Waiting
from placement.observe.model import COMPONENT, JobKey, Pod

# A reason that stays the same is repeated after so long; one that changes no more often than this.
AGAIN: Final = timedelta(minutes=30)
LEAST: Final = timedelta(minutes=1)
GRACE: Final = timedelta(seconds=5)  # a younger job is not worth telling about: its pods are still being made
# In one pass, that a burst of jobs is not one of Events, and of one namespace; others have their turn later.
PER_PASS: Final = 50
PER_NAMESPACE: Final = 10
LONGEST: Final = (
    2.0  # seconds that a pass writes Events: an API server may be slow, and the Lease does not wait
)

_log = logging.getLogger("placement")


@dataclass(slots=True)
class Reporter:
    """Writes Events, as of the instance, which is this replica."""

    api: RestApi
    instance: str
    _told: dict[JobKey, tuple[str, datetime]] = field(default_factory=dict, init=False)
    """What was told about each job last, and when."""
    _silent_until: datetime | None = field(default=None, init=False)

    def waiting(self, reasons: Sequence[Waiting], now: datetime) -> None:
        """Tell why jobs wait; what was told about jobs that do not wait any longer is forgotten."""
        waiting = {found.job.key for found in reasons}
        self._told = {key: told for key, told in self._told.items() if key in waiting}
        written: Counter[str] = Counter()
        end = time.monotonic() + LONGEST
        for found in reasons:
            if written.total() >= PER_PASS or (written and time.monotonic() >= end):
                break
            job, why = found.job, found.why
            may = written[job.key[0]] < PER_NAMESPACE and now - job.created >= GRACE
            if may and self._is_news(job.key, why, now):
                told = self.tell(job, "Waiting", why, now)
                self._told[job.key] = (why if told else "", now)
                written[job.key[0]] += 1

    def tell(self, job: Job, reason: str, text: str, now: datetime, kind: str = "Normal") -> bool:
        """Write an Event about a job, and say whether it was; where that fails, only the log has it.

        An API server that keeps its Events elsewhere may take the whole time of a call to fail, and jobs
        would not be opened meanwhile. So after a failure none is written for a while.
        """
        for pod in _pods_with_events(job):
            if self._silent_until is not None and now < self._silent_until:
                return False
            try:
                self.api.create(
                    f"/api/v1/namespaces/{pod.namespace}/events", self._event(pod, reason, text, now, kind)
                )
            except ForbiddenError as error:  # at once, and only here: the namespace is being deleted, say
                _log.warning("an Event was not written: %s", error)
            except ApiError as error:
                _log.warning("an Event was not written, nor is another for %s: %s", LEAST, error)
                self._silent_until = now + LEAST
                return False
        return True

    def _is_news(self, job: JobKey, why: str, now: datetime) -> bool:
        text, at = self._told.get(job, ("", None))
        return at is None or now - at >= (AGAIN if text == why else LEAST)

    def _event(self, pod: Pod, reason: str, text: str, now: datetime, kind: str) -> Object:
        at, about = stamp(now), {"namespace": pod.namespace, "name": pod.name, "uid": pod.uid}
        name = f"{pod.name[:200]}.{uuid.uuid4().hex[:16]}"
        return {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": name, "namespace": pod.namespace},
            "involvedObject": {"apiVersion": "v1", "kind": "Pod", **about},
            "reason": reason,
            "message": text,
            "type": kind,
            "source": {"component": COMPONENT},
            "reportingComponent": COMPONENT,
            "reportingInstance": self.instance,
            "firstTimestamp": at,
            "lastTimestamp": at,
            "count": 1,
        }


def _pods_with_events(job: Job) -> list[Pod]:
    """The pods that people look at: the first worker, and the first pod beside the workers."""
    waiting = job.gated or job.pods
    workers = sorted((one.pod for one in waiting if one.place is not None), key=lambda pod: pod.number)
    return [*workers[:1], *[one.pod for one in waiting if one.place is None][:1]]
