"""The jobs of a trace: which of its rows are used, when they arrive, and how long they run.

A trace is a CSV file, also compressed, with the columns ``timestamp,duration,num_gpus,cluster``, as the
Philly traces have them. One GPU is one node, and a cluster is a tenant.
"""

import csv
import gzip
import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import groupby
from pathlib import Path

HOUR, DAY = 3600.0, 86400.0
WEEK = 7 * DAY
FIRST, WEEKS = datetime(2017, 9, 18), 8  # noqa: DTZ001 - the trace names no zone
"""The weeks of the Philly traces that are used."""


@dataclass(frozen=True, slots=True)
class Job:
    """A job of a trace.

    Attributes:
        number: Its place in the order of arrival.
        nodes: How many it takes.
        arrival: When it arrives, in seconds.
        duration: How long it runs, in seconds.
        limit: The longest time that it may run, by its limit; None if it has no limit.
    """

    number: int
    tenant: str
    nodes: int
    arrival: float
    duration: float
    limit: float | None = None

    @property
    def size(self) -> int:
        """The nodes of a unit: its node config."""
        return 4 if self.nodes % 4 == 0 else 2 if self.nodes % 2 == 0 else 1

    @property
    def units(self) -> int:
        """How many units it takes."""
        return self.nodes // self.size

    @property
    def work(self) -> float:
        """Nodes times seconds."""
        return self.nodes * self.duration


def read(path: Path, first: datetime = FIRST, weeks: int = WEEKS) -> list[Job]:
    """Returns the jobs of some weeks of a trace, by arrival; arrivals count from the first week's begin."""
    with gzip.open(path, "rt") if path.suffix == ".gz" else path.open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    jobs = [
        Job(
            0,
            row["cluster"],
            int(row["num_gpus"]),
            (datetime.fromisoformat(row["timestamp"]) - first).total_seconds(),
            min(float(row["duration"]), WEEK),
        )
        for row in rows
    ]
    return _numbered(job for job in jobs if 0 <= job.arrival < weeks * WEEK)


def thinned(jobs: Iterable[Job], seed: int, share: float = 0.5) -> list[Job]:
    """Returns each job with the probability that is given."""
    chance = random.Random(seed)  # noqa: S311 - an experiment that can be had again
    return _numbered(job for job in jobs if chance.random() < share)


def stretched(jobs: Iterable[Job], nodes: int, load: float) -> list[Job]:
    """Returns the jobs with each week made as long as it takes to offer this many nodes that load."""
    result: list[Job] = []
    begin = 0.0
    for week, group in groupby(jobs, lambda job: job.arrival // WEEK):
        own = list(group)
        factor = sum(job.work for job in own) / (nodes * load * WEEK)
        result += [replace(job, arrival=begin + (job.arrival - week * WEEK) * factor) for job in own]
        begin += WEEK * factor
    return result


def limited(jobs: Iterable[Job], limits: str) -> list[Job]:
    """Returns the jobs with time limits: ``known`` exactly, ``times3`` three times too long, or ``none``."""
    factor = {"known": 1.0, "times3": 3.0, "none": None}[limits]
    return [replace(job, limit=factor and job.duration * factor) for job in jobs]


def shares(jobs: Sequence[Job], units: int) -> dict[str, int]:
    """Returns how many UltraServers each tenant owns if they are divided by its work; at least one.

    What is left after rounding down goes to the largest remainders.
    """
    work: dict[str, float] = {}
    for job in jobs:
        work[job.tenant] = work.get(job.tenant, 0.0) + job.work
    exact = {tenant: units * own / sum(work.values()) for tenant, own in work.items()}
    given = {tenant: max(1, int(part)) for tenant, part in exact.items()}
    for tenant in sorted(exact, key=lambda name: given[name] - exact[name]):
        if sum(given.values()) >= units:
            break
        given[tenant] += 1
    return given


def _numbered(jobs: Iterable[Job]) -> list[Job]:
    ordered: Iterator[Job] = iter(sorted(jobs, key=lambda job: job.arrival))
    return [replace(job, number=number) for number, job in enumerate(ordered)]
