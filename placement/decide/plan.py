"""The inputs and results of a decision: settings, memory, admissions, deletions and reasons."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Final, NamedTuple, Self, TypeVar

from common.texts import printable
from placement import messages
from placement.decide.choose import Ranking
from placement.decide.cluster import Cluster
from placement.decide.jobs import Job, JobCache, Layout
from placement.decide.members import Member
from placement.decide.reserve import AdmittedJob, Shares
from placement.decide.topology import Topology
from placement.messages import EventReason, Reason
from placement.observe.model import UNITS, JobKey, Pod, UnitSettings

# After a refused write, the first retry waits for FIRST_BACKOFF. After a failed admission, the first retry
# is at once, and the second waits for `Tuning.bound`. Each later retry waits twice as long as the retry
# before it, but at most for LONGEST_BACKOFF.
FIRST_BACKOFF: Final = timedelta(seconds=10)
LONGEST_BACKOFF: Final = timedelta(minutes=30)
# The time for which failures, departures and preemptions are remembered.
MEMORY_TIME: Final = 2 * LONGEST_BACKOFF

# How often a job may leave failed nodes, or have its launchers deleted before its workers, in `MEMORY_TIME`.
MOST_DEPARTURES: Final = 3

# Maximum number of blocks for one pod with a plan: its own block and the blocks in its plan. Such a plan
# has at most a fourteenth of the bytes that the API server permits for annotations.
MOST_PLANNED: Final = 256
# Maximum characters of the reason for which a job waits. The API server accepts 1,024 bytes in an Event's
# note.
LONGEST_REASON: Final = 900
# Maximum characters that are kept of the API server's refusal, which may quote a whole object.
LONGEST_REFUSAL: Final = 400

Key = TypeVar("Key")
Times = tuple[datetime, ...]


@dataclass(frozen=True, slots=True)
class Tuning:
    """The settings of a decision: times and units."""

    # After this time without a further worker on a node, an admission has failed, and the job is evicted.
    bound: timedelta = timedelta(minutes=2)
    default_limit: timedelta = timedelta(days=1)  # the time limit of a job that has none
    reserves: bool = True  # whether units are reserved for jobs that do not fit
    units: UnitSettings = UNITS
    failed_after: timedelta = timedelta(minutes=1)  # how long a job tolerates a failed node
    preempts: bool = True  # whether jobs preempt other jobs if the table permits it


class Unsettled(NamedTuple):
    """An admitted job that lacks nodes for some of its workers."""

    since: datetime  # when it began to lack nodes, or when more of its workers got nodes
    placed: int  # the number of workers that had nodes then; since then, it has not grown


@dataclass(frozen=True, slots=True)
class Failure:
    """The failed admissions of a job, and the refused writes to its pods."""

    count: int  # the number of consecutive failures that the job caused, including refused writes
    at: datetime  # the time of the last failure
    refusal: str = ""  # the API server's refusal; empty if the last failure was an eviction

    def retry_time(self, tuning: Tuning) -> datetime:
        """Returns when the job is tried again: the first retry is at once, except after a refused write."""
        backoff, before = (FIRST_BACKOFF, 1) if self.refusal else (tuning.bound, 2)
        if self.count < before:
            return self.at
        return self.at + min(backoff * 2.0 ** min(self.count - before, 16), LONGEST_BACKOFF)


class Departure(NamedTuple):
    """A job whose pods were deleted because a node failed or because it was preempted."""

    deleted_at: datetime  # when its pods were deleted last
    nodes: frozenset[str]  # the names of the nodes that are held for its move; empty if it does not move
    age_start: datetime | None = None  # when its age begins; None if it moves, or has all its nodes again
    layout: Layout = (0, 0, "")  # a job with the same name and another layout is another job
    is_preempted: bool = False


class Preemption(NamedTuple):
    """A preemption that is in progress: a job and its victims."""

    job: JobKey  # the job that waits for the units of the victims
    workers: frozenset[str]  # the uids of the job's workers: a later job of this name has other uids
    priority: int  # the priority of the job's workers
    began: datetime  # when the preemption began
    victims: frozenset[JobKey]
    pods: frozenset[str]  # the uids of the victims' pods that ran when the preemption began
    units: tuple[str, ...]  # the units that the job will get
    nodes: frozenset[str]  # the names of the nodes of these units
    ended: datetime | None = None  # when the last of the victims' pods ended; None while one exists


def _recent_keys(times: Mapping[Key, datetime], now: datetime) -> dict[Key, datetime]:
    return {key: at for key, at in times.items() if now - at < MEMORY_TIME}


def _recent_entries(times: Mapping[Key, Times], now: datetime) -> dict[Key, Times]:
    recent = {key: tuple(at for at in entry if now - at < MEMORY_TIME) for key, entry in times.items()}
    return {key: entry for key, entry in recent.items() if entry}


class Cache(NamedTuple):
    """Results of a decision that the next decision may use again.

    A result is used again only if its pod and ``units`` have not changed and, for a member with a node, the
    topology has not changed either.
    """

    topology: Topology
    units: UnitSettings
    members: Mapping[str, Member]  # by the uid of the pod
    jobs: JobCache


@dataclass(frozen=True)
class Memory:
    """What a decision remembers for the next decision. Maps have the keys of jobs, unless noted.

    A new leader begins with an empty memory: this delays some decisions, but makes none wrong. A decision
    fills the maps, and nothing changes them afterwards.
    """

    unsettled: dict[JobKey, Unsettled] = field(default_factory=dict)
    failures: dict[JobKey, Failure] = field(default_factory=dict)
    # The jobs with reservations, each with the time since which jobs of its namespace have had reservations.
    reserved_since: dict[JobKey, datetime] = field(default_factory=dict)
    # When a job that still waits first got a reservation with which it keeps its position in the queue.
    position_kept_since: dict[JobKey, datetime] = field(default_factory=dict)
    # For waiting large jobs: the time at which the job first came before others because of its age.
    favoured_since: dict[JobKey, datetime] = field(default_factory=dict)
    # When each job got its units; and by namespace, when a job last exceeded its time limit.
    admitted_jobs: dict[JobKey, AdmittedJob] = field(default_factory=dict)
    exceeded_limits: dict[str, datetime] = field(default_factory=dict)
    # When an admission last failed: by each node that the job did not get, and by the job's namespace.
    doubtful_nodes: dict[str, datetime] = field(default_factory=dict)
    failed_namespaces: dict[str, datetime] = field(default_factory=dict)
    # When jobs were admitted, if that was within the last `Tuning.bound` / 4.
    recent_admissions: dict[JobKey, datetime] = field(default_factory=dict)
    # By namespace: its debt, which reduces the age of all its jobs, and when the debt last grew.
    age_debts: dict[str, tuple[timedelta, datetime]] = field(default_factory=dict)
    # When the age of a job begins: later by the times in which its author prevented its admission.
    age_starts: dict[JobKey, datetime] = field(default_factory=dict)
    # When a job began to lack a node that failed; and the jobs that left failed nodes or were preempted.
    lost_since: dict[JobKey, datetime] = field(default_factory=dict)
    departures: dict[JobKey, Departure] = field(default_factory=dict)
    # The times at which a job left failed nodes, and at which its launcher was deleted before its workers.
    node_failures: dict[JobKey, Times] = field(default_factory=dict)
    launcher_deletions: dict[JobKey, Times] = field(default_factory=dict)
    # The preemption that is in progress; and by namespace, the times at which its jobs preempted other jobs.
    preemption: Preemption | None = None
    preemption_times: dict[str, Times] = field(default_factory=dict)
    # When the preemption for a job failed; and the time until which a job cannot be a victim again.
    failed_preemptions: dict[JobKey, datetime] = field(default_factory=dict)
    spared_until: dict[JobKey, datetime] = field(default_factory=dict)
    first_decision: datetime | None = None  # when this leader made its first decision
    decided_at: datetime | None = None  # when the decision was made
    cut_off_at: datetime | None = None  # the last time at which most nodes were not Ready
    cache: Cache | None = field(default=None, compare=False, repr=False)

    def carry_over(self, now: datetime) -> Self:
        """Returns what a decision at this time keeps of the memory. The decision adds new entries."""
        debts = self.age_debts.items()
        return type(self)(
            failures={job: failed for job, failed in self.failures.items() if now - failed.at < MEMORY_TIME},
            doubtful_nodes=_recent_keys(self.doubtful_nodes, now),
            failed_namespaces=_recent_keys(self.failed_namespaces, now),
            age_debts={name: (debt, at) for name, (debt, at) in debts if now - at < max(debt, MEMORY_TIME)},
            node_failures=_recent_entries(self.node_failures, now),
            launcher_deletions=_recent_entries(self.launcher_deletions, now),
            preemption_times=_recent_entries(self.preemption_times, now),
            failed_preemptions=_recent_keys(self.failed_preemptions, now),
            spared_until={key: until for key, until in self.spared_until.items() if now < until},
            first_decision=self.first_decision or now,
            decided_at=now,
        )

    def with_refusal(self, job: JobKey, why: str, now: datetime) -> Self:
        """Returns the memory with one more failure of a job: the API server refused a write to its pods."""
        before = self.failures.get(job, Failure(0, now))
        failure = replace(before, count=before.count + 1, at=now, refusal=why[:LONGEST_REFUSAL])
        return replace(self, failures={**self.failures, job: failure})


class Admission(NamedTuple):
    """An admission: first the units of all blocks are written, then the gate of each pod is removed."""

    job: Job
    blocks: Mapping[int, str]  # the unit of each block that has unpinned workers, by the block's number

    @property
    def plans(self) -> tuple[tuple[Pod, Mapping[int, str]], ...]:
        """The workers that are pinned first, each with its plan: the units of the blocks after its own."""
        first_pods = {member.pod.block: member.pod for member in reversed(self.job.unpinned_workers)}
        blocks = sorted(self.blocks)
        parts = (blocks[start : start + MOST_PLANNED] for start in range(0, len(blocks), MOST_PLANNED))
        return tuple((first_pods[part[0]], {key: self.blocks[key] for key in part[1:]}) for part in parts)

    @property
    def units(self) -> tuple[str, ...]:
        """The units that workers are pinned to."""
        return tuple(dict.fromkeys(self.blocks.values()))


class Deletion(NamedTuple):
    """Pods of a job that are deleted, so that their operator recreates them."""

    job: Job
    pods: tuple[Pod, ...]
    why: str  # the reason, for the Event and the log
    # The Event's reason if the job leaves a failed node or is preempted. None if workers got no node in time:
    # then pods that have started stay.
    reason: EventReason | None = None
    at_once: frozenset[str] = frozenset()  # the uids of pods that are deleted without a grace period
    is_last: bool = True  # False if only launchers are deleted now, and the workers later
    preemptor: Job | None = None  # the job that preempts this job


@dataclass(frozen=True, slots=True)
class Shortage:
    """Why a job waits for units: too few units that suit the job are free."""

    ranking: Ranking  # the units that suit the job
    needed: int  # how many units the job needs
    possible: int  # how many units it may have after other jobs have ended; exact if fewer than ``needed``
    is_reserved: bool  # whether units that become free are reserved for the job
    victims: tuple[str, ...] = ()  # the names of the jobs that it preempts

    @property
    def can_end(self) -> bool:
        """Whether the job may have its units after other jobs have ended."""
        return self.possible >= self.needed

    @property
    def needs(self) -> str:
        """The number of units that the job needs, as a text."""
        return messages.needs(self.needed, self.ranking.placement.size, parts=self.ranking.has_parts)


@dataclass(frozen=True, slots=True)
class Waiting:
    """A job that waits."""

    job: Job
    obstacle: str  # why the job waits; empty if it waits for units only
    reason: Reason = Reason.PODS
    shortage: Shortage | None = None  # None if the job waits for something else
    leave_reason: str = ""  # why the job must leave its units, if it must and cannot yet
    # The following fields are set if there is a shortage.
    free_count: int = 0  # the number of free units
    withheld_count: int = 0  # how many free units are reserved for another job or kept by a guarantee
    reasons: tuple[str, ...] = ()  # why these units are reserved or kept
    unit_causes: str = ""  # for units that the job cannot use, the causes as a text

    def text(self, *, reserved: bool = False) -> str:
        """Returns why the job waits, without ``unit_causes``. ``reserved`` adds a text about reservations."""
        why = self.obstacle
        if shortage := self.shortage:
            free = messages.free(self.free_count, self.withheld_count, self.reasons)
            possible = None if shortage.can_end else shortage.possible
            reserved = reserved and shortage.is_reserved
            why = messages.shortage(shortage.needs, free, shortage.victims, possible, reserved=reserved)
        text = messages.cannot_move(self.leave_reason, why) if self.leave_reason else why
        return printable(text, LONGEST_REASON)

    @property
    def why(self) -> str:
        """The full reason for which the job waits, with a maximum length: a sentence without a full stop."""
        texts = self.text(reserved=True), self.unit_causes
        return printable("; ".join(filter(None, texts)), LONGEST_REASON)


@dataclass(frozen=True)
class Decision:
    """What the program does now: the admissions, the deletions, and why the other jobs wait."""

    admissions: tuple[Admission, ...]  # in the order in which they are written
    deletions: tuple[Deletion, ...]
    waiting: tuple[Waiting, ...]  # in the order of the queue
    # Pods without a gate that have a `Member.problem`, such as an annotation that is not trusted. Each pod
    # has its own entry, with the problem.
    untrusted: tuple[Waiting, ...]
    # The jobs that a bug affects. After a bug in `loss_of`, a job may be missing in `waiting`.
    errors: tuple[tuple[Job, Exception], ...]
    memory: Memory
    cluster: Cluster  # the cluster after the admissions
    shares: Shares  # the shares before the admissions
