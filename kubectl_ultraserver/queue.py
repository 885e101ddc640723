"""Lists the jobs that wait for whole-job admission, in the placement program's order. Pure."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import count
from typing import Final

from common.texts import join_names
from common.times import clock_text
from kube.api import Object
from kubectl_ultraserver import messages
from kubectl_ultraserver.fleet import Fleet
from kubectl_ultraserver.scheduling import scene_of, why_stopped
from placement.decide.cluster import display_name
from placement.decide.forecast import Start, forecast
from placement.decide.jobs import Job
from placement.decide.plan import Decision, Waiting
from placement.decide.reasons import causes
from placement.messages import STUCK
from placement.observe.model import EndedWorker, JobKey

MAX_SECONDS: Final = 10.0
"""The seconds after which a forecast begins no further decision. A forecast makes at most 100 decisions."""
FITS: Final = "fits"
"""The reason of a job that starts with the next decision. Other reasons: a `Reason`, or empty if unknown."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A job that waits."""

    position: int | None  # the position in the queue, from 1; None if it is unknown, or if the job is blocked
    namespace: str  # the job's namespace
    job: str  # the job's namespace and name
    workers: int  # the number of the job's workers
    priority: int  # the job's priority
    share: float  # the part of all nodes with devices that the job's namespace uses, from 0 to 1
    since: datetime  # the time since which all workers of the job exist
    limit: float | None  # the job's time limit in seconds; None without a time limit
    reason: str  # why the job waits, as a code: `FITS` or a `Reason`; empty if that is not known
    text: str  # why the job waits, as a text
    start: datetime | None = None  # when the job starts; None if that is not known
    latest: datetime | None = None  # the latest start if all jobs keep their time limits; None if unknown
    after: tuple[str, ...] = ()  # the jobs whose end makes the start possible
    after_waiting: tuple[str, ...] = ()  # the jobs of ``after`` that wait, too
    ahead: tuple[str, ...] = ()  # the jobs with an earlier position that start later
    units: tuple[str, ...] = ()  # the units that are reserved for the job

    @property
    def start_note(self) -> str:
        """A text that names the jobs of ``after`` and ``ahead``; empty if there are none."""
        return messages.start_note(self.after, self.after_waiting, self.ahead)


@dataclass(frozen=True, slots=True)
class Queue:
    """The jobs that wait."""

    text: str  # a summary in one sentence
    entries: tuple[Entry, ...]  # the jobs in order; jobs without a position come last
    # Reasons why a job waits (see `_delay_texts`), explanations of columns, and what is not known.
    notes: tuple[str, ...] = ()


def queue(
    fleet: Fleet,
    ended_workers: Sequence[EndedWorker],
    lease: Object | None,
    has_time: Callable[[], bool] = lambda: True,
) -> Queue:
    """Returns the jobs that wait.

    Args:
        fleet: The nodes and pods. If some were not listed, positions and times are not known.
        ended_workers: The workers that have ended.
        lease: The Lease of the placement program; see `why_stopped`.
        has_time: Returns whether there is time for another decision of the forecast.
    """
    scene, stopped_reason = scene_of(fleet, [*fleet.pods, *ended_workers]), why_stopped(lease, fleet.now)
    decision = scene.decision()
    times_are_known = not (fleet.unseen or stopped_reason)
    job_keys = [item.job.key for item in decision.waiting if times_are_known and item.reason not in STUCK]
    starts = forecast(scene, decision, job_keys, goes_on=has_time)
    ran_out_of_time = len(starts) < len(job_keys) and not has_time()
    immediate_start = Start(fleet.now, fleet.now) if times_are_known else None
    entries = []
    for admission in decision.admissions:
        text = messages.NOT_KNOWN if fleet.unseen else messages.fits_units(join_names(admission.units))
        entries.append(_entry(decision, admission.job, "" if fleet.unseen else FITS, text, immediate_start))
    entries += [_waiting_entry(decision, waiting, starts) for waiting in decision.waiting]
    waiting_jobs, positions = {entry.job for entry in entries}, count(1)
    for index, entry in enumerate(entries):
        start, has_position = entry.start, not fleet.unseen and entry.reason not in STUCK
        later_jobs = (other.job for other in entries[:index] if start and other.start and start < other.start)
        entries[index] = replace(
            entry,
            position=next(positions) if has_position else None,
            after_waiting=tuple(job for job in entry.after if job in waiting_jobs),
            ahead=tuple(later_jobs),
            units=entry.units if times_are_known else (),
        )
    notes = [*_delay_texts(decision)] if times_are_known else []
    notes += [messages.ORDER] if len(entries) > 1 and not fleet.unseen else []
    notes += [messages.RESERVED] if any(entry.units for entry in entries) else []
    notes += [messages.AHEAD] if any(entry.ahead for entry in entries) else []
    notes += [messages.EXACT] if any(entry.latest and entry.reason != FITS for entry in entries) else []
    notes += [messages.ESTIMATE] if any(entry.start not in (None, entry.latest) for entry in entries) else []
    unknown_start_note = messages.out_of_time(MAX_SECONDS) if ran_out_of_time else messages.ENDLESS
    notes += [unknown_start_note] if len(starts) < len(job_keys) else []
    notes += [messages.unknown_times(fleet.unseen)] if fleet.unseen else []
    entries.sort(key=lambda entry: entry.position is None)
    return Queue(_summary(entries, fleet, stopped_reason), tuple(entries), tuple(notes))


