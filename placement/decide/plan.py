"""What is wanted, what is to be done, and what one decision tells the next."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Final, NamedTuple, Self

from placement.decide.choose import Ranking
from placement.decide.cluster import Cluster
from placement.decide.jobs import Job
from placement.observe.model import UNITS, JobKey, Pod, Units

FIRST_PAUSE: Final = timedelta(seconds=10)
"""After a write that was refused; doubles each time."""

LONGEST_PAUSE: Final = timedelta(minutes=30)
"""A job opened without getting its nodes is tried again at once, then after pauses that double up to this."""

REMEMBERED: Final = 2 * LONGEST_PAUSE
"""How long it is known that a job, or an admission to some nodes, came to nothing."""

MOST_PLANNED: Final = 256
"""Blocks whose units stand on one pod: at most a fourteenth of the room for its annotations."""

LONGEST_REFUSAL: Final = 400
"""Characters of what the API server said that are told to people; an answer may quote a whole object."""


@dataclass(frozen=True, slots=True)
class Tuning:
    """How long placement waits for what, and which units there are.

    Attributes:
        patience: How long younger jobs may pass one that does not fit.
        bound: How long a job that was opened may be without a node for each of its workers, before those
            that have not started are deleted.
        keeping: How long units are kept at a time; then everybody has the patience to get them.
        units: Which node labels make units, and of how many nodes.
    """

    patience: timedelta = timedelta(minutes=10)
    bound: timedelta = timedelta(minutes=2)
    keeping: timedelta = timedelta(hours=1)
    units: Units = UNITS


class Unsettled(NamedTuple):
    """Since when an opened job has lacked nodes; and how many workers had one since, at most."""

    since: datetime
    placed: int


@dataclass(frozen=True, slots=True)
class Failure:
    """Openings of a job that came to nothing.

    Attributes:
        count: How many, one after the other; of those that were nobody's fault none.
        at: When the last was given up.
        units: The units that it had, which are avoided.
        refused: What the API server said to the last write; empty where the job was given up.
    """

    count: int
    at: datetime
    units: frozenset[str]
    refused: str = ""

    def again(self, tuning: Tuning) -> datetime:
        """When the job is tried again: the first time at once, but for a write that was refused."""
        pause, before = (FIRST_PAUSE, 1) if self.refused else (tuning.bound, 2)
        if self.count < before:
            return self.at
        return self.at + min(pause * 2.0 ** min(self.count - before, 16), LONGEST_PAUSE)

    def counts(self, now: datetime) -> bool:
        """Whether it is remembered still."""
        return now - self.at < REMEMBERED


@dataclass(frozen=True, slots=True)
class Keeping:
    """A turn: for an hour or so units are kept for jobs that waited too long, then for none.

    It ends by the clock alone: whoever deletes a job for which they are kept, and has another wait, begins
    no other turn.

    Attributes:
        namespace: Of the job that it began with, whose turn the next one is not, if others wait.
        since: When.
        after: The namespace whose turn it was before: nothing is kept for it while those of this one wait.
    """

    namespace: str
    since: datetime
    after: str = ""

    def over(self, now: datetime, tuning: Tuning) -> bool:
        """Whether it has lasted as long as units are kept at a time."""
        return now - self.since >= tuning.keeping

    def rests(self, now: datetime, tuning: Tuning) -> bool:
        """Whether nothing is kept for anybody yet after it: everybody has the patience to get the units."""
        return self.over(now, tuning) and now - self.since < tuning.keeping + tuning.patience


def remembered(times: Mapping[str, datetime], now: datetime) -> dict[str, datetime]:
    """Returns those of the times that are remembered still."""
    return {name: at for name, at in times.items() if now - at < REMEMBERED}


@dataclass(frozen=True)
class Memory:
    """What one decision tells the next; a leader that knows nothing of it decides well, if later.

    Attributes:
        keeping: The turn that lasts, or was last.
        doubtful: Nodes where a job was admitted in vain, by name, and when the last was.
        vain: Namespaces of such jobs, and when the last was.
        parked: Since when jobs wait that could not be admitted at times, whatever was free, without those.
        at: When it was.
    """

    unsettled: Mapping[JobKey, Unsettled] = field(default_factory=dict)
    failures: Mapping[JobKey, Failure] = field(default_factory=dict)
    keeping: Keeping | None = None
    doubtful: Mapping[str, datetime] = field(default_factory=dict)
    vain: Mapping[str, datetime] = field(default_factory=dict)
    parked: Mapping[JobKey, datetime] = field(default_factory=dict)
    at: datetime | None = None

    def refused(self, job: JobKey, why: str, now: datetime) -> Self:
        """The same, and that a write to a job's pods was refused."""
        before = self.failures.get(job, Failure(0, now, frozenset()))
        failure = replace(before, count=before.count + 1, at=now, refused=why[:LONGEST_REFUSAL])
        return replace(self, failures={**self.failures, job: failure})


class Opening(NamedTuple):
    """A job that is let through: first the units of all blocks, then, when these are stored, every pod.

    Attributes:
        job: Which; its unpinned workers get their pins, and its gated pods lose the gate.
        blocks: For the number of each block with an unpinned worker the unit that it is pinned to.
    """

    job: Job
    blocks: Mapping[int, str]

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
    """A job's pods that their operator is to recreate: none of them ever started."""

    job: Job
    pods: tuple[Pod, ...]
    why: str


@dataclass(frozen=True, slots=True)
class Waiting:
    """A job that waits.

    Attributes:
        why: As a sentence without its end.
        ranking: The units that it lacks are of these; None where it waits for something else.
    """

    job: Job
    why: str
    ranking: Ranking | None = None


@dataclass(frozen=True)
class Decision:
    """What to do now.

    Attributes:
        openings: The jobs to open, in this order.
        doubted: The pods that are not believed and do not wait, as jobs of one, and why.
        errors: Jobs about which this program made a mistake; they wait, too.
        cluster: The cluster as it will be then.
        units: Which node labels make units, and of how many nodes.
    """

    openings: tuple[Opening, ...]
    deletions: tuple[Deletion, ...]
    waiting: tuple[Waiting, ...]
    doubted: tuple[Waiting, ...]
    errors: tuple[tuple[Job, Exception], ...]
    memory: Memory
    cluster: Cluster
    units: Units
