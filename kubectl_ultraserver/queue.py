"""Lists the jobs that wait for whole-job admission, in the order of placement's own decision. Pure."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from common.times import clock_text, length_text
from kube.api import Object
from kubectl_ultraserver.fleet import Fleet
from kubectl_ultraserver.messages import join_names
from kubectl_ultraserver.scheduling import scene_of, why_stopped
from placement.decide.cluster import display_name
from placement.decide.forecast import Start, forecast
from placement.decide.jobs import Job
from placement.decide.plan import Decision, Waiting
from placement.decide.reasons import causes
from placement.messages import STUCK
from placement.observe.model import EndedWorker, JobKey

ESTIMATE: Final = (
    "START about: an estimate. It assumes that no further jobs come, and that a job without a LIMIT runs for "
    "as long again as it has run, or for a day if it has not started"
)
EXACT: Final = "START by: the latest time, if running jobs keep their time limits and no further jobs come"
ORDER: Final = (
    "POSITION: jobs that start now, then the highest PRIORITY, then the largest (age + 10 min) / "
    "(SHARE + 10%). The age begins at SINCE. SHARE is the part of all nodes that the namespace uses, so the "
    "order changes when jobs start or end"
)
RESERVED: Final = (
    "RESERVED: the units that become free for the job. Another job starts there only if its LIMIT ends before"
)
AHEAD: Final = (
    "ahead of: a job starts before jobs with an earlier position, on units that those jobs cannot use "
    "then: they need more units, would run into a reservation (a shorter LIMIT helps), or their SHARE rose"
)
ENDLESS: Final = "not known: the job waits for jobs or Pods without a known end, or for too many jobs"
MAX_SECONDS: Final = 10.0
"""The seconds after which no further decision begins. A forecast makes up to a hundred decisions."""
OUT_OF_TIME: Final = (
    f"times are computed for {MAX_SECONDS:g} seconds at most, and not for jobs that would start later"
)
FITS: Final = "fits"
"""The reason of a job that starts with the next decision. All other reasons are values of `Reason`."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A job that waits.

    Attributes:
        position: The job's position in the queue, from 1; None if the job has none, or if it is not known.
        namespace: The job's namespace.
        job: The job's namespace and name.
        workers: The number of the job's workers.
        priority: The job's priority.
        share: The share of all nodes that the job's namespace has, from 0 to 1.
        since: The time since which all workers of the job exist.
        limit: The job's time limit in seconds; None without a time limit.
        reason: Why the job waits, as a code: `FITS` or a `Reason`; empty if that is not known.
        text: Why the job waits, as a text.
        start: When the job starts; None if that is not known.
        latest: When the job starts at the latest, if that depends on time limits only.
        after: The jobs whose end makes the start possible.
        ahead: The jobs with an earlier position that start later.
        units: The units that are reserved for the job.
    """

    position: int | None
    namespace: str
    job: str
    workers: int
    priority: int
    share: float
    since: datetime
    limit: float | None
    reason: str
    text: str
    start: datetime | None = None
    latest: datetime | None = None
    after: tuple[str, ...] = ()
    ahead: tuple[str, ...] = ()
    units: tuple[str, ...] = ()

    @property
    def start_note(self) -> str:
        """Which jobs end when this job starts, and which earlier jobs start later."""
        ends = f"when {join_names(self.after)} end{'' if len(self.after) > 1 else 's'}" if self.after else ""
        return ", ".join(filter(None, (ends, f"ahead of {join_names(self.ahead)}" if self.ahead else "")))


@dataclass(frozen=True, slots=True)
class Queue:
    """The jobs that wait.

    Attributes:
        text: A summary in one sentence.
        entries: The jobs in order. Jobs without a position come last.
        notes: What would help the first job, and how to read the times and the order.
    """

    text: str
    entries: tuple[Entry, ...]
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
        has_time: Returns whether there is time to compute when one more job may start.
    """
    scene, stopped_reason = scene_of(fleet, [*fleet.pods, *ended_workers]), why_stopped(lease, fleet.now)
    decision = scene.decision()
    is_known = not (fleet.unseen or stopped_reason)
    movable = [waiting.job.key for waiting in decision.waiting if is_known and waiting.reason not in STUCK]
    starts = forecast(scene, decision, movable, goes_on=has_time)
    ran_out_of_time = len(starts) < len(movable) and not has_time()
    now = Start(fleet.now, fleet.now) if is_known else None
    entries = []
    for admission in decision.admissions:
        text = f"fits {join_names(admission.units)}; see its Events if it still waits"
        entries.append(_entry(decision, admission.job, FITS, text, now))
    entries += [_waiting_entry(decision, waiting, starts) for waiting in decision.waiting]
    if not is_known:
        entries = [replace(entry, units=()) for entry in entries]
    if fleet.unseen:
        entries = [
            replace(entry, reason="", text="not known") if entry.reason == FITS else entry
            for entry in entries
        ]
    positions = iter(range(1, len(entries) + 1))
    if not fleet.unseen:
        entries = [
            entry if entry.reason in STUCK else replace(entry, position=next(positions)) for entry in entries
        ]
    entries = [
        replace(entry, ahead=_overtaken(entry, entries[:index])) for index, entry in enumerate(entries)
    ]
    notes = [*_help_texts(decision)] if is_known else []
    notes += [ORDER] if len(entries) > 1 and not fleet.unseen else []
    notes += [RESERVED] if any(entry.units for entry in entries) else []
    notes += [AHEAD] if any(entry.ahead for entry in entries) else []
    notes += [EXACT] if any(entry.latest and entry.reason != FITS for entry in entries) else []
    notes += [ESTIMATE] if any(entry.start not in (None, entry.latest) for entry in entries) else []
    notes += [OUT_OF_TIME] if ran_out_of_time else [ENDLESS] if len(starts) < len(movable) else []
    notes += [f"{fleet.unseen}; so positions and times are not known"] if fleet.unseen else []
    entries.sort(key=lambda entry: entry.position is None)
    return Queue(_summary(entries, fleet, stopped_reason), tuple(entries), tuple(notes))


