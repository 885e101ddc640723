"""The inputs and results of a decision: settings, memory, admissions, deletions and reasons."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Final, NamedTuple, Self, TypeVar

from common.texts import printable
from placement import messages
from placement.decide.believe import Member
from placement.decide.choose import Ranking
from placement.decide.cluster import Cluster
from placement.decide.jobs import Job, Jobs, Layout
from placement.decide.reserve import Admission, Ends, Shares
from placement.decide.topology import Topology
from placement.messages import EventReason, Reason
from placement.observe.model import UNITS, JobKey, Pod, Units

# A job that was admitted and did not get its nodes is tried again at once, then after pauses that double up
# to the longest. After a refused write, it waits the first pause before the first retry.
FIRST_PAUSE: Final = timedelta(seconds=10)
LONGEST_PAUSE: Final = timedelta(minutes=30)
# How long failures of jobs, and of admissions to nodes, are remembered.
REMEMBERED: Final = 2 * LONGEST_PAUSE

# How often a job may leave failed nodes in the time that failures are remembered.
MOST_LEFT: Final = 3
# How often jobs of a namespace may preempt others in that time.
MOST_PREEMPTIONS: Final = 3

MOST_PLANNED: Final = 256  # blocks whose units are on one pod: a fourteenth of its room for annotations
# Characters of why a job waits. The API server refuses the note of an Event beyond 1,024 bytes.
LONGEST: Final = 900
LONGEST_REFUSAL: Final = 400  # characters of the API server's message, which may quote a whole object

Key = TypeVar("Key")


@dataclass(frozen=True, slots=True)
class Tuning:
    """The settings of a decision: times and units."""

    # How long an admitted job may lack a node for a worker, before workers that have not started are deleted.
    bound: timedelta = timedelta(minutes=2)
    default_limit: timedelta = timedelta(days=1)  # the time limit of a job that has none
    reserves: bool = True  # whether units are reserved for the first job that does not fit
    units: Units = UNITS
    failed_after: timedelta = timedelta(minutes=1)  # how long a job lacks a node before it leaves the others
    preempts: bool = True  # whether jobs preempt others, where the table permits it


class Unsettled(NamedTuple):
    """When an admitted job began to lack nodes, and the largest number of workers with a node since then."""

    since: datetime
    placed: int


@dataclass(frozen=True, slots=True)
class Failure:
    """Admissions of a job that failed."""

    count: int  # the number of consecutive failures, without those for which the job is not to blame
    at: datetime  # the time of the last failure
    units: frozenset[str]  # the units of these admissions, which are avoided
    refused: str = ""  # the API server's refusal of the last write; empty if the job was evicted

    def again(self, tuning: Tuning) -> datetime:
        """Returns when the job is tried again: the first time at once, except after a refused write."""
        pause, before = (FIRST_PAUSE, 1) if self.refused else (tuning.bound, 2)
        if self.count < before:
            return self.at
        return self.at + min(pause * 2.0 ** min(self.count - before, 16), LONGEST_PAUSE)


class Left(NamedTuple):
    """A job whose pods were deleted because a node failed or because it was preempted."""

    at: datetime  # the last time at which its pods were deleted
    times: tuple[datetime, ...]  # the times at which its nodes failed
    nodes: frozenset[str]  # the nodes of the units that are kept for it
    created: datetime | None = None  # when its age begins: a restart does not reduce it
    layout: Layout = (0, 0, "")  # a job with the same name and another layout is another job


class Preemption(NamedTuple):
    """A preemption that is in progress: a job and its victims."""

    job: JobKey  # the job that waits for the units of the victims
    workers: frozenset[str]  # the uids of its workers: with other uids it is another job of the same name
    priority: int  # the priority of its workers
    at: datetime  # when it began
    victims: frozenset[JobKey]
    pods: frozenset[str]  # the uids of the victims' pods that ran then
    units: tuple[str, ...]  # the units that the job would get
    nodes: frozenset[str]  # the nodes of these units
    gone: datetime | None = None  # the time since which none of these pods exists; None while one does


def recent(times: Iterable[datetime], now: datetime) -> tuple[datetime, ...]:
    """Returns those times that are still remembered."""
    return tuple(at for at in times if now - at < REMEMBERED)


def _remembered(times: Mapping[Key, datetime], now: datetime) -> dict[Key, datetime]:
    return {key: at for key, at in times.items() if now - at < REMEMBERED}


def _recent(times: Mapping[Key, tuple[datetime, ...]], now: datetime) -> dict[Key, tuple[datetime, ...]]:
    late = {key: recent(each, now) for key, each in times.items()}
    return {key: each for key, each in late.items() if each}


class Known(NamedTuple):
    """The members, by the uids of their pods, and the jobs of a decision, with what they depend on."""

    topology: Topology
    units: Units
    members: Mapping[str, Member]
    jobs: Jobs


@dataclass(frozen=True)
class Memory:
    """What a decision remembers for the next one; without it, a new leader decides correctly, but later.

    A decision fills its maps; afterwards nothing changes it.
    """

    unsettled: dict[JobKey, Unsettled] = field(default_factory=dict)
    failures: dict[JobKey, Failure] = field(default_factory=dict)
    # The job with the reservation, and the time at which it got the reservation.
    reserved: tuple[JobKey, datetime] | None = None
    # The jobs that have units, and when a job of a namespace last exceeded its limit.
    admitted: dict[JobKey, Admission] = field(default_factory=dict)
    exceeded: dict[str, datetime] = field(default_factory=dict)
    # Nodes that an admitted job did not get, and namespaces of such jobs, each with the last time.
    doubtful: dict[str, datetime] = field(default_factory=dict)
    vain: dict[str, datetime] = field(default_factory=dict)
    # Jobs that were admitted just now; the age that all jobs of a namespace lose, and when this last grew.
    begun: dict[JobKey, datetime] = field(default_factory=dict)
    debts: dict[str, tuple[timedelta, datetime]] = field(default_factory=dict)
    # By job, when its age begins, without the times in which it could not be admitted even to free units.
    parked: dict[JobKey, datetime] = field(default_factory=dict)
    # By job, the time since which it lacks a failed node; and the jobs that have left such nodes.
    lost: dict[JobKey, datetime] = field(default_factory=dict)
    left: dict[JobKey, Left] = field(default_factory=dict)
    # When launchers of a job were deleted before its workers.
    launchers: dict[JobKey, tuple[datetime, ...]] = field(default_factory=dict)
    # The preemption that is in progress, and by namespace the times of its preemptions.
    preemption: Preemption | None = None
    preempted: dict[str, tuple[datetime, ...]] = field(default_factory=dict)
    # By job, when its preemption failed; and by job, the time before which it cannot be a victim again.
    in_vain: dict[JobKey, datetime] = field(default_factory=dict)
    spared: dict[JobKey, datetime] = field(default_factory=dict)
    first: datetime | None = None  # the time of the first decision that is remembered
    at: datetime | None = None  # when it was
    cut_off: datetime | None = None  # the last time at which most nodes were not Ready
    # To save time: what the next decision need not find out again.
    known: Known | None = field(default=None, compare=False, repr=False)

    def later(self, now: datetime) -> Self:
        """Returns what the next decision still remembers; it adds what it finds."""
        return type(self)(
            failures={key: each for key, each in self.failures.items() if now - each.at < REMEMBERED},
            doubtful=_remembered(self.doubtful, now),
            vain=_remembered(self.vain, now),
            debts={key: each for key, each in self.debts.items() if now - each[1] < max(each[0], REMEMBERED)},
            launchers=_recent(self.launchers, now),
            preempted=_recent(self.preempted, now),
            in_vain=_remembered(self.in_vain, now),
            spared={key: until for key, until in self.spared.items() if now < until},
            first=self.first or now,
            at=now,
        )

    def refused(self, job: JobKey, why: str, now: datetime) -> Self:
        """Returns the memory with a refused write to a job's pods."""
        before = self.failures.get(job, Failure(0, now, frozenset()))
        failure = replace(before, count=before.count + 1, at=now, refused=why[:LONGEST_REFUSAL])
        return replace(self, failures={**self.failures, job: failure})


