"""Jobs that arrive over time, run for a while and end: what a cluster sees in a day, in minutes."""

from __future__ import annotations

import statistics
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kube.client import connect
from kube.watch import Mirror
from testbed.experiment.experiment import Result
from testbed.experiment.judge import from_nodes, where_is
from testbed.experiment.stage import TEAMS, WORKERS

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Sequence

    from testbed.experiment.judge import Key, Standing
    from testbed.experiment.stage import Stage

SIZES = (1, 1, 2, 2, 4, 4, 8, 16, 32)
TICK = 0.25
PATIENCE = 60.0
"""Seconds without any change, after the last arrival, when what has no nodes will get none."""

Row = tuple[int, int, int, int]
"""Second, jobs that wait, nodes in whole jobs, nodes held in part."""


@dataclass(frozen=True)
class Job:
    """A job that comes after so many seconds, and runs for so many."""

    at: float
    team: str
    workers: int
    seconds: float


def planned(jobs: int, nodes: float, seconds: float, chance: random.Random) -> list[Job]:
    """Jobs that ask for so many nodes on average, with times of arrival and lengths as they come in life."""
    plan, at = [], 0.0
    for _ in range(jobs):
        workers = chance.choice([size for size in SIZES if size <= nodes])
        # Bounded, or a run would last for the sake of its last few jobs.
        length = min(chance.expovariate(1 / seconds), 3 * seconds)
        plan.append(Job(at, chance.choice(TEAMS), workers, length))
        at += chance.expovariate(1) * statistics.fmean(SIZES) * seconds / nodes
    return plan


def arrivals(stage: Stage, plan: Sequence[Job], say: Callable[[str], object]) -> tuple[Result, list[Row]]:
    """Let the jobs come and go; ends when all have ended, or the others stand still."""
    with Mirror(connect(stage.plane.kubeconfig), WORKERS, where_is) as workers:
        return _Run(stage, plan, say).until_over(workers)


class _Run:
    def __init__(self, stage: Stage, plan: Sequence[Job], say: Callable[[str], object]) -> None:
        self._stage, self._say, self._coming = stage, say, list(plan)
        self._began = self._changed = time.monotonic()
        self._came: dict[Key, tuple[float, Job]] = {}
        self._ends: dict[Key, float] = {}
        self._result, self._rows = Result(), list[Row]()

    def until_over(self, workers: Mirror[tuple[Key, str]]) -> tuple[Result, list[Row]]:
        result, stage = self._result, self._stage
        last = self._coming[-1].at
        while self._coming or stage.jobs:
            now = self._now()
            if now - self._changed > PATIENCE and not self._coming and not self._ends:
                break
            self._arrive(now)
            found = from_nodes(stage.jobs, workers.items().values(), stage.labels)
            self._note(found, now)
            self._end(now)
            time.sleep(TICK)  # noqa: TID251 - jobs come and end by the clock
        left = from_nodes(stage.jobs, workers.items().values(), stage.labels)
        for standing in left.values():
            result.count(standing)
        result.held = sum(found.held for found in left.values())
        at_work = statistics.fmean(row[2] for row in self._rows if row[0] <= last)
        result.at_work = (round(at_work), len(stage.healthy))
        return result, self._rows

    def _now(self) -> float:
        return time.monotonic() - self._began

    def _arrive(self, now: float) -> None:
        while self._coming and self._coming[0].at <= now:
            job = self._coming.pop(0)
            key = self._stage.apply(f"job-{len(self._came)}", job.workers, job.team)
            self._came[key] = (self._now(), job)
            self._changed = now

    def _note(self, found: dict[Key, Standing], now: float) -> None:
        for key, standing in found.items():
            if standing.placed and key not in self._ends:
                came, job = self._came[key]
                self._result.count(standing)
                if standing.whole:
                    self._result.seconds.append(now - came)
                self._ends[key] = now + job.seconds
                self._changed = now
        if not self._rows or int(now) > self._rows[-1][0]:
            waiting = sum(not standing.placed for standing in found.values())
            at_work = sum(standing.workers for standing in found.values() if standing.whole)
            held = sum(standing.held for standing in found.values())
            self._rows.append((int(now), waiting, at_work, held))
            if int(now) % 30 == 0:
                self._say(f"{int(now):4} s: {waiting} wait, {at_work} nodes at work, {held} held in part")

    def _end(self, now: float) -> None:
        for key in [key for key, end in self._ends.items() if end <= now]:
            self._stage.finish(key)
            del self._ends[key]
            self._changed = now
