"""Families of machines on a real API server and scheduler: racks that jobs share, and two at once."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from kube.api import Object
from testbed.experiment.judge import Key
from testbed.experiment.stage import TEAMS, WORKER, Stage, staged
from testbed.mpijob import mpijob
from testbed.plane import nodes
from testbed.plane.jobs import JOB_NAME
from tests.plane.placement.conftest import BreakablePlane

GPU, CLIQUE, GEN2 = "nvidia.com/gpu", "nvidia.com/gpu.clique", "example.com/gen2"
INDEX = "training.kubeflow.org/replica-index"
OVERLOAD = 1.5
JOBS = 12
"""How many jobs a fleet gets, one after the other."""


@dataclass(frozen=True)
class Sort:
    """Machines of a fleet: what jobs for them say, and how they form blocks.

    Attributes:
        label: The node label of a unit.
        asks: What a worker requests.
        selects: The instance type, where the request does not say enough.
        sizes: Numbers of workers, each with the size of its blocks.
        shared: Whether jobs share a unit.
    """

    label: str
    asks: tuple[str, int]
    sizes: Mapping[int, int]
    selects: str = ""
    shared: bool = True


SORTS = {
    "trn3-gen2": Sort(
        GEN2, (nodes.NEURON, 4), {1: 1, 4: 4, 9: 9, 18: 18, 30: 30, 36: 36, 48: 24}, selects="trn3e.24xlarge"
    ),
    "nvl72": Sort(CLIQUE, (GPU, 4), {1: 1, 2: 2, 4: 4, 8: 8, 12: 12, 16: 16, 18: 9, 24: 12, 32: 16}),
    "trn2u": Sort(nodes.SERVER_ID_4, (nodes.NEURON, 16), {4: 4, 8: 4, 16: 4}, shared=False),
}
ROWS = f"""
families:
  - {{name: trn3-gen2, mode: enforce, units: [{{label: {GEN2}}}]}}
  - {{name: nvl72, mode: enforce, units: [{{label: {CLIQUE}}}]}}