class Opening(NamedTuple):
    """An admission: first the units of all blocks are stored, then every gate is removed."""

    job: Job  # its unpinned workers get their pins, and its gated pods lose the gate
    blocks: Mapping[int, str]  # by number of a block with an unpinned worker, the unit to which it is pinned

    @property
    def plans(self) -> tuple[tuple[Pod, Mapping[int, str]], ...]:
        """The workers that are pinned first, each with the units of the blocks after its own."""
        first = {member.block: member.pod for member in reversed(self.job.unpinned)}
        blocks = sorted(self.blocks)
        parts = (blocks[start : start + MOST_PLANNED] for start in range(0, len(blocks), MOST_PLANNED))
        return tuple((first[part[0]], {block: self.blocks[block] for block in part[1:]}) for part in parts)

    @property
    def units(self) -> tuple[str, ...]:
        """The units that workers are pinned to."""
        return tuple(dict.fromkeys(self.blocks.values()))


class Deletion(NamedTuple):
    """Pods of a job to delete, so that their operator recreates them.

    Those that have started stay, unless the job leaves a failed node, or is preempted: then ``how``
    is the Event's reason.
    """

    job: Job
    pods: tuple[Pod, ...]
    why: str
    how: EventReason | None = None
    at_once: frozenset[str] = frozenset()  # the uids of those that are deleted without a grace period
    last: bool = True  # whether the job leaves the node with it; before, its launcher is deleted
    by: Job | None = None  # the job that preempts it


