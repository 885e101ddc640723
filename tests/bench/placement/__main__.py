"""Measures how long a decision takes, and what best fit gains: ``python -m tests.bench.placement``.

A time is the minimum of five processor times, because other programs may use the machine as well.
"""

import gc
import random
import statistics
import time
from collections.abc import Sequence
from dataclasses import replace
from unittest import mock
from zlib import crc32

from contract.keys import SERVER_4
from placement.decide.choose import Ranking
from placement.decide.decide import Scene
from placement.decide.plan import Memory, Tuning
from placement.decide.topology import Topology
from placement.observe.model import UNITS, Guarantee
from tests.placement.simulation import Arrival, simulate
from tests.placement.world import MINUTE, NOW, bind_pods, foreign_pod, job, select_nodes, servers

# The numbers of nodes and of waiting jobs.
SIZES = ((100, 300), (1_000, 300), (4_000, 300), (10_000, 2_000))
SEEDS = (1, 2, 3)
RANKS = {
    "best": Ranking._rank,  # noqa: SLF001 - the bench replaces this method
    "first": lambda *_: (False, False, 0, 0),
    # The order of units is arbitrary, as with a scheduler that prefers empty nodes.
    "any": lambda _, unit: (False, False, crc32(unit.id.encode()), 0),
}


def world(
    nodes: int, seed: int, waiting: int = 300, teams: Sequence[str] = ("team",)
) -> tuple[Topology, list]:
    """Returns the nodes and Pods of a cluster: four fifths of the nodes are busy, and jobs wait."""
    chance = random.Random(seed)  # noqa: S311 - the figures must be reproducible
    result = servers(nodes // 4)
    pods = [foreign_pod(f"daemon-{name}", name, neuron=False) for name in result]
    server, last = 1, nodes // 5
    while server <= last:
        workers = min(chance.choice([4, 8, 16]), (last - server + 1) * 4)
        names = [f"n{server + index // 4}-{index % 4}" for index in range(workers)]
        pods += bind_pods(job(f"running-{server}", workers), select_nodes(result, *names), started=True)
        server += workers // 4
    for number in range(waiting):
        workers = chance.choice([1, 2, 4, 8, 16, 64])
        namespace = teams[number % len(teams)]
        pods += job(f"waiting-{number}", workers, age=number * MINUTE, launcher=True, namespace=namespace)
    return Topology(result.values()), pods


def least_milliseconds(nodes: int, waiting: int, *, guarantees: bool) -> tuple[float, float, int, int]:
    """Returns the times of a first and of a later decision, and the numbers of pods and admissions."""
    teams = ("team", "vision", "speech", "text") if guarantees else ("team",)
    topology, pods = world(nodes, 1, waiting, teams)
    owned = tuple(Guarantee((team,), SERVER_4, nodes // 80) for team in teams[1:])
    tuning = Tuning(units=replace(UNITS, guarantees=owned))
    first, later = [], []
    for _ in range(5):
        memory = Memory()
        for times in (first, later):
            gc.disable()  # as in the placement program, which collects garbage after a decision
            begin = time.process_time()
            decision = Scene(topology, tuple(pods), NOW, tuning, memory).decision()
            times.append(time.process_time() - begin)
            gc.enable()
            memory = decision.memory
    return min(first) * 1000, min(later) * 1000, len(pods), len(decision.admissions)


def arrivals(seed: int, load: float, count: int = 24) -> list[Arrival]:
    """Returns the jobs of twelve hours. Most jobs are small, but large jobs take most nodes."""
    chance = random.Random(seed)  # noqa: S311 - as above
    result, at = [], 0.0
    while at < 720:
        workers = chance.choice([1, 1, 1, 2, 2, 4, 4, 8, 16])
        minutes = chance.choice([10, 30, 60, 120])
        result.append(Arrival(round(at, 2), f"j{len(result)}", workers, minutes))
        at += chance.expovariate(1) * workers * minutes / (count * 4 * load)
    return result


def fit(seed: int, load: float) -> tuple[float, float, float]:
    """Returns the share of busy nodes, and the means of free UltraServers and of the waits of large jobs."""
    jobs = arrivals(seed, load)
    run = simulate(servers(24).values(), jobs, end=720)
    large = [
        run.started.get(waiting_job.name, 720) - waiting_job.at
        for waiting_job in jobs
        if waiting_job.workers >= 4
    ]
    return run.node_minutes / (96 * 720), statistics.fmean(run.whole_free), statistics.fmean(large)


def main() -> None:
    """Prints both tables."""
    print("nodes    pods  jobs that wait  guarantees  admitted  ms: the first decision  a later decision")  # noqa: T201
    for nodes, waiting in SIZES:
        for guarantees in (False, True):
            first, later, pods, admitted = least_milliseconds(nodes, waiting, guarantees=guarantees)
            count = "3" if guarantees else "none"
            print(f"{nodes:5} {pods:7} {waiting:15} {count:>11} {admitted:9} {first:23.0f} {later:17.0f}")  # noqa: T201
    print("\nload  fit    nodes at work  whole UltraServers free  mean wait of jobs of 4 and more, minutes")  # noqa: T201
    for load in (0.6, 0.8, 1.0):
        for name, rank in RANKS.items():
            with mock.patch.object(Ranking, "_rank", rank):
                results = [fit(seed, load) for seed in SEEDS]
            share, free, wait = (statistics.fmean(column) for column in zip(*results, strict=True))
            print(f"{load:4.1f}  {name:5} {share:14.1%} {free:24.1f} {wait:41.1f}")  # noqa: T201


if __name__ == "__main__":
    main()