"""
SERVERS = nodes.ultraserver_nodes(6)
RACKS = nodes.rack_nodes(4, 18, "p6e-gb200.36xlarge", CLIQUE, {GPU: "4"})
GEN2S = nodes.rack_nodes(3, 36, "trn3e.24xlarge", GEN2, {nodes.NEURON: "4"}, 50)
FLEETS = {
    "trn3-gen2": (("trn3-gen2",), GEN2S),
    "nvl72": (("nvl72",), RACKS),
    "mixed": (("trn2u", "nvl72"), [*SERVERS, *RACKS]),
}


@dataclass
class Fleet:
    """A stage with machines of some sorts, and the jobs on it."""

    stage: Stage
    sorts: tuple[str, ...]
    jobs: dict[Key, tuple[Sort, int]] = field(default_factory=dict)
    number: int = 0

    def apply(self, sort: Sort, workers: int, team: str) -> Key:
        """Creates a job."""
        self.number += 1
        spec = {"nodeSelector": {nodes.INSTANCE_TYPE: sort.selects}} if sort.selects else {}
        resource, amount = sort.asks
        document = mpijob(
            workers, name=f"job-{self.number}", resource=resource, amount=amount, worker_spec=spec
        )
        key, _ = self.stage.create(document, team)
        self.jobs[key] = sort, workers
        return key

    def finish(self, key: Key) -> None:
        """Ends a job."""
        self.stage.finish(key)
        del self.jobs[key]

    def where(self, pods: Iterable[Object]) -> dict[Key, dict[int, str]]:
        """Returns the node of each worker that has one, by number, for each job."""
        by_job: dict[Key, dict[int, str]] = {key: {} for key in self.jobs}
        for pod in pods:
            metadata, node = pod["metadata"], pod["spec"].get("nodeName")
            key = metadata["namespace"], metadata["labels"][JOB_NAME]
            if node and key in by_job and "deletionTimestamp" not in metadata:
                by_job[key][int(metadata["labels"][INDEX])] = node
        return by_job

    def free(self, sort: Sort, taken: set[str]) -> Counter[str]:
        """Returns how many nodes a job could have of each unit."""
        units: defaultdict[str, list[str]] = defaultdict(list)
        for name, labels in self.stage.labels.items():
            if sort.label in labels:
                units[labels[sort.label]].append(name)
        result = Counter[str]()
        for unit, names in units.items():
            able = [name for name in names if name not in self.stage.sick and name not in taken]
            result[unit] = len(able) if sort.shared or len(able) == len(names) else 0
        return result

    def fits(self, sort: Sort, workers: int, taken: set[str]) -> bool:
        """Returns whether there is room for a job."""
        size = sort.sizes[workers]
        return sum(each >= size for each in self.free(sort, taken).values()) >= workers // size

    def is_final(self, pods: Iterable[Object]) -> bool:
        """Returns whether no job has a part of its nodes, and none waits for which there is room."""
        where = self.where(pods)
        taken = {node for nodes_ in where.values() for node in nodes_.values()}
        for key, (sort, workers) in self.jobs.items():
            if 0 < len(where[key]) < workers or (not where[key] and self.fits(sort, workers, taken)):
                return False
        return True

    def wait(self) -> dict[Key, dict[int, str]]:
        """Waits until nothing more can be placed, and returns where the jobs are."""
        kubectl = self.stage.plane.kubectl
        pods = kubectl.wait_for(
            lambda pods: self.is_final(pods["items"]), "pods", "-A", "-l", WORKER, timeout=60
        )
        return self.where(pods["items"])

    def whole(self, key: Key, where: Mapping[int, str]) -> bool:
        """Returns whether all workers have a node of their own, each block in a unit of its own."""
        sort, workers = self.jobs[key]
        blocks: defaultdict[int, set[str]] = defaultdict(set)
        for number, node in where.items():
            blocks[number // sort.sizes[workers]].add(self.stage.labels[node][sort.label])
        units = [unit for each in blocks.values() for unit in each]
        return (
            len({*where.values()}) == workers
            and len({*units}) == len(units) == workers // sort.sizes[workers]
        )


@pytest.fixture(scope="module", params=FLEETS)
def made(
    request: pytest.FixtureRequest, tools: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Fleet]:
    """A fleet with the program."""
    assert tools
    sorts, machines = FLEETS[request.param]
    folder = tmp_path_factory.mktemp("families")
    with staged(folder, ultraservers=machines, plane=BreakablePlane, rows=ROWS) as stage:
        stage.start_program()
        yield Fleet(stage, sorts)


@pytest.fixture
def fleet(made: Fleet, seed: int) -> Iterator[Fleet]:
    """The same with some sick nodes, and without jobs."""
    chance = random.Random(seed)  # noqa: S311 - no secret
    names = sorted(name for name, labels in made.stage.labels.items() if len(labels) > 6)
    for name in chance.sample(names, len(names) // 18):
        made.stage.cordon(name)
    yield made
    for key in list(made.jobs):
        made.finish(key)
    made.stage.clear()


def drawn(fleet: Fleet, chance: random.Random) -> tuple[Sort, int]:
    """Returns a sort of machines and a number of workers for which the empty fleet has room."""
    sort = SORTS[chance.choice(fleet.sorts)]
    return sort, chance.choice([size for size in sort.sizes if fleet.fits(sort, size, set())])


@pytest.mark.limit(120, "a dozen jobs, each until all its workers have nodes")
def test_jobs_that_come_one_by_one_are_all_whole(fleet: Fleet, seed: int) -> None:
    chance = random.Random(seed)  # noqa: S311 - no secret
    where: dict[Key, dict[int, str]] = {}
    for _ in range(JOBS):
        sort, workers = drawn(fleet, chance)
        while not fleet.fits(sort, workers, {node for each in where.values() for node in each.values()}):
            key = chance.choice(sorted(fleet.jobs))
            fleet.finish(key)
            where.pop(key)
        fleet.apply(sort, workers, chance.choice(TEAMS))
        where = fleet.wait()
        assert all(fleet.whole(key, nodes_) for key, nodes_ in where.items())


@pytest.mark.limit(120, "jobs for one and a half times the nodes, until all have ended")
def test_of_jobs_that_come_at_once_each_is_whole_and_no_node_is_held(fleet: Fleet, seed: int) -> None:
    chance = random.Random(seed)  # noqa: S311 - no secret
    requests = Counter[str]()
    while True:
        sort, workers = drawn(fleet, chance)
        healthy = sum(fleet.free(sort, set()).values())
        if requests[sort.label] > OVERLOAD * healthy:
            break
        requests[sort.label] += workers
        fleet.apply(sort, workers, chance.choice(TEAMS))
    count, done = len(fleet.jobs), 0
    while fleet.jobs:
        where = fleet.wait()
        ended = [key for key, nodes_ in where.items() if nodes_]
        assert ended, f"{len(fleet.jobs)} jobs wait, and no node is taken"
        assert all(fleet.whole(key, where[key]) for key in ended)
        for key in ended:
            fleet.finish(key)
        done += len(ended)
    assert done == count
