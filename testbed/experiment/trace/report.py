"""Computes the figures of a run: waits by size, utilisation, and the effect of sharing on tenants' waits."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from testbed.experiment.trace.jobs import HOUR, Job
from testbed.experiment.trace.simulate import Run, Sample

SIZES = (1, 2, 4, 8, 16, 32)
NAMES = {size: f"{size}{'+' * (size == SIZES[-1])}" for size in SIZES}
LARGE = 16
DELAY_SECONDS = 600.0
"""A job is delayed if it waits this many seconds longer than on the share of its tenant alone."""


@dataclass(frozen=True)
class Figures:
    """The figures of the jobs that arrive after the first tenth of the time.

    Attributes:
        waits: The mean wait in hours, for each size that has jobs.
        longest: The longest wait in hours of jobs with 16 nodes or more.
        by_nodes: The mean wait in hours, weighted by the jobs' nodes.
        utilisation: The mean share of usable nodes that are busy while jobs wait.
        fragmented: While jobs wait, the mean number of free nodes in UltraServers that are not wholly free.
        reserved: While jobs wait, the mean number of free nodes that are reserved.
        unplaced: The number of jobs that never started.
    """

    waits: Mapping[int, float]
    longest: float
    by_nodes: float
    utilisation: float
    fragmented: float
    reserved: float
    unplaced: int


def size_class(nodes: int) -> int:
    """Returns the size class of a job: for example, 8 for a job of 12 nodes."""
    return max(size for size in SIZES if size <= nodes)


def waits(jobs: Iterable[Job], run: Run) -> dict[int, float]:
    """Returns the hours that each started job waited, by the job's number."""
    return {
        job.number: (run.starts[job.number] - job.arrival) / HOUR for job in jobs if job.number in run.starts
    }


def measured(jobs: Sequence[Job]) -> list[Job]:
    """Returns the jobs that arrive after the first tenth of the time."""
    first, last = jobs[0].arrival, jobs[-1].arrival
    return [job for job in jobs if job.arrival >= first + (last - first) / 10]


def figures(jobs: Sequence[Job], run: Run) -> Figures:
    """Returns the figures of a run."""
    measured_jobs = measured(jobs)
    hours_by_job = waits(measured_jobs, run)
    started = [job for job in measured_jobs if job.number in hours_by_job]
    by_size: dict[int, list[float]] = {size: [] for size in SIZES}
    for job in started:
        by_size[size_class(job.nodes)].append(hours_by_job[job.number])
    busy, fragmented, reserved = _with_backlog(run.samples)
    return Figures(
        {size: sum(hours) / len(hours) for size, hours in by_size.items() if hours},
        max((hours_by_job[job.number] for job in started if job.nodes >= LARGE), default=0.0),
        sum(hours_by_job[job.number] * job.nodes for job in started)
        / max(sum(job.nodes for job in started), 1),
        busy / run.usable,
        fragmented,
        reserved,
        len(measured_jobs) - len(started),
    )


def _with_backlog(samples: Sequence[Sample]) -> tuple[float, float, float]:
    """Returns the mean numbers of busy, fragmented and reserved nodes over the time in which jobs wait."""
    seconds = 0.0
    sums = [0.0, 0.0, 0.0]
    for sample, after in pairwise(samples):
        if sample.waiting:
            length = after.at - sample.at
            seconds += length
            values = (sample.busy, sample.fragmented, sample.reserved)
            sums = [total + value * length for total, value in zip(sums, values, strict=True)]
    busy, fragmented, reserved = (total / seconds if seconds else 0.0 for total in sums)
    return busy, fragmented, reserved


def mean(all_figures: Sequence[Figures]) -> Figures:
    """Returns the mean figures of the runs of several seeds, but the sum of ``unplaced``."""
    count = len(all_figures)

    def average(name: str) -> float:
        return float(sum(getattr(figures, name) for figures in all_figures)) / count

    sizes = [size for size in SIZES if any(size in figures.waits for figures in all_figures)]
    means = {}
    for size in sizes:
        hours = [figures.waits[size] for figures in all_figures if size in figures.waits]
        means[size] = sum(hours) / len(hours)
    return Figures(
        means,
        average("longest"),
        average("by_nodes"),
        average("utilisation"),
        average("fragmented"),
        average("reserved"),
        sum(figures.unplaced for figures in all_figures),
    )


COLUMNS = (
    "seed",
    *NAMES.values(),
    f"longest of {LARGE}+",
    "by nodes",
    "utilisation",
    "fragmented",
    "reserved",
)
HEAD = (f"| {' | '.join(COLUMNS)} |", "|" + " --- |" * len(COLUMNS))
"""The first two lines of the table of figures. Waits are in hours."""


def line(name: str, figures: Figures) -> str:
    """Returns a line of the table of figures."""
    cells = [f"{figures.waits[size]:.1f}" if size in figures.waits else "-" for size in SIZES]
    cells += [f"{figures.longest:.0f}", f"{figures.by_nodes:.1f}", f"{figures.utilisation:.1%}"]
    cells += [f"{figures.fragmented:.1f}", f"{figures.reserved:.1f}"]
    remark = f" {figures.unplaced} never started" if figures.unplaced else ""
    return f"| {name} | {' | '.join(cells)} |{remark}"


def tenant_lines(
    jobs: Sequence[Job], shared: Run, alone: Mapping[str, tuple[int, Sequence[Job], Run]]
) -> list[str]:
    """Returns the lines of a table of each tenant's waits, in the shared fleet and alone on its share.

    Args:
        jobs: All jobs, in the shared fleet.
        shared: The run in the shared fleet.
        alone: For each tenant, the number of its UltraServers, its jobs, and the run of these jobs alone.
            Jobs that are larger than the share are not compared.
    """
    lines = [
        "| tenant | UltraServers | jobs | shared, h | alone, h | difference | over 10 minutes longer |",
        "| --- |" + " --- |" * 6,
    ]
    shared_waits = waits(measured(jobs), shared)
    longer, compared = 0, 0
    for tenant, (servers, tenant_jobs, run) in sorted(alone.items(), key=lambda item: -item[1][0]):
        alone_waits = waits(tenant_jobs, run)
        pairs = [
            (shared_waits[job.number], alone_waits[job.number])
            for job in tenant_jobs
            if {job.number} <= shared_waits.keys() & alone_waits.keys()
        ]
        if not pairs:
            continue
        later = sum(first - second > DELAY_SECONDS / HOUR for first, second in pairs)
        first, second = (sum(values) / len(pairs) for values in zip(*pairs, strict=True))
        lines.append(
            f"| {tenant} | {servers} | {len(pairs)} | {first:.1f} | {second:.1f} | {first - second:+.1f} "
            f"| {later / len(pairs):.1%} |"
        )
        longer, compared = longer + later, compared + len(pairs)
    lines.append(f"| all | | {compared} | | | | {longer / max(compared, 1):.1%} |")
    return lines
