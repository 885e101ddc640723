"""Reads the jobs of a trace, selects some of them, and changes their arrivals and time limits.

A trace is a CSV file, which may be compressed, with the columns ``timestamp,duration,num_gpus,cluster`` of
the Philly traces. A GPU of the trace is a node here, and a cluster is a tenant.
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
FIRST, WEEKS = datetime(2017, 9, 18), 8  # noqa: DTZ001 - the trace has no time zone
"""The used part of the Philly traces: its first day, and its number of weeks."""


@dataclass(frozen=True, slots=True)
class Job:
    """A job of a trace.

    Attributes:
        number: Its position in the order of arrival.
        tenant: The tenant to which it belongs.
        nodes: The number of nodes that it takes.
        arrival: When it arrives, in seconds.
        duration: How long it runs, in seconds.
        limit: Its time limit, in seconds; None if it has no limit.
    """

    number: int
    tenant: str
    nodes: int
    arrival: float
    duration: float
    limit: float | None = None

    @property
    def size(self) -> int:
        """The number of nodes of one of its units: its node config."""
        return 4 if self.nodes % 4 == 0 else 2 if self.nodes % 2 == 0 else 1

    @property
    def units(self) -> int:
        """The number of units that the job takes."""
        return self.nodes // self.size

    @property
    def work(self) -> float:
        """The job's number of nodes, multiplied by its duration."""
        return self.nodes * self.duration


def read(path: Path, first: datetime = FIRST, weeks: int = WEEKS) -> list[Job]:
    """Returns the jobs of some weeks of a trace, in order of arrival. The time begins with the first week."""
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
    """Returns a random part of the jobs: each job with the probability ``share``."""
    randomness = random.Random(seed)  # noqa: S311 - an experiment must be reproducible
    return _numbered(job for job in jobs if randomness.random() < share)


def stretched(jobs: Iterable[Job], nodes: int, load: float) -> list[Job]:
    """Returns the jobs with changed arrivals: weeks become longer or shorter, until all have this load."""
    stretched_jobs: list[Job] = []
    begin = 0.0
    for week, group in groupby(jobs, lambda job: job.arrival // WEEK):
        week_jobs = list(group)
        factor = sum(job.work for job in week_jobs) / (nodes * load * WEEK)
        stretched_jobs += [
            replace(job, arrival=begin + (job.arrival - week * WEEK) * factor) for job in week_jobs
        ]
        begin += WEEK * factor
    return stretched_jobs


def limited(jobs: Iterable[Job], limits: str) -> list[Job]:
    """Returns the jobs with time limits: the duration (``known``), its triple (``times3``), or no limit."""
    factor = {"known": 1.0, "times3": 3.0, "none": None}[limits]
    return [replace(job, limit=factor and job.duration * factor) for job in jobs]


def shares(jobs: Sequence[Job], units: int) -> dict[str, int]:
    """Returns each tenant's number of UltraServers: in proportion to the tenant's work, and at least 1.

    Numbers are rounded down. The remaining UltraServers go to the tenants with the largest remainders.
    """
    work: dict[str, float] = {}
    for job in jobs:
        work[job.tenant] = work.get(job.tenant, 0.0) + job.work
    exact_shares = {tenant: units * tenant_work / sum(work.values()) for tenant, tenant_work in work.items()}
    counts = {tenant: max(1, int(share)) for tenant, share in exact_shares.items()}
    for tenant in sorted(exact_shares, key=lambda name: counts[name] - exact_shares[name]):
        if sum(counts.values()) >= units:
            break
        counts[tenant] += 1
    return counts


def _numbered(jobs: Iterable[Job]) -> list[Job]:
    ordered: Iterator[Job] = iter(sorted(jobs, key=lambda job: job.arrival))
    return [replace(job, number=number) for number, job in enumerate(ordered)]
