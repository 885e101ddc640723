"""The Events that ``kubectl describe pod`` shows: why a job waits, and whether it was admitted.

An Event is written for the first waiting worker of a job and for its launcher. While a job waits, an Event is
written when the text changes, and again after `REPEAT`, because the API server keeps Events only for an hour.
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

# After `REPEAT`, an Event with the same text is written again. An Event with another text is written `PAUSE`
# after the last Event at the earliest.
REPEAT: Final = timedelta(minutes=30)
PAUSE: Final = timedelta(minutes=1)
GRACE: Final = timedelta(seconds=5)  # before this age, a job gets no `WAITING` Event: it may lack pods
# Maximum number of waiting jobs that get Events in a pass, in all and in one namespace, to avoid bursts.
PER_PASS: Final = 50
PER_NAMESPACE: Final = 10
MAX_SECONDS: Final = 2.0  # after this time in a pass, no other waiting job gets Events

_log = logging.getLogger("placement")


@dataclass(slots=True)
class Reporter:
    """Writes Events in the name of this replica."""

    api: RestApi
    instance: str
    _last_events: dict[JobKey, tuple[str, datetime]] = field(default_factory=dict, init=False)
    """The text and time of the last Event of each job."""
    _silent_until: datetime | None = field(default=None, init=False)

    def report_waiting(self, waiting_jobs: Sequence[Waiting], now: datetime) -> None:
        """Writes new Events about waiting jobs, within limits. Forgets jobs that do not wait."""
        keys = {waiting_job.job.key for waiting_job in waiting_jobs}
        self._last_events = {key: last_event for key, last_event in self._last_events.items() if key in keys}
        job_counts: Counter[str] = Counter()
        deadline = time.monotonic() + MAX_SECONDS
        for waiting_job in waiting_jobs:
            if job_counts.total() >= PER_PASS or (job_counts and time.monotonic() >= deadline):
                break
            job, why = waiting_job.job, waiting_job.why
            is_permitted = job_counts[job.key[0]] < PER_NAMESPACE and now - job.created >= GRACE
            if is_permitted and self._is_news(job.key, why, now):
                was_written = self.write(job, EventReason.WAITING, why, now)
                self._last_events[job.key] = (why if was_written else "", now)
                job_counts[job.key[0]] += 1

    def write(self, job: Job, reason: EventReason, text: str, now: datetime, kind: str = "Normal") -> bool:
        """Writes Events about a job. Returns false if the API server cannot store Events now.

        After an error, no Event is written for `PAUSE`: a failing call may last until its timeout, and no job
        is admitted meanwhile. A forbidden Event is only logged.
        """
        for pod in _pods_with_events(job):
            if self._silent_until is not None and now < self._silent_until:
                return False
            path = f"/api/v1/namespaces/{pod.namespace}/events"
            try:
                self.api.create(path, self._event(pod, reason, text, now, kind))
            except ForbiddenError as error:  # for example, the namespace is being deleted
                _log.warning("%s", messages.no_event(error))
            except ApiError as error:
                _log.warning("%s", messages.no_event(error, PAUSE))
                self._silent_until = now + PAUSE
                return False
        return True

    def _is_news(self, job: JobKey, why: str, now: datetime) -> bool:
        text, at = self._last_events.get(job, ("", None))
        return at is None or now - at >= (REPEAT if text == why else PAUSE)

    def _event(self, pod: Pod, reason: EventReason, text: str, now: datetime, kind: str) -> Object:
        time_text, pod_reference = stamp(now), {"namespace": pod.namespace, "name": pod.name, "uid": pod.uid}
        name = f"{pod.name[:200]}.{uuid.uuid4().hex[:16]}"
        return {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": name, "namespace": pod.namespace},
            "involvedObject": {"apiVersion": "v1", "kind": "Pod", **pod_reference},
            "reason": reason,
            "message": text,
            "type": kind,
            "source": {"component": COMPONENT},
            "reportingComponent": COMPONENT,
            "reportingInstance": self.instance,
            "firstTimestamp": time_text,
            "lastTimestamp": time_text,
            "count": 1,
        }


def _pods_with_events(job: Job) -> list[Pod]:
    """Returns the first worker and the first other pod of a job's gated pods (if none is gated, of all)."""
    members = job.gated_pods or job.pods
    workers = sorted((member.pod for member in members if member.placement), key=lambda pod: pod.number)
    return [*workers[:1], *[member.pod for member in members if not member.placement][:1]]
