"""The policy of the product: the decision of ``placement``, as its program calls it.

This is the one module here that imports the product. Pods are kept from decision to decision, as the
program keeps them: a decision sees the same objects again, and new ones only of jobs that changed.
"""

from bisect import bisect_right, insort
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import cache, lru_cache
from itertools import chain

from contract.keys import GATE, HOSTNAME, NODE_IDS, SERVER_2, SERVER_4
from contract.place import Place, Placer
from placement.decide.decide import Scene
from placement.decide.plan import Memory, Opening, Tuning
from placement.decide.topology import Topology
from placement.observe.model import UNITS, Demand, Guarantee, Node, Pod, shared
from testbed.experiment.trace.fleet import NODES
from testbed.experiment.trace.jobs import Job
from testbed.plane.nodes import INSTANCE_TYPE, TRN2U

KEYS = {4: SERVER_4, 2: SERVER_2, 1: HOSTNAME}
EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
CAPACITY = {"aws.amazon.com/neuron": 16_000, "cpu": 192_000, "pods": 110_000}
REQUESTS = {"aws.amazon.com/neuron": 16_000, "cpu": 100_000}


class Product:
    """Decides as the program does.

    Attributes:
        reserved: The free nodes that the last decision keeps for a job.

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
        """By tenant and number of nodes, in the order of arrival."""
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
        """Decides, and carries out the decision.

        Raises:
            RuntimeError: The decision names an error of the program, or deletes Pods.
        """
        pods = chain.from_iterable(chain(self._running.values(), *map(self._candidates, self._waiting)))
        at = EPOCH + timedelta(seconds=now)
        decision = Scene(self._topology, tuple(pods), at, self._tuning, self._memory).decision()
        if decision.errors or decision.deletions:
            raise RuntimeError(f"errors: {decision.errors}; deletions: {decision.deletions}")
        self._memory, cluster = decision.memory, decision.cluster
        reserved = cluster.reservation.nodes if cluster.reservation else ()
        self.reserved = [self._numbers[name] for name in reserved if not cluster.holders.get(name)]
        return [self._admit(opening, now) for opening in decision.openings]

    def _candidates(self, alike: tuple[str, int]) -> Iterable[list[Pod]]:
        """Yields the Pods of a tenant's equal jobs that may be admitted now.

        The decision considers equal jobs of a namespace by age, and a shorter limit admits at least as many.
        So a job certainly waits if there is no room for the older ones with no longer limit, and to leave it
        out changes nothing but the time that a decision takes.
        """
        limits: list[timedelta] = []
        for pods in self._waiting[alike].values():
            limit = pods[0].limit or timedelta.max
            if bisect_right(limits, limit) <= self._free // alike[1]:
                insort(limits, limit)
                yield pods

    def _admit(self, opening: Opening, now: float) -> tuple[Job, Sequence[int]]:
        """Pins the Pods of a job and binds them."""
        job = self._jobs[opening.job.key[1]]
        key, opened = opening.job.place.unit, EPOCH + timedelta(seconds=now)
        running = []
        for block, members in opening.job.blocks.items():
            unit = opening.blocks[block]
            nodes = self._topology.units_by(key)[unit].nodes
            for member, node in zip(members, nodes, strict=True):
                bound = replace(member.pod, gates=(), demand=_demand(key, unit), opened=opened, started=True)
                running.append(replace(bound, node=node.name))
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
        place=_place(job.nodes, job.size),
        number=number,
        gates=(GATE,),
        demand=_demand(),
        created=EPOCH + timedelta(seconds=job.arrival),
        limit=None if job.limit is None else timedelta(seconds=job.limit),
    )


@lru_cache(maxsize=256)
def _place(workers: int, size: int) -> Place:
    """Returns a placement annotation; equal ones are identical, as in the program."""
    return Place(Placer.WHOLE_JOB, workers, size, KEYS[size])


@cache
def _demand(key: str = "", unit: str = "") -> Demand:
    """Returns what a Pod asks of a node, pinned to a unit where one is given."""
    return shared(Demand({INSTANCE_TYPE: TRN2U} | ({key: unit} if key else {}), None, (), REQUESTS))
