"""Applies jobs one by one or in a burst, through MPIJob, webhook, operator and scheduler; judges them."""

import random
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from testbed.experiment.judge import Key, Standing, overlooked, wholly_free
from testbed.experiment.stage import TEAMS, Stage

SIZES = {"one": (1, 2, 4, 8, 16), "burst": (4, 8, 16)}
OVERLOAD = 1.5
"""A burst asks for this many times the nodes that are healthy, in whole UltraServers."""

QUIET_SECONDS = 10.0
"""Seconds without any change after which jobs are final: Kueue takes seconds for its turn."""


@dataclass
class Result:
    """The results of the jobs.

    Attributes:
        whole: Jobs that were placed whole.
        straddle: Jobs that were placed across more units than they fill.
        stuck: Jobs that never had all their nodes.
        held: Nodes that were held by jobs which had not all of theirs, when nothing changed any more.
        jobs: All jobs.
        overlooked: Jobs of a burst that waited although there was room, when nothing changed any more.
        seconds: How long those took that were placed whole.
        at_work: Nodes in whole jobs of a burst before any job ended, and the healthy ones.
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
        """Counts a job by its result."""
        self.jobs += 1
        self.whole += standing.whole
        self.straddle += standing.straddles
        self.stuck += not standing.placed

    def line(self) -> str:
        """Returns the last line."""
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
    """Applies jobs for which there is room, each after the one before is final; ends some to make room."""
    result = Result()
    fits = tuple(size for size in SIZES["one"] if size <= len(stage.healthy))
    for number in range(jobs):
        workers = chance.choice(fits)
        now = stage.standings()
        while not wholly_free(workers, stage.usable, _taken(now), stage.labels):
            # Jobs that hold nodes without working never end; only those that work do.
            working = sorted(key for key, standing in now.items() if standing.placed)
            if not working:
                break
            stage.finish(chance.choice(working))
            now = stage.standings()
        if not wholly_free(workers, stage.usable, _taken(now), stage.labels):
            workers = 1
        began = time.monotonic()
        key = stage.apply(f"job-{number}", workers, chance.choice(TEAMS))
        standing = _stand(stage, key, settle)
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
    """Applies jobs for more nodes than there are, at once; then ends those that run, until none is left.

    Args:
        stage: The cluster.
        chance: Decides about sizes and namespaces.
        say: Prints the progress.
        settle: Seconds without any change after which jobs are final.
        patience: The same while something could be done still; see `Stage.quiet`.
    """
    healthy, needed, number = len(stage.healthy), 0, 0
    fits = tuple(size for size in SIZES["burst"] if size <= healthy)
    while needed < OVERLOAD * healthy:
        workers = chance.choice(fits)
        stage.apply(f"job-{number}", workers, chance.choice(TEAMS))
        needed, number = needed + workers, number + 1
    result = Result()
    now = stage.quiet(settle, patience=patience)
    result.held = sum(standing.held for standing in now.values())
    result.overlooked = len(overlooked(now, stage.usable, stage.labels))
    result.at_work = (sum(standing.workers for standing in now.values() if standing.whole), healthy)
    say(f"{number} jobs for {needed} nodes: {result.at_work[0]} of {healthy} at work, {result.held} held")
    while done := [key for key, standing in now.items() if standing.placed]:
        for key in done:
            result.count(now[key])
            stage.finish(key)
        if not stage.jobs:
            break
        now = stage.quiet(settle, patience=patience)
        placed = sum(standing.placed for standing in now.values())
        say(f"{len(done)} jobs ended; {placed} of {len(now)} have nodes")
    for standing in stage.standings().values():
        result.count(standing)
    return result


def summary(result: Result) -> list[str]:
    """Returns the figures in addition to the last line."""
    lines = []
    if result.seconds:
        times = sorted(result.seconds)
        lines.append(f"seconds until whole: median {statistics.median(times):.1f}, longest {times[-1]:.1f}")
    if result.at_work[1]:
        lines.append(f"nodes at work: {result.at_work[0]} of {result.at_work[1]} healthy")
    return lines


def _taken(now: dict[Key, Standing]) -> set[str]:
    return {name for standing in now.values() for name in standing.nodes}


def _stand(stage: Stage, key: Key, settle: float) -> Standing:
    """Returns the result of a job when it has all its nodes, or nothing changes any more."""
    deadline, since, before = time.monotonic() + max(60.0, 3 * settle), time.monotonic(), -1
    while True:
        standing = stage.standings()[key]
        now = time.monotonic()
        if len(standing.nodes) != before:
            before, since = len(standing.nodes), now
        # A job of which nothing is bound yet may still be on its way through operator and program.
        patience = settle if standing.nodes else 3 * settle
        if standing.placed or now - since > patience or now > deadline:
            return standing
        time.sleep(0.1)  # noqa: TID251 - that nothing changes is not an event
