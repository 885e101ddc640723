"""Applies MPIJobs one by one or in a burst, and judges how webhook, operator and scheduler place them."""

import random
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from testbed.experiment.judge import Key, Standing, overlooked, wholly_free
from testbed.experiment.stage import TEAMS, Stage

SIZES = {"one": (1, 2, 4, 8, 16), "burst": (4, 8, 16)}
OVERLOAD = 1.5
"""The jobs of a burst need this many times the nodes of UltraServers without a sick node."""

QUIET_SECONDS = 10.0
"""Seconds without a change after which the result of jobs is final: Kueue needs seconds for a step."""


@dataclass
class Result:
    """The results of the jobs.

    Attributes:
        whole: The number of jobs that were placed whole.
        straddle: The number of jobs that were placed on more units than they fill.
        stuck: The number of jobs that never had all their nodes.
        held: The number of nodes, at the end, of jobs that had only a part of their nodes.
        jobs: The number of all jobs.
        overlooked: The number of jobs of a burst that, at the end, waited although units were free.
        seconds: For each job that was placed whole, the seconds until it had its nodes.
        at_work: The nodes of whole jobs of a burst before any job ended, and the healthy nodes.
    """

    whole: int = 0
    straddle: int = 0
    stuck: int = 0
    held: int = 0
    jobs: int = 0
    overlooked: int = 0
    seconds: list[float] = field(default_factory=list)
    at_work: tuple[int, int] = (0, 0)

    def count(self, standing: Standing) -> None:
        """Counts one job by its placement."""
        self.jobs += 1
        self.whole += standing.whole
        self.straddle += standing.straddles
        self.stuck += not standing.placed

    def line(self) -> str:
        """Returns the last line of the output."""
        return (
            f"whole {self.whole} straddle {self.straddle} stuck {self.stuck} held {self.held} of {self.jobs}"
        )


def one_by_one(
    stage: Stage,
    jobs: int,
    chance: random.Random,
    say: Callable[[str], object],
    settle: float = QUIET_SECONDS,
) -> Result:
    """Applies jobs one after the other, when each result is final; ends running jobs to free units."""
    result = Result()
    sizes = tuple(size for size in SIZES["one"] if size <= len(stage.healthy))
    for number in range(jobs):
        workers = chance.choice(sizes)
        placements = stage.standings()
        while not wholly_free(workers, stage.usable, _used_nodes(placements), stage.labels):
            # Only jobs that run can end: jobs that hold a part of their nodes never do.
            running_jobs = sorted(key for key, standing in placements.items() if standing.placed)
            if not running_jobs:
                break
            stage.finish(chance.choice(running_jobs))
            placements = stage.standings()
        if not wholly_free(workers, stage.usable, _used_nodes(placements), stage.labels):
            workers = 1
        began = time.monotonic()
        key = stage.apply(f"job-{number}", workers, chance.choice(TEAMS))
        standing = _final_standing(stage, key, settle)
        if standing.whole:
            result.seconds.append(time.monotonic() - began)
        result.count(standing)
        state = "whole" if standing.whole else "straddles" if standing.straddles else "stuck"
        say(f"{number + 1:3} {key[0]}/{key[1]} of {workers}: {state}")
    result.held = sum(standing.held for standing in stage.standings().values())
    return result


def burst(
    stage: Stage,
    chance: random.Random,
    say: Callable[[str], object],
    settle: float = QUIET_SECONDS,
    patience: float = 0.0,
) -> Result:
    """Applies jobs for too many nodes at once. Then ends the jobs that run, until no job is left.

    Args:
        stage: The cluster.
        chance: Chooses sizes and namespaces.
        say: Prints the progress.
        settle: Seconds without a change after which results are final.
        patience: The same as ``settle``, while a job holds a part of its nodes or could start
            (`Stage.quiet`).
    """
    healthy, needed, number = len(stage.healthy), 0, 0
    sizes = tuple(size for size in SIZES["burst"] if size <= healthy)
    while needed < OVERLOAD * healthy:
        workers = chance.choice(sizes)
        stage.apply(f"job-{number}", workers, chance.choice(TEAMS))
        needed, number = needed + workers, number + 1
    result = Result()
    placements = stage.quiet(settle, patience=patience)
    result.held = sum(standing.held for standing in placements.values())
    result.overlooked = len(overlooked(placements, stage.usable, stage.labels))
    result.at_work = (sum(standing.workers for standing in placements.values() if standing.whole), healthy)
    say(f"{number} jobs for {needed} nodes: {result.at_work[0]} of {healthy} at work, {result.held} held")
    while placed_jobs := [key for key, standing in placements.items() if standing.placed]:
        for key in placed_jobs:
            result.count(placements[key])
            stage.finish(key)
        if not stage.jobs:
            break
        placements = stage.quiet(settle, patience=patience)
        placed = sum(standing.placed for standing in placements.values())
        say(f"{len(placed_jobs)} jobs ended; {placed} of {len(placements)} have nodes")
    for standing in stage.standings().values():
        result.count(standing)
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


def _used_nodes(now: dict[Key, Standing]) -> set[str]:
    return {name for standing in now.values() for name in standing.nodes}


def _final_standing(stage: Stage, key: Key, settle: float) -> Standing:
    """Returns the placement of a job when it has all its nodes, or when nothing has changed for long."""
    deadline, since, last_count = time.monotonic() + max(60.0, 3 * settle), time.monotonic(), -1
    while True:
        standing = stage.standings()[key]
        now = time.monotonic()
        if len(standing.nodes) != last_count:
            last_count, since = len(standing.nodes), now
        # If no worker is bound yet, the operator or the program may still be busy with the job.
        patience = settle if standing.nodes else 3 * settle
        if standing.placed or now - since > patience or now > deadline:
            return standing
        time.sleep(0.1)  # noqa: TID251 - that nothing changes is not an event