def _entry(decision: Decision, job: Job, reason: str, text: str, start: Start | None = None) -> Entry:
    workers = next((member.place.workers for member in job.workers if member.place), 0)
    order = job.priority, decision.shares.by_namespace.get(job.key[0], 0.0), job.created
    limit = job.limit.total_seconds() if job.limit else None
    entry = Entry(None, job.key[0], display_name(job.key), workers, *order, limit, reason, text)
    ending_jobs = tuple(map(display_name, start.after)) if start else ()
    return replace(entry, start=start.at, latest=start.latest, after=ending_jobs) if start else entry


def _waiting_entry(decision: Decision, waiting: Waiting, starts: Mapping[JobKey, Start]) -> Entry:
    """Returns the entry of a job that does not fit, with the units that are reserved for the job."""
    reservation, start = decision.cluster.reservations.of(waiting.job.key), starts.get(waiting.job.key)
    broken = waiting.shortage.ranking.broken if waiting.shortage and not waiting.shortage.can_end else {}
    broken_text = join_names([f"{unit}: {cause.detail}" for unit, cause in broken.items()])
    text = "; ".join(filter(None, (waiting.text(), broken_text)))
    entry = _entry(decision, waiting.job, waiting.reason, text, start)
    return replace(entry, units=reservation.units) if reservation else entry


def _overtaken(entry: Entry, earlier: Iterable[Entry]) -> tuple[str, ...]:
    """Returns the jobs with an earlier position that start later."""
    start = entry.start
    return tuple(other.job for other in earlier if start and other.start and start < other.start)


def _help_texts(decision: Decision) -> Iterator[str]:
    """Yields what would help the job with the reservation or, without a reservation, the first job."""
    cluster, reservation = decision.cluster, next(iter(decision.cluster.reservations), None)
    short_jobs = [(waiting.job, waiting.shortage) for waiting in decision.waiting if waiting.shortage]
    if reservation:
        short_jobs = [(job, shortage) for job, shortage in short_jobs if job.key == reservation.job]
    for job, shortage in short_jobs[:1]:
        if reservation and reservation.is_internal:
            yield f"jobs of other namespaces may use the reserved units before {display_name(job.key)}"
        for unit, cause in causes(cluster, shortage.ranking, job):
            if cause.category == "full":
                yield f"{unit}: {cause.detail}"


def start_text(entry: Entry, now: datetime) -> str:
    """Returns when a job starts, such as ``about 12:10, by 12:30 UTC``; empty if that is not known."""
    start, latest = entry.start, entry.latest
    if not start or start == now:
        return "now" if start else ""
    times = [] if start == latest else [f"about {clock_text(start, now)}"]
    return f"{', '.join([*times, f'by {clock_text(latest, now)}'] if latest else times)} UTC"


def _expected_start(entry: Entry, now: datetime) -> str:
    """Returns when a job starts, for a sentence."""
    if not entry.start:
        return "its start time is not known"
    return f"starts in {length_text(entry.start - now)} ({start_text(entry, now)})"


def standing_text(job_queue: Queue, entry: Entry, now: datetime) -> str:
    """Returns the position of a job, and when it starts, in a sentence without its subject."""
    if entry.reason in STUCK:
        return f"is blocked: {entry.text}"
    if not entry.position:
        return "waits; its position in the queue is not known"
    position = (
        f"waits in position {entry.position} of {sum(1 for other in job_queue.entries if other.position)}"
    )
    if entry.reason == FITS:
        return f"{position}, and {entry.text}"
    return ", ".join(filter(None, (position, f"and {_expected_start(entry, now)}", entry.start_note)))


def _summary(entries: Sequence[Entry], fleet: Fleet, stopped_reason: str) -> str:
    """Returns how many jobs wait, and which is next."""
    if not entries:
        return "No job waits."
    blocked = sum(entry.reason in STUCK for entry in entries)
    texts = [f"{len(entries)} jobs wait" if len(entries) > 1 else "1 job waits"]
    texts[0] += f" at {clock_text(fleet.now, fleet.now)} UTC"
    texts[0] += f", {blocked} of them blocked" if 0 < blocked < len(entries) else ""
    ready = [entry.job for entry in entries if entry.reason == FITS]
    waiting = [entry for entry in entries if entry.position and entry.reason != FITS]
    first = next((entry for entry in waiting if entry.units), next(iter(waiting), None))
    if fleet.unseen:
        texts.append("which is next is not known")
    elif stopped_reason:
        texts.append(f"the placement program {stopped_reason}")
    else:
        texts += [f"{join_names(ready)} fit{'' if len(ready) > 1 else 's'} now"] if ready else []
        if first:
            state = "is next" if first is waiting[0] else "has the reservation"
            if ahead := [entry for entry in waiting if first.job in entry.ahead]:
                soonest = min(ahead, key=lambda entry: entry.start or fleet.now)
                texts.append(f"{soonest.job} {_expected_start(soonest, fleet.now)}, ahead of {first.job}")
                state = "is first in the order" if first is waiting[0] else state
            texts.append(f"{first.job} {state} and {_expected_start(first, fleet.now)}")
        elif not ready:
            texts.append("none can be admitted at present")
    return f"{'; '.join(texts)}."
