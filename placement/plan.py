"""What is wanted, what is to be done, and what one decision tells the next."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from placement.cluster import Cluster
    from placement.jobs import Job
    from placement.model import JobKey, Pod


@dataclass(frozen=True, slots=True)
class Policy:
    """What is wanted.

    Attributes:
        patience: How long younger jobs may pass one that does not fit.
        bound: How long a job that was opened may be without a node for each of its workers, before those
            that have not started are deleted.
        longest_pause: A job that was opened in vain is tried again at once, then after a pause that
            doubles up to this.
    """

    patience: timedelta = timedelta(minutes=10)
    bound: timedelta = timedelta(minutes=2)
    longest_pause: timedelta = timedelta(minutes=30)


@dataclass(frozen=True, slots=True)
class Unsettled:
    """A job that was opened and has not a node for each of its workers.

    Attributes:
        since: Since when that is so without any change.
        pods: The uids of the workers without a node.
    """

    since: datetime
    pods: frozenset[str]


@dataclass(frozen=True, slots=True)
class Failure:
    """Openings of a job that came to nothing.

    Attributes:
        count: How many, one after the other.
        at: When the last was given up.
        units: The units that it had, which are avoided.
    """

    count: int
    at: datetime
    units: frozenset[str]


@dataclass(frozen=True)
class Memory:
    """What one decision tells the next; a leader that knows nothing of it decides well, if later.

    Attributes:
        unsettled: Since when a job that was opened has had the same workers without a node, and which.
        failures: Openings that came to nothing.
    """

    unsettled: Mapping[JobKey, Unsettled] = field(default_factory=dict)
    failures: Mapping[JobKey, Failure] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Pin:
    """A pod and the unit that it is to be pinned to, by a node label and its value."""

    pod: Pod
    key: str
    value: str


@dataclass(frozen=True, slots=True)
class Opening:
    """A job that is let through: first every pin, then, when all are stored, every gate."""

    job: Job
    pins: tuple[Pin, ...]

    @property
    def gated(self) -> tuple[Pod, ...]:
        """The pods that lose the gate."""
        return self.job.gated


@dataclass(frozen=True, slots=True)
class Deletion:
    """A job's pods that are to be made anew by their operator: none of them ever started."""

    job: Job
    pods: tuple[Pod, ...]
    why: str


@dataclass(frozen=True, slots=True)
class Waiting:
    """A job that waits, and why, as a sentence without its end."""

    job: Job
    why: str


@dataclass(frozen=True)
class Decision:
    """What to do now.

    Attributes:
        openings: The jobs to open, in this order.
        deletions: The pods to delete.
        waiting: The jobs that wait.
        memory: For the next decision.
        cluster: The cluster as it will be then.
    """

    openings: tuple[Opening, ...]
    deletions: tuple[Deletion, ...]
    waiting: tuple[Waiting, ...]
    memory: Memory
    cluster: Cluster
