"""The jobs that wait for whole-job admission, in the order of placement's own decision. Pure."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from common.times import about, clock
from kube.api import Object
from kubectl_ultraserver.fleet import Fleet
from kubectl_ultraserver.messages import few
from kubectl_ultraserver.scheduling import scene_of, silence
from placement.decide.cluster import shown
from placement.decide.forecast import Start, forecast
from placement.decide.jobs import Job
from placement.decide.plan import Decision, Waiting
from placement.decide.reasons import causes
from placement.messages import STUCK
from placement.observe.model import Ended, JobKey

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
    "ahead of: a job starts before jobs with an earlier position, on units that these cannot use then: they "
    "need more units, would run into a reservation (a shorter LIMIT helps), or their SHARE has grown"
)
ENDLESS: Final = "not known: the job waits for jobs or Pods without a known end, or for too many of them"
SECONDS: Final = 10.0
"""Seconds after which no further decision begins. A forecast makes up to a hundred decisions."""
LATE: Final = f"times are computed for {SECONDS:g} seconds at most, and jobs that would start later have none"
FITS: Final = "fits"
"""The reason of a job that waits for the next decision only; the others are those of `Reason`."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A job that waits.

    Attributes:
        position: Its position in the queue, from 1; None if it has none, or if that is not known.
        namespace: Its namespace.
        job: Its namespace and name.
        workers: The number of its workers.
        priority: Its priority.
        share: The share of all nodes that its namespace has, from 0 to 1.
        since: The time since which all its workers exist.
        limit: Its time limit in seconds; None if it has none.
        reason: The kind of reason why it waits: `FITS` or a `Reason`; empty if that is not known.
        text: Why it waits.
        start: When it starts; None if that is not known.
        latest: When it starts at the latest, if that depends on time limits only.
        after: The jobs that end then.
        ahead: The jobs with an earlier position that start later.
        units: The units that are reserved for it.
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
    def when(self) -> str:
        """What happens when it starts: which jobs end then, and ahead of which ones it starts."""
        ends = f"when {few(self.after)} end{'' if len(self.after) > 1 else 's'}" if self.after else ""
        return ", ".join(filter(None, (ends, f"ahead of {few(self.ahead)}" if self.ahead else "")))


@dataclass(frozen=True, slots=True)
class Queue:
    """The jobs that wait.

    Attributes:
        text: The most important facts in a sentence.
        entries: The jobs in order, those without a position last.
        notes: What would help the first job, and what limits these facts.
    """

    text: str
    entries: tuple[Entry, ...]
    notes: tuple[str, ...] = ()


def queue(
    fleet: Fleet, ended: Sequence[Ended], lease: Object | None, goes_on: Callable[[], bool] = lambda: True
) -> Queue:
    """Returns the jobs that wait.

    Args:
        fleet: The nodes and pods. If not all could be listed, neither positions nor times are known.
        ended: The workers that have ended.
        lease: The Lease of the placement program; see `silence`.
        goes_on: Returns whether there is time to compute when one more job may start.
    """
    scene, silent = scene_of(fleet, [*fleet.pods, *ended]), silence(lease, fleet.now)
    decision = scene.decision()
    known = not (fleet.unseen or silent)
    wanted = [waiting.job.key for waiting in decision.waiting if known and waiting.reason not in STUCK]
    starts = forecast(scene, decision, wanted, goes_on=goes_on)
    late = len(starts) < len(wanted) and not goes_on()
    now = Start(fleet.now, fleet.now) if known else None
    entries = [
        _entry(decision, each.job, FITS, f"fits {few(each.units)}; see its Events if it still waits", now)
        for each in decision.openings
    ]
    entries += [_waiting(decision, waiting, starts) for waiting in decision.waiting]
    if not known:
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
    entries = [replace(entry, ahead=_ahead(entry, entries[:place])) for place, entry in enumerate(entries)]
    notes = [*_help(decision)] if known else []
    notes += [ORDER] if len(entries) > 1 and not fleet.unseen else []
    notes += [RESERVED] if any(entry.units for entry in entries) else []
    notes += [AHEAD] if any(entry.ahead for entry in entries) else []
    notes += [EXACT] if any(entry.latest and entry.reason != FITS for entry in entries) else []
    notes += [ESTIMATE] if any(entry.start not in (None, entry.latest) for entry in entries) else []
    notes += [LATE] if late else [ENDLESS] if len(starts) < len(wanted) else []
    notes += [f"{fleet.unseen}; so positions and times are not known"] if fleet.unseen else []
    entries.sort(key=lambda entry: entry.position is None)
    return Queue(_text(entries, fleet, silent), tuple(entries), tuple(notes))


