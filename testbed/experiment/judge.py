"""Computes whether jobs are placed whole, from the labels of their workers' nodes."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from kube.api import Object
from testbed.plane import nodes

UNIT = {4: nodes.SERVER_ID_4, 2: nodes.SERVER_ID_2}
JOB_NAME = "training.kubeflow.org/job-name"
Key = tuple[str, str]
"""Namespace and name of a job."""


def config_of(workers: int) -> int:
    """Returns the node config of the packaged table for a number of workers."""
    return 4 if workers % 4 == 0 else 2 if workers % 2 == 0 else 1


@dataclass(frozen=True)
class JobPlacement:
    """The placement of a job.

    Attributes:
        workers: The number of its workers.
        nodes: The names of the nodes to which its workers are bound.
        units: The number of units that contain these nodes.
    """

    workers: int
    nodes: tuple[str, ...]
    units: int

    @property
    def placed(self) -> bool:
        """Whether every worker has a node."""
        return len(self.nodes) == self.workers

    @property
    def whole(self) -> bool:
        """Whether every worker has a node, and the workers fill their units."""
        return self.placed and self.units * config_of(self.workers) == self.workers

    @property
    def straddles(self) -> bool:
        """Whether every worker has a node, but they do not fill their units. The init script ends the job."""
        return self.placed and not self.whole

    @property
    def held(self) -> int:
        """The number of nodes that the job holds although it cannot run."""
        return 0 if self.placed else len(self.nodes)


def all_whole(jobs: Mapping[Key, JobPlacement]) -> bool:
    """Returns whether there are jobs and all are whole."""
    return bool(jobs) and all(job_placement.whole for job_placement in jobs.values())


def job_placements(
    jobs: Mapping[Key, int], pods: Iterable[Object], labels: Mapping[str, Mapping[str, str]]
) -> dict[Key, JobPlacement]:
    """Returns the placement of every job.

    Args:
        jobs: The number of workers of each job.
        pods: The worker pods.
        labels: The labels of every node.
    """
    nodes_by_job: defaultdict[Key, list[str]] = defaultdict(list)
    for pod in pods:
        metadata, node = pod["metadata"], pod["spec"].get("nodeName")
        if node and "deletionTimestamp" not in metadata:
            nodes_by_job[metadata["namespace"], metadata["labels"][JOB_NAME]].append(node)
    placements = {}
    for key, workers in jobs.items():
        unit = UNIT.get(config_of(workers), "kubernetes.io/hostname")
        job_nodes = nodes_by_job.get(key, [])
        placements[key] = JobPlacement(
            workers, tuple(sorted(job_nodes)), len({labels[name][unit] for name in job_nodes})
        )
    return placements


def wholly_free(
    workers: int, healthy: Iterable[str], used: Iterable[str], labels: Mapping[str, Mapping[str, str]]
) -> bool:
    """Returns whether enough units are wholly free for a job with this number of workers."""
    size = config_of(workers)
    free = set(healthy) - set(used)
    if size == 1:
        return len(free) >= workers
    units: defaultdict[str, int] = defaultdict(int)
    for name in free:
        units[labels[name][UNIT[size]]] += 1
    return sum(count == size for count in units.values()) * size >= workers


def overlooked(
    jobs: Mapping[Key, JobPlacement], healthy: Iterable[str], labels: Mapping[str, Mapping[str, str]]
) -> list[Key]:
    """Returns the jobs that wait although units are free, or that hold only a part of their nodes."""
    used = {name for job_placement in jobs.values() for name in job_placement.nodes}
    free = set(healthy)
    return [
        key
        for key, job_placement in jobs.items()
        if not job_placement.placed
        and (job_placement.nodes or wholly_free(job_placement.workers, free, used, labels))
    ]
