"""Tests of machine families with a real API server and scheduler: racks that jobs share, and two families."""

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
"""The number of jobs that a fleet gets, one after the other."""


@dataclass(frozen=True)
class Family:
    """A family of machines: what its jobs request, and how their workers form blocks.

    Attributes:
        label: The node label of a unit.
        requests: The resource that a worker requests, and its amount.
        instance_type: The instance type that jobs select if the resource does not identify the family.
        sizes: The numbers of workers of jobs, with the size of the jobs' blocks.
        shared: Whether several jobs can share a unit.
    """

    label: str
    requests: tuple[str, int]
    sizes: Mapping[int, int]
    instance_type: str = ""
    shared: bool = True


FAMILIES = {
    "trn3-gen2": Family(
        GEN2,
        (nodes.NEURON, 4),
        {1: 1, 4: 4, 9: 9, 18: 18, 30: 30, 36: 36, 48: 24},
        instance_type="trn3e.24xlarge",
    ),
    "nvl72": Family(CLIQUE, (GPU, 4), {1: 1, 2: 2, 4: 4, 8: 8, 12: 12, 16: 16, 18: 9, 24: 12, 32: 16}),
    "trn2u": Family(nodes.SERVER_ID_4, (nodes.NEURON, 16), {4: 4, 8: 4, 16: 4}, shared=False),
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
    """A stage with the machines of some families, and the jobs on it."""

    stage: Stage
    families: tuple[str, ...]
    jobs: dict[Key, tuple[Family, int]] = field(default_factory=dict)
    number: int = 0

    def apply(self, family: Family, workers: int, team: str) -> Key:
        """Creates a job."""
        self.number += 1
        spec = {"nodeSelector": {nodes.INSTANCE_TYPE: family.instance_type}} if family.instance_type else {}
        resource, amount = family.requests
        document = mpijob(
            workers, name=f"job-{self.number}", resource=resource, amount=amount, worker_spec=spec
        )
        key, _ = self.stage.create(document, team)
        self.jobs[key] = family, workers
        return key

    def finish(self, key: Key) -> None:
        """Ends a job."""
        self.stage.finish(key)
        del self.jobs[key]

    def nodes_by_job(self, pods: Iterable[Object]) -> dict[Key, dict[int, str]]:
        """Returns for each job the node of each bound worker, by the worker's index."""
        by_job: dict[Key, dict[int, str]] = {key: {} for key in self.jobs}
        for pod in pods:
            metadata, node = pod["metadata"], pod["spec"].get("nodeName")
            key = metadata["namespace"], metadata["labels"][JOB_NAME]
            if node and key in by_job and "deletionTimestamp" not in metadata:
                by_job[key][int(metadata["labels"][INDEX])] = node
        return by_job

    def free_nodes(self, family: Family, taken: set[str]) -> Counter[str]:
        """Returns for each unit the number of nodes that a new job could use."""
        units: defaultdict[str, list[str]] = defaultdict(list)
        for name, labels in self.stage.labels.items():
            if family.label in labels:
                units[labels[family.label]].append(name)
        result = Counter[str]()
        for unit, names in units.items():
            able = [name for name in names if name not in self.stage.sick and name not in taken]
            result[unit] = len(able) if family.shared or len(able) == len(names) else 0
        return result

    def fits(self, family: Family, workers: int, taken: set[str]) -> bool:
        """Returns whether enough units have enough free nodes for a job."""
        size = family.sizes[workers]
        return sum(count >= size for count in self.free_nodes(family, taken).values()) >= workers // size

    def is_final(self, pods: Iterable[Object]) -> bool:
        """Returns whether no job has only a part of its nodes, and no job waits although it fits."""
        nodes_by_job = self.nodes_by_job(pods)
        taken = {node for nodes_by_index in nodes_by_job.values() for node in nodes_by_index.values()}
        for key, (family, workers) in self.jobs.items():
            if 0 < len(nodes_by_job[key]) < workers or (
                not nodes_by_job[key] and self.fits(family, workers, taken)
            ):
                return False
        return True

    def wait(self) -> dict[Key, dict[int, str]]:
        """Waits until the placement is final, and returns the nodes of each job."""
        kubectl = self.stage.plane.kubectl
        pods = kubectl.wait_for(
            lambda pods: self.is_final(pods["items"]), "pods", "-A", "-l", WORKER, timeout=60
        )
        return self.nodes_by_job(pods["items"])

    def whole(self, key: Key, nodes_by_index: Mapping[int, str]) -> bool:
        """Returns whether every worker of a job has its own node, and every block its own unit."""
        family, workers = self.jobs[key]
        blocks: defaultdict[int, set[str]] = defaultdict(set)
        for index, node in nodes_by_index.items():
            blocks[index // family.sizes[workers]].add(self.stage.labels[node][family.label])
        units = [unit for units_of_block in blocks.values() for unit in units_of_block]
        return (
            len({*nodes_by_index.values()}) == workers
            and len({*units}) == len(units) == workers // family.sizes[workers]
        )


@pytest.fixture(scope="module", params=FLEETS)
def module_fleet(
    request: pytest.FixtureRequest, tools: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Fleet]:
    """A fleet on which the placement program runs."""
    assert tools
    families, machines = FLEETS[request.param]
    folder = tmp_path_factory.mktemp("families")
    with staged(folder, ultraservers=machines, plane=BreakablePlane, rows=ROWS) as stage:
        stage.start_program()
        yield Fleet(stage, families)


@pytest.fixture
def fleet(module_fleet: Fleet, seed: int) -> Iterator[Fleet]:
    """The fleet with some sick nodes and without jobs."""
    chance = random.Random(seed)  # noqa: S311 - no secret
    names = sorted(name for name, labels in module_fleet.stage.labels.items() if len(labels) > 6)
    for name in chance.sample(names, len(names) // 18):
        module_fleet.stage.cordon(name)
    yield module_fleet
    for key in list(module_fleet.jobs):
        module_fleet.finish(key)
    module_fleet.stage.clear()


def draw_job(fleet: Fleet, chance: random.Random) -> tuple[Family, int]:
    """Returns a family and a number of workers, by chance, of a job that fits on the empty fleet."""
    family = FAMILIES[chance.choice(fleet.families)]
    return family, chance.choice([size for size in family.sizes if fleet.fits(family, size, set())])


@pytest.mark.limit(120, "places twelve jobs, one after the other")
def test_jobs_that_are_created_one_by_one_are_all_placed_whole(fleet: Fleet, seed: int) -> None:
    chance = random.Random(seed)  # noqa: S311 - no secret
    nodes_by_job: dict[Key, dict[int, str]] = {}
    for _ in range(JOBS):
        family, workers = draw_job(fleet, chance)
        while not fleet.fits(
            family, workers, {node for by_index in nodes_by_job.values() for node in by_index.values()}
        ):
            key = chance.choice(sorted(fleet.jobs))
            fleet.finish(key)
            nodes_by_job.pop(key)
        fleet.apply(family, workers, chance.choice(TEAMS))
        nodes_by_job = fleet.wait()
        assert all(fleet.whole(key, nodes_by_index) for key, nodes_by_index in nodes_by_job.items())


@pytest.mark.limit(120, "runs jobs for one and a half times the nodes, until all have ended")
def test_jobs_that_are_created_at_once_are_placed_whole_and_never_hold_only_a_part_of_their_nodes(
    fleet: Fleet, seed: int
) -> None:
    chance = random.Random(seed)  # noqa: S311 - no secret
    workers_by_label = Counter[str]()
    while True:
        family, workers = draw_job(fleet, chance)
        healthy = sum(fleet.free_nodes(family, set()).values())
        if workers_by_label[family.label] > OVERLOAD * healthy:
            break
        workers_by_label[family.label] += workers
        fleet.apply(family, workers, chance.choice(TEAMS))
    count, finished = len(fleet.jobs), 0
    while fleet.jobs:
        nodes_by_job = fleet.wait()
        placed = [key for key, nodes_by_index in nodes_by_job.items() if nodes_by_index]
        assert placed, f"{len(fleet.jobs)} jobs wait, and no node is taken"
        assert all(fleet.whole(key, nodes_by_job[key]) for key in placed)
        for key in placed:
            fleet.finish(key)
        finished += len(placed)
    assert finished == count
