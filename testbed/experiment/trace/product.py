"""Implements the policy of the product: ``placement`` decides, as in the placement program.

This is the only module of the package that imports the product. As in the program, a decision gets the Pod
objects of the previous decision, and new objects only for jobs that have changed.
"""

from bisect import bisect_right, insort
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import cache, lru_cache
from itertools import chain

from contract.keys import GATE, HOSTNAME, NODE_IDS, SERVER_2, SERVER_4
from contract.placement import Placement, Placer
from placement.decide.decide import Scene
from placement.decide.plan import Admission, Memory, Tuning
from placement.decide.topology import Topology
from placement.observe.model import UNITS, Demand, Guarantee, Node, Pod, intern
from testbed.experiment.trace.fleet import NODES
from testbed.experiment.trace.jobs import Job
from testbed.plane.nodes import INSTANCE_TYPE, TRN2U

KEYS = {4: SERVER_4, 2: SERVER_2, 1: HOSTNAME}
EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
CAPACITY = {"aws.amazon.com/neuron": 16_000, "cpu": 192_000, "pods": 110_000}
REQUESTS = {"aws.amazon.com/neuron": 16_000, "cpu": 100_000}


class Product:
    """Decides as the placement program does.

    Attributes:
        reserved: The free nodes that the last decision reserved for a job.

    Args:
        guaranteed: The number of UltraServers that each tenant is guaranteed.
    """

    def __init__(
        self, servers: int, sick: Collection[int] = (), guaranteed: Mapping[str, int] | None = None
    ) -> None:
        guarantees = (Guarantee((name,), SERVER_4, count) for name, count in (guaranteed or {}).items())
        self._tuning = Tuning(units=replace(UNITS, guarantees=tuple(guarantees)))
        self.reserved: Collection[int] = ()
        self._numbers = {_name(number): number for number in range(servers * NODES)}
        self._topology = Topology(_node(number, cordoned=number in sick) for number in self._numbers.values())
        self._memory = Memory()
        self._free = servers * NODES - len(sick)
        self._running: dict[int, list[Pod]] = {}
        self._waiting: dict[tuple[str, int], dict[int, list[Pod]]] = {}
        """The Pods of waiting jobs: by tenant and number of nodes, then by job, in order of arrival."""
        self._jobs: dict[str, Job] = {}

    def arrive(self, job: Job) -> None:
        """Creates the Pods of a job."""
        self._jobs[_label(job)] = job
        pods = [_pod(job, number) for number in range(job.nodes)]
        self._waiting.setdefault((job.tenant, job.nodes), {})[job.number] = pods

    def leave(self, job: Job) -> None:
        """Removes the Pods of a job, which have ended."""
        del self._jobs[_label(job)], self._running[job.number]
        self._free += job.nodes

    def decide(self, now: float) -> Sequence[tuple[Job, Sequence[int]]]:
        """Makes a decision, and carries it out.

        Raises:
            RuntimeError: The decision has an error, or deletes Pods.
        """
        pods = chain.from_iterable(chain(self._running.values(), *map(self._candidates, self._waiting)))
        time = EPOCH + timedelta(seconds=now)
        decision = Scene(self._topology, tuple(pods), time, self._tuning, self._memory).decision()
        if decision.errors or decision.deletions:
            raise RuntimeError(f"errors: {decision.errors}; deletions: {decision.deletions}")
        self._memory, cluster = decision.memory, decision.cluster
        reserved = cluster.reservations.nodes()
        self.reserved = [self._numbers[name] for name in reserved if not cluster.holders.get(name)]
        return [self._admit(admission, now) for admission in decision.admissions]

    def _candidates(self, tenant_and_nodes: tuple[str, int]) -> Iterable[list[Pod]]:
        """Yields the Pods of the jobs of a tenant and size that may be admitted now. This saves time.

        The decision considers jobs of a namespace and size by age, and a shorter limit never delays a job.
        So a job is omitted if the older jobs with the same or a shorter limit need more nodes than are free.
        """
        limits: list[timedelta] = []
        for pods in self._waiting[tenant_and_nodes].values():
            limit = pods[0].limit or timedelta.max
            if bisect_right(limits, limit) <= self._free // tenant_and_nodes[1]:
                insort(limits, limit)
                yield pods

    def _admit(self, admission: Admission, now: float) -> tuple[Job, Sequence[int]]:
        """Pins and binds the Pods of an admitted job. Returns the job and its nodes."""
        job = self._jobs[admission.job.key[1]]
        key, time = admission.job.placement.unit, EPOCH + timedelta(seconds=now)
        running = []
        for block, members in admission.job.blocks.items():
            unit = admission.blocks[block]
            nodes = self._topology.units_of_label(key)[unit].nodes
            for member, node in zip(members, nodes, strict=True):
                bound_pod = replace(
                    member.pod, gates=(), demand=_demand(key, unit), admitted_at=time, started=True
                )
                running.append(replace(bound_pod, node=node.name))
        del self._waiting[job.tenant, job.nodes][job.number]
        self._running[job.number] = running
        self._free -= job.nodes
        return job, [self._numbers[pod.node] for pod in running]


def _label(job: Job) -> str:
    return f"{job.tenant}.job-{job.number:06}"


def _name(number: int) -> str:
    return f"node-{number:05}"


def _node(number: int, *, cordoned: bool) -> Node:
    labels = {
        HOSTNAME: _name(number),
        INSTANCE_TYPE: TRN2U,
        SERVER_4: f"us-{number // 4:05}",
        NODE_IDS[SERVER_4]: str(number % 4),
        SERVER_2: f"pair-{number // 2:05}",
        NODE_IDS[SERVER_2]: str(number % 2),
    }
    return Node(_name(number), labels, cordoned=cordoned, allocatable=CAPACITY)


def _pod(job: Job, number: int) -> Pod:
    name = f"job-{job.number:06}-worker-{number}"
    return Pod(
        job.tenant,
        name,
        f"{job.tenant}/{name}",
        job=_label(job),
        placement=_place(job.nodes, job.size),
        number=number,
        gates=(GATE,),
        demand=_demand(),
        created=EPOCH + timedelta(seconds=job.arrival),
        limit=None if job.limit is None else timedelta(seconds=job.limit),
    )


@lru_cache(maxsize=256)
def _place(workers: int, size: int) -> Placement:
    """Returns a placement annotation. Equal annotations are one object, as in the program."""
    return Placement(Placer.WHOLE_JOB, workers, size, KEYS[size])


@cache
def _demand(key: str = "", unit: str = "") -> Demand:
    """Returns the demand of a Pod, which is pinned to ``unit`` unless that is empty."""
    return intern(Demand({INSTANCE_TYPE: TRN2U} | ({key: unit} if key else {}), None, (), REQUESTS))