def _entry(decision: Decision, job: Job, reason: str, text: str, start: Start | None = None) -> Entry:
    workers = next((member.placement.workers for member in job.workers if member.placement), 0)
    order = job.priority, decision.shares.by_namespace.get(job.key[0], 0.0), job.created
    limit = job.limit.total_seconds() if job.limit else None
    entry = Entry(None, job.key[0], display_name(job.key), workers, *order, limit, reason, text)
    ending_jobs = tuple(map(display_name, start.after)) if start else ()
    return replace(entry, start=start.at, latest=start.latest, after=ending_jobs) if start else entry


def _waiting_entry(decision: Decision, waiting: Waiting, starts: Mapping[JobKey, Start]) -> Entry:
    """Returns the entry of a job that does not fit, with the units that are reserved for the job."""
    key, shortage = waiting.job.key, waiting.shortage
    reservation, start = decision.cluster.reservations.earliest_of(key), starts.get(key)
    broken = shortage.ranking.unusable_units if shortage and not shortage.can_end else {}
    broken_text = join_names([f"{unit}: {cause.detail}" for unit, cause in broken.items()])
    text = "; ".join(filter(None, (waiting.text(), broken_text)))
    entry = _entry(decision, waiting.job, waiting.reason, text, start)
    return replace(entry, units=reservation.units) if reservation else entry


def _delay_texts(decision: Decision) -> Iterator[str]:
    """Yields why the job with the reservation waits or, without a reservation, why the first job waits."""
    cluster, reservation = decision.cluster, next(iter(decision.cluster.reservations), None)
    shortages = [(waiting.job, waiting.shortage) for waiting in decision.waiting if waiting.shortage]
    if reservation:
        shortages = [(job, shortage) for job, shortage in shortages if job.key == reservation.job]
    for job, shortage in shortages[:1]:
        if reservation and reservation.is_internal:
            yield messages.may_lose_units(display_name(job.key))
        for unit, cause in causes(cluster, shortage.ranking, job):
            if cause.category == "full":
                yield f"{unit}: {cause.detail}"


def position_text(job_queue: Queue, entry: Entry, now: datetime) -> str:
    """Returns the position of a job, and when the job starts, in a sentence that has no subject."""
    if entry.reason in STUCK:
        return messages.blocked(entry.text)
    if not entry.position:
        return messages.UNKNOWN_POSITION
    count = sum(bool(other.position) for other in job_queue.entries)
    start = entry.text if entry.reason == FITS else messages.expected_start(entry.start, entry.latest, now)
    return ", ".join(filter(None, (messages.position(entry.position, count, start), entry.start_note)))


def _summary(entries: Sequence[Entry], fleet: Fleet, stopped_reason: str) -> str:
    """Returns how many jobs wait, and which job is next."""
    if not entries:
        return messages.NO_JOB_WAITS
    blocked_count = sum(entry.reason in STUCK for entry in entries)
    texts = [messages.jobs_wait(len(entries), blocked_count, clock_text(fleet.now, fleet.now))]
    fitting_jobs = [entry.job for entry in entries if entry.reason == FITS]
    waiting = [entry for entry in entries if entry.position and entry.reason != FITS]
    first = next((entry for entry in waiting if entry.units), next(iter(waiting), None))
    if fleet.unseen:
        texts.append(messages.UNKNOWN_NEXT)
    elif stopped_reason:
        texts.append(messages.program_stopped(stopped_reason))
    else:
        texts += [messages.fit_now(fitting_jobs)] if fitting_jobs else []
        if first:
            state = messages.NEXT if first is waiting[0] else messages.HAS_RESERVATION
            if overtaking := [entry for entry in waiting if first.job in entry.ahead]:
                soonest = min(overtaking, key=lambda entry: entry.start or fleet.now)
                start = messages.expected_start(soonest.start, soonest.latest, fleet.now)
                texts.append(messages.starts_ahead(soonest.job, start, first.job))
                state = messages.FIRST if first is waiting[0] else state
            start = messages.expected_start(first.start, first.latest, fleet.now)
            texts.append(messages.first_job(first.job, state, start))
        elif not fitting_jobs:
            texts.append(messages.NONE_ADMITTED)
    return f"{'; '.join(texts)}."
