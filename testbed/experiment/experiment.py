"""Applies MPIJobs one by one or in a burst, and counts how the webhook and the other programs place them."""

import random
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from testbed.experiment.judge import JobPlacement, Key, overlooked, wholly_free
from testbed.experiment.stage import TEAMS, Stage

SIZES = {"one": (1, 2, 4, 8, 16), "burst": (4, 8, 16)}
OVERLOAD = 1.5
"""The jobs of a burst need this many times the nodes of UltraServers without a sick node."""

QUIET_SECONDS = 10.0
"""Seconds without a change after which a result is final. Kueue needs seconds between two changes."""


@dataclass
class Result:
    """The results of the jobs.

    Attributes:
        whole: The number of jobs that were placed whole.
        straddle: The number of jobs that were placed on more units than they fill.
        stuck: The number of jobs that never had all their nodes.
        held: The number of nodes of jobs with only a part of their nodes: in a burst, before any job ended;
            otherwise at the end.
        jobs: The number of all jobs.
        overlooked: In a burst, before any job ended: the number of jobs of `judge.overlooked`.
        seconds: For each job that was placed whole, the seconds until it had its nodes.
        at_work: In a burst, before any job ended: the number of nodes of whole jobs, and of healthy nodes.
    """

    whole: int = 0
    straddle: int = 0
    stuck: int = 0
    held: int = 0
    jobs: int = 0
    overlooked: int = 0
    seconds: list[float] = field(default_factory=list)
    at_work: tuple[int, int] = (0, 0)

    def count(self, job_placement: JobPlacement) -> None:
        """Counts one job by its placement."""
        self.jobs += 1
        self.whole += job_placement.whole
        self.straddle += job_placement.straddles
        self.stuck += not job_placement.placed

    def line(self) -> str:
        """Returns the last line of the output."""
        return (
            f"whole {self.whole} straddle {self.straddle} stuck {self.stuck} held {self.held} of {self.jobs}"
        )


def one_by_one(
    stage: Stage,
    jobs: int,
    randomness: random.Random,
    say: Callable[[str], object],
    settle: float = QUIET_SECONDS,
) -> Result:
    """Applies each job when the result of the job before it is final. Ends running jobs to free units."""
    result = Result()
    sizes = tuple(size for size in SIZES["one"] if size <= len(stage.healthy))
    for number in range(jobs):
        workers = randomness.choice(sizes)
        placements = stage.job_placements()
        while not wholly_free(workers, stage.usable, _used_nodes(placements), stage.labels):
            # Only running jobs end. A job with a part of its nodes never ends.
            running_jobs = sorted(key for key, job_placement in placements.items() if job_placement.placed)
            if not running_jobs:
                break
            stage.finish(randomness.choice(running_jobs))
            placements = stage.job_placements()
        if not wholly_free(workers, stage.usable, _used_nodes(placements), stage.labels):
            workers = 1
        began = time.monotonic()
        key = stage.apply(f"job-{number}", workers, randomness.choice(TEAMS))
        job_placement = _final_placement(stage, key, settle)
        if job_placement.whole:
            result.seconds.append(time.monotonic() - began)
        result.count(job_placement)
        state = "whole" if job_placement.whole else "straddles" if job_placement.straddles else "stuck"
        say(f"{number + 1:3} {key[0]}/{key[1]} of {workers}: {state}")
    result.held = sum(job_placement.held for job_placement in stage.job_placements().values())
    return result


def burst(
    stage: Stage,
    randomness: random.Random,
    say: Callable[[str], object],
    settle: float = QUIET_SECONDS,
    patience: float = 0.0,
) -> Result:
    """Applies jobs that need more nodes than exist. Then ends running jobs, until no job is left.

    Args:
        stage: The cluster.
        randomness: Chooses sizes and namespaces.
        say: Prints the progress.
        settle: Seconds without a change after which results are final.
        patience: The minimum of ``settle`` while a job holds a part of its nodes, or could start
            (`Stage.wait_until_quiet`).
    """
    healthy, needed, number = len(stage.healthy), 0, 0
    sizes = tuple(size for size in SIZES["burst"] if size <= healthy)
    while needed < OVERLOAD * healthy:
        workers = randomness.choice(sizes)
        stage.apply(f"job-{number}", workers, randomness.choice(TEAMS))
        needed, number = needed + workers, number + 1
    result = Result()
    placements = stage.wait_until_quiet(settle, patience=patience)
    result.held = sum(job_placement.held for job_placement in placements.values())
    result.overlooked = len(overlooked(placements, stage.usable, stage.labels))
    result.at_work = (
        sum(job_placement.workers for job_placement in placements.values() if job_placement.whole),
        healthy,
    )
    say(f"{number} jobs for {needed} nodes: {result.at_work[0]} of {healthy} at work, {result.held} held")
    while placed_jobs := [key for key, job_placement in placements.items() if job_placement.placed]:
        for key in placed_jobs:
            result.count(placements[key])
            stage.finish(key)
        if not stage.jobs:
            break
        placements = stage.wait_until_quiet(settle, patience=patience)
        placed = sum(job_placement.placed for job_placement in placements.values())
        say(f"{len(placed_jobs)} jobs ended; {placed} of {len(placements)} have nodes")
    for job_placement in stage.job_placements().values():
        result.count(job_placement)
    return result


def summary(result: Result) -> list[str]:
    """Returns the lines of the output before the last line."""
    lines = []
    if result.seconds:
        times = sorted(result.seconds)
        lines.append(f"seconds until whole: median {statistics.median(times):.1f}, longest {times[-1]:.1f}")
    if result.at_work[1]:
        lines.append(f"nodes at work: {result.at_work[0]} of {result.at_work[1]} healthy")
    return lines


def _used_nodes(placements: dict[Key, JobPlacement]) -> set[str]:
    return {name for job_placement in placements.values() for name in job_placement.nodes}


def _final_placement(stage: Stage, key: Key, settle: float) -> JobPlacement:
    """Returns the placement of a job when it has all its nodes, or after a time without a change."""
    deadline, since, last_count = time.monotonic() + max(60.0, 3 * settle), time.monotonic(), -1
    while True:
        job_placement = stage.job_placements()[key]
        now = time.monotonic()
        if len(job_placement.nodes) != last_count:
            last_count, since = len(job_placement.nodes), now
        # If no worker is bound yet, the operator or the program may still be busy with the job.
        patience = settle if job_placement.nodes else 3 * settle
        if job_placement.placed or now - since > patience or now > deadline:
            return job_placement
        time.sleep(0.1)  # noqa: TID251 - a time without changes has no event