def _entry(decision: Decision, job: Job, reason: str, text: str, start: Start | None = None) -> Entry:
    workers = next((member.place.workers for member in job.workers if member.place), 0)
    order = job.priority, decision.shares.by_namespace.get(job.key[0], 0.0), job.created
    limit = job.limit.total_seconds() if job.limit else None
    entry = Entry(None, job.key[0], shown(job.key), workers, *order, limit, reason, text)
    after = tuple(map(shown, start.after)) if start else ()
    return replace(entry, start=start.at, latest=start.latest, after=after) if start else entry


def _waiting(decision: Decision, waiting: Waiting, starts: Mapping[JobKey, Start]) -> Entry:
    """Returns a job that does not fit, with its reservation."""
    reservation, start = decision.cluster.reservation, starts.get(waiting.job.key)
    lost = waiting.shortage.ranking.broken if waiting.shortage and not waiting.shortage.can_end else {}
    broken = few([f"{unit}: {cause.detail}" for unit, cause in lost.items()])
    text = "; ".join(filter(None, (waiting.text(), broken)))
    entry = _entry(decision, waiting.job, waiting.reason, text, start)
    held = reservation and reservation.job == waiting.job.key
    return replace(entry, units=reservation.units) if reservation and held else entry


def _ahead(entry: Entry, earlier: Iterable[Entry]) -> tuple[str, ...]:
    """Returns the jobs with an earlier position that start later."""
    start = entry.start
    return tuple(other.job for other in earlier if start and other.start and start < other.start)


def _help(decision: Decision) -> Iterator[str]:
    """Yields what would help the job with the reservation or, if there is none, the first job."""
    cluster, reservation = decision.cluster, decision.cluster.reservation
    wanting = [(waiting.job, waiting.shortage) for waiting in decision.waiting if waiting.shortage]
    if reservation:
        wanting = [(job, shortage) for job, shortage in wanting if job.key == reservation.job]
    for job, shortage in wanting[:1]:
        if reservation and reservation.own:
            yield f"jobs of other namespaces may use the reserved units before {shown(job.key)}"
        for unit, cause in causes(cluster, shortage.ranking, job):
            if cause.kind == "full":
                yield f"{unit}: {cause.detail}"


def starts(entry: Entry, now: datetime) -> str:
    """Returns when a job starts, such as ``about 12:10, by 12:30 UTC``; empty if that is not known."""
    start, latest = entry.start, entry.latest
    if not start or start == now:
        return "now" if start else ""
    times = [] if start == latest else [f"about {clock(start, now)}"]
    return f"{', '.join([*times, f'by {clock(latest, now)}'] if latest else times)} UTC"


def _expected(entry: Entry, now: datetime) -> str:
    """Returns when a job starts, for a sentence."""
    if not entry.start:
        return "its start time is not known"
    return f"starts in {about(entry.start - now)} ({starts(entry, now)})"


def standing(queue: Queue, entry: Entry, now: datetime) -> str:
    """Returns the position of a job, and when it starts, in a sentence without its subject."""
    if entry.reason in STUCK:
        return f"is blocked: {entry.text}"
    if not entry.position:
        return "waits; its position in the queue is not known"
    place = f"waits in position {entry.position} of {sum(1 for each in queue.entries if each.position)}"
    if entry.reason == FITS:
        return f"{place}, and {entry.text}"
    return ", ".join(filter(None, (place, f"and {_expected(entry, now)}", entry.when)))


def _text(entries: Sequence[Entry], fleet: Fleet, silent: str) -> str:
    """Returns how many jobs wait, and which is next."""
    if not entries:
        return "No job waits."
    blocked = sum(entry.reason in STUCK for entry in entries)
    texts = [f"{len(entries)} jobs wait" if len(entries) > 1 else "1 job waits"]
    texts[0] += f" at {clock(fleet.now, fleet.now)} UTC"
    texts[0] += f", {blocked} of them blocked" if 0 < blocked < len(entries) else ""
    starting = [entry.job for entry in entries if entry.reason == FITS]
    waiting = [entry for entry in entries if entry.position and entry.reason != FITS]
    first = next((entry for entry in waiting if entry.units), next(iter(waiting), None))
    if fleet.unseen:
        texts.append("which is next is not known")
    elif silent:
        texts.append(f"the placement program {silent}")
    else:
        texts += [f"{few(starting)} fit{'' if len(starting) > 1 else 's'} now"] if starting else []
        if first:
            which = "is next" if first is waiting[0] else "has the reservation"
            if ahead := [entry for entry in waiting if first.job in entry.ahead]:
                soonest = min(ahead, key=lambda entry: entry.start or fleet.now)
                texts.append(f"{soonest.job} {_expected(soonest, fleet.now)}, ahead of {first.job}")
                which = "is first in the order" if first is waiting[0] else which
            texts.append(f"{first.job} {which} and {_expected(first, fleet.now)}")
        elif not starting:
            texts.append("none can be admitted at present")
    return f"{'; '.join(texts)}."
