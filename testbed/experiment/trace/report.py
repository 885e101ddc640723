"""The figures of a run: waits by size, utilisation, and the loss or gain of tenants by sharing."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from testbed.experiment.trace.jobs import HOUR, Job
from testbed.experiment.trace.simulate import Run, Sample

SIZES = (1, 2, 4, 8, 16, 32)
NAMES = {size: f"{size}{'+' * (size == SIZES[-1])}" for size in SIZES}
LARGE = 16
LATER = 600.0
"""Seconds that a job may wait longer than in its tenant's own share."""


@dataclass(frozen=True)
class Figures:
    """Figures of the jobs that arrive after the first tenth of the time.

    Attributes:
        waits: Mean hours by size, where there are jobs of it.
        longest: Hours, of jobs of 16 nodes and more.
        by_nodes: Mean hours, weighted by a job's nodes.
        utilisation: Share of the usable nodes that work while jobs wait.
        fragmented: Mean number of free nodes meanwhile in UltraServers that are partly used.
        reserved: The same of free nodes that are held for a job.
        unplaced: Jobs that never started.
    """

    waits: Mapping[int, float]
    longest: float
    by_nodes: float
    utilisation: float
    fragmented: float
    reserved: float
    unplaced: int


def size_class(nodes: int) -> int:
    """Returns the size that a job counts for: 12 nodes for 8."""
    return max(size for size in SIZES if size <= nodes)


def waits(jobs: Iterable[Job], run: Run) -> dict[int, float]:
    """Returns the hours that each job waited that started, by its number."""
    return {
        job.number: (run.starts[job.number] - job.arrival) / HOUR for job in jobs if job.number in run.starts
    }


def measured(jobs: Sequence[Job]) -> list[Job]:
    """Returns the jobs that arrive after the first tenth of the time."""
    first, last = jobs[0].arrival, jobs[-1].arrival
    return [job for job in jobs if job.arrival >= first + (last - first) / 10]


def figures(jobs: Sequence[Job], run: Run) -> Figures:
    """Returns what a run comes to."""
    chosen = measured(jobs)
    waited = waits(chosen, run)
    started = [job for job in chosen if job.number in waited]
    by_size: dict[int, list[float]] = {size: [] for size in SIZES}
    for job in started:
        by_size[size_class(job.nodes)].append(waited[job.number])
    busy, fragmented, reserved = _with_backlog(run.samples)
    return Figures(
        {size: sum(hours) / len(hours) for size, hours in by_size.items() if hours},
        max((waited[job.number] for job in started if job.nodes >= LARGE), default=0.0),
        sum(waited[job.number] * job.nodes for job in started) / max(sum(job.nodes for job in started), 1),
        busy / run.usable,
        fragmented,
        reserved,
        len(chosen) - len(started),
    )


def _with_backlog(samples: Sequence[Sample]) -> tuple[float, float, float]:
    """Returns nodes that work, are fragmented and are reserved while jobs wait, on average over time."""
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
    """Returns the mean over several seeds."""
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
"""The head of a table of figures, in hours, shares and nodes."""


def line(name: str, figures: Figures) -> str:
    """Returns a line of that table."""
    cells = [f"{figures.waits[size]:.1f}" if size in figures.waits else "-" for size in SIZES]
    cells += [f"{figures.longest:.0f}", f"{figures.by_nodes:.1f}", f"{figures.utilisation:.1%}"]
    cells += [f"{figures.fragmented:.1f}", f"{figures.reserved:.1f}"]
    more = f" {figures.unplaced} never started" if figures.unplaced else ""
    return f"| {name} | {' | '.join(cells)} |{more}"


def tenant_lines(
    jobs: Sequence[Job], shared: Run, alone: Mapping[str, tuple[int, Sequence[Job], Run]]
) -> list[str]:
    """Returns lines on each tenant's waits, in the shared fleet and in a share of its own.

    Args:
        jobs: All of them, as in the shared fleet.
        shared: What happened there.
        alone: For each tenant its UltraServers, its jobs, and what happened when they had these alone. A job
            that is larger than the share is compared with nothing.
    """
    lines = [
        "| tenant | UltraServers | jobs | shared, h | alone, h | difference | over 10 minutes longer |",
        "| --- |" + " --- |" * 6,
    ]
    together = waits(measured(jobs), shared)
    longer, compared = 0, 0
    for tenant, (servers, own, run) in sorted(alone.items(), key=lambda item: -item[1][0]):
        apart = waits(own, run)
        pairs = [
            (together[job.number], apart[job.number])
            for job in own
            if {job.number} <= together.keys() & apart.keys()
        ]
        if not pairs:
            continue
        later = sum(first - second > LATER / HOUR for first, second in pairs)
        first, second = (sum(values) / len(pairs) for values in zip(*pairs, strict=True))
        lines.append(
            f"| {tenant} | {servers} | {len(pairs)} | {first:.1f} | {second:.1f} | {first - second:+.1f} "
            f"| {later / len(pairs):.1%} |"
        )
        longer, compared = longer + later, compared + len(pairs)
    lines.append(f"| all | | {compared} | | | | {longer / max(compared, 1):.1%} |")
    return lines