@dataclass(frozen=True, slots=True)
class Shortage:
    """Too few free units for a job."""

    ranking: Ranking  # the units that suit it
    needed: int  # how many of them it needs
    possible: int  # how many it may have after other jobs have ended, or more
    reserved: bool  # whether what becomes free is reserved for it
    victims: tuple[str, ...] = ()  # the names of the jobs that it preempts

    @property
    def can_end(self) -> bool:
        """Whether the job may have its units after other jobs have ended."""
        return self.possible >= self.needed

    @property
    def needs(self) -> str:
        """What the job needs."""
        return messages.needs(self.needed, self.ranking.place.size, parts=self.ranking.parts)


@dataclass(frozen=True, slots=True)
class Waiting:
    """A job that waits."""

    job: Job
    obstacle: str  # why it waits; empty if it waits for units only
    reason: Reason = Reason.PODS
    shortage: Shortage | None = None  # None if it waits for something else
    leaves: str = ""  # why it has to leave its units, and cannot yet; empty for other jobs
    # With a shortage: how many of the units are free; how many of these are reserved for another job, or kept
    # by a guarantee, and the reasons as texts; and why it cannot use each unit.
    free: int = 0
    kept: int = 0
    reasons: tuple[str, ...] = ()
    units: str = ""

    def text(self, *, reserved: bool = False) -> str:
        """Returns why it waits, without why it cannot use each unit."""
        why = self.obstacle
        if lack := self.shortage:
            free = messages.free(self.free, self.kept, self.reasons)
            most, reserved = None if lack.can_end else lack.possible, reserved and lack.reserved
            why = messages.shortage(lack.needs, free, lack.victims, most, reserved=reserved)
        return printable(messages.cannot_move(self.leaves, why) if self.leaves else why, LONGEST)

    @property
    def why(self) -> str:
        """All of why it waits: a sentence without a full stop."""
        return printable("; ".join(filter(None, (self.text(reserved=True), self.units))), LONGEST)


@dataclass(frozen=True)
class Decision:
    """What to do now."""

    openings: tuple[Opening, ...]  # in this order
    deletions: tuple[Deletion, ...]
    waiting: tuple[Waiting, ...]  # in the order of the queue
    # Pods that do not wait and whose annotation is not trusted, each as a job of its own, with the reason.
    doubted: tuple[Waiting, ...]
    errors: tuple[tuple[Job, Exception], ...]  # jobs about which this program has a bug; they wait, too
    memory: Memory
    cluster: Cluster  # the cluster after these admissions
    ends: Ends
    shares: Shares  # before these admissions
