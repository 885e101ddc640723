"""The Events that ``kubectl describe pod`` shows: why a job waits, and whether it was admitted.

An Event is written for a job's first waiting pod and for its launcher, once for each text, and again from
time to time while it is true: the API server keeps Events for an hour only.
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
from placement import messages
from placement.decide.jobs import Job
from placement.decide.plan import Waiting
from placement.messages import EventReason
from placement.observe.model import COMPONENT, JobKey, Pod

# An unchanged reason is repeated after this time; a changing one is written at most this often.
AGAIN: Final = timedelta(minutes=30)
LEAST: Final = timedelta(minutes=1)
GRACE: Final = timedelta(seconds=5)  # a younger job gets no Event: its pods are still being created
# Maximum number of Events of a pass, and of a namespace in it, so that many jobs cause no burst of Events.
PER_PASS: Final = 50
PER_NAMESPACE: Final = 10
LONGEST: Final = (
    2.0  # seconds for Events in a pass: the API server may be slow, and the Lease must be renewed
)

_log = logging.getLogger("placement")


@dataclass(slots=True)
class Reporter:
    """Writes Events in the name of this replica."""

    api: RestApi
    instance: str
    _last: dict[JobKey, tuple[str, datetime]] = field(default_factory=dict, init=False)
    """The text and time of the last Event of each job."""
    _silent_until: datetime | None = field(default=None, init=False)

    def waiting(self, reasons: Sequence[Waiting], now: datetime) -> None:
        """Writes why jobs wait, and forgets the Events of jobs that no longer wait."""
        waiting = {reason.job.key for reason in reasons}
        self._last = {key: last for key, last in self._last.items() if key in waiting}
        written: Counter[str] = Counter()
        end = time.monotonic() + LONGEST
        for reason in reasons:
            if written.total() >= PER_PASS or (written and time.monotonic() >= end):
                break
            job, why = reason.job, reason.why
            may = written[job.key[0]] < PER_NAMESPACE and now - job.created >= GRACE
            if may and self._is_news(job.key, why, now):
                done = self.write(job, EventReason.WAITING, why, now)
                self._last[job.key] = (why if done else "", now)
                written[job.key[0]] += 1

    def write(self, job: Job, reason: EventReason, text: str, now: datetime, kind: str = "Normal") -> bool:
        """Writes an Event about a job, and returns whether it was written; the log has the error.

        An API server that stores Events elsewhere may take the whole timeout of a call to fail, and no job
        would be admitted meanwhile. So after an error no Event is written for a while.
        """
        for pod in _pods_with_events(job):
            if self._silent_until is not None and now < self._silent_until:
                return False
            try:
                self.api.create(
                    f"/api/v1/namespaces/{pod.namespace}/events", self._event(pod, reason, text, now, kind)
                )
            except ForbiddenError as error:  # for example, the namespace is being deleted
                _log.warning("%s", messages.no_event(error))
            except ApiError as error:
                _log.warning("%s", messages.no_event(error, LEAST))
                self._silent_until = now + LEAST
                return False
        return True

    def _is_news(self, job: JobKey, why: str, now: datetime) -> bool:
        text, at = self._last.get(job, ("", None))
        return at is None or now - at >= (AGAIN if text == why else LEAST)

    def _event(self, pod: Pod, reason: EventReason, text: str, now: datetime, kind: str) -> Object:
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
    """Returns the pods that users look at: the first worker, and the first pod that is not a worker."""
    waiting = job.gated_pods or job.pods
    workers = sorted(
        (member.pod for member in waiting if member.place is not None), key=lambda pod: pod.number
    )
    return [*workers[:1], *[member.pod for member in waiting if member.place is None][:1]]
