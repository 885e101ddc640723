"""Clusters and jobs in a few words, and what happens to them when decisions are carried out."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from contract.keys import GATE, HOSTNAME, NODE_IDS, SERVER_2, SERVER_4
from contract.place import Place, Placer
from placement import messages
from placement.act.write import opened_value
from placement.decide.cluster import display_name
from placement.decide.decide import Scene
from placement.decide.jobs import Job, jobs_of
from placement.decide.members import unexamined_member
from placement.decide.plan import Admission, Decision, Deletion, Memory, Tuning
from placement.decide.topology import Topology
from placement.observe.inventory import Inventory
from placement.observe.model import UNITS, Demand, EndedWorker, JobKey, Node, Pod
from testbed.plane.nodes import INSTANCE_TYPE, TRN2U

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
SECOND, MINUTE, HOUR = timedelta(seconds=1), timedelta(minutes=1), timedelta(hours=1)
CAPACITY = {"aws.amazon.com/neuron": 16_000, "cpu": 192_000, "pods": 110_000}
WHOLE_NODE = {"aws.amazon.com/neuron": 16_000, "cpu": 100_000}
KEYS = {4: SERVER_4, 2: SERVER_2, 1: HOSTNAME}
DEMAND = Demand({INSTANCE_TYPE: TRN2U}, None, (), WHOLE_NODE)


def decide(  # noqa: PLR0913, PLR0917 - the inputs of a decision
    nodes: Topology,
    pods: Iterable[Pod | EndedWorker],
    now: datetime,
    tuning: Tuning | None = None,
    memory: Memory | None = None,
    inventory: Inventory | None = None,
) -> Decision:
    """Returns the decision about nodes and pods."""
    given = tuning or Tuning(), memory or Memory(), inventory or Inventory()
    return Scene(nodes, tuple(pods), now, *given).decision()


def node(server: int, position: int, **changes: Any) -> Node:
    """Returns node ``n1-0`` is the first of UltraServer ``us-01``; its pair is ``us-01-a``."""
    name = f"n{server}-{position}"
    labels = {
        HOSTNAME: name,
        INSTANCE_TYPE: TRN2U,
        SERVER_4: f"us-{server:02}",
        NODE_IDS[SERVER_4]: str(position),
        SERVER_2: f"us-{server:02}-{'ab'[position // 2]}",
        NODE_IDS[SERVER_2]: str(position % 2),
    }
    return Node(name, labels | changes.pop("labels", {}), allocatable=CAPACITY, **changes)


def on_unit(unit: str) -> Demand:
    """Returns the demand of pods that select an UltraServer."""
    return replace(DEMAND, selector={**DEMAND.selector, SERVER_4: unit})


def servers(count: int) -> dict[str, Node]:
    """Returns the nodes of that many UltraServers, by name."""
    nodes = (node(server, position) for server in range(1, count + 1) for position in range(4))
    return {node.name: node for node in nodes}


def changed(nodes: Mapping[str, Node], **changes: Mapping[str, Any] | None) -> list[Node]:
    """Returns the nodes, some of them otherwise: ``n1_0={"cordoned": True}``; None for one that is gone."""
    wanted = {name.replace("_", "-"): change for name, change in changes.items()}
    assert wanted.keys() <= nodes.keys()
    return [
        replace(node, **wanted.get(name, {}))
        for name, node in nodes.items()
        if wanted.get(name, {}) is not None
    ]


def config_of(workers: int) -> int:
    """Returns the node config that the packaged table gives to a number of workers."""
    return 4 if workers % 4 == 0 else 2 if workers % 2 == 0 else 1


def job(  # noqa: PLR0913
    name: str,
    workers: int,
    *,
    config: int | None = None,
    age: timedelta = MINUTE,
    launcher: bool = False,
    namespace: str = "team",
    demand: Demand = DEMAND,
    **changes: Any,
) -> list[Pod]:
    """Returns the pods of a job as its operator makes them: all of them gated."""
    size = config or config_of(workers)
    common: dict[str, Any] = {"job": f"{namespace}.{name}", "gates": (GATE,), "created": NOW - age} | changes
    pods = [
        Pod(
            namespace,
            f"{name}-worker-{index}",
            f"{namespace}/{name}/{index}/0",
            place=Place(Placer.WHOLE_JOB, workers, size, KEYS[size]),
            number=index,
            demand=demand,
            **common,
        )
        for index in range(workers)
    ]
    if launcher:
        pods.append(Pod(namespace, f"{name}-launcher", f"{namespace}/{name}/launcher/0", **common))
    return pods


def foreign(name: str, on: str, *, neuron: bool = True, **changes: Any) -> Pod:
    """Returns a pod of no one we know, on a node."""
    demand = Demand(requests={"aws.amazon.com/neuron": 1_000} if neuron else {"cpu": 1_000})
    return Pod("other", name, f"other/{name}", demand=demand, node=on, started=True, **changes)


def pinned(pod: Pod, key: str, value: str, now: datetime = NOW, plan: str = "") -> Pod:
    """Returns a pod after the patch that pins it."""
    demand = replace(pod.demand, selector={**pod.demand.selector, key: value})
    return replace(pod, demand=demand, admitted_at=now, plan=plan)


def admitted(pod: Pod) -> Pod:
    """Returns a pod without the gate."""
    return replace(pod, gates=tuple(gate for gate in pod.gates if gate != GATE))


def listed(nodes: Iterable[Node] | Mapping[str, Node]) -> list[Node]:
    """Returns the nodes, which may be given by name."""
    return [*(nodes.values() if isinstance(nodes, Mapping) else nodes)]


def bound(pods: Iterable[Pod], nodes: Iterable[Node] | Mapping[str, Node], **changes: Any) -> list[Pod]:
    """Returns pods that were admitted, pinned and bound, one on each of the nodes."""
    return [
        replace(admitted(pinned(pod, pod.place.unit, node.labels[pod.place.unit])), node=node.name, **changes)
        if pod.place
        else admitted(pod)
        for pod, node in zip(pods, listed(nodes), strict=True)
    ]


def settled(pods: Iterable[Pod], topology: Topology) -> list[Pod]:
    """Returns the pods when kube-scheduler has bound all that were admitted, and their containers run."""
    pods = list(pods)
    taken = {pod.node for pod in pods}
    after = []
    for pod in pods:
        if pod.place and pod.pin and not pod.gated and not pod.node:
            unit = topology.units_of_label(pod.place.unit)[pod.pin]
            name = next(node.name for node in unit.nodes if node.name not in taken)
            taken.add(name)
            after.append(replace(pod, node=name, started=True))
        else:
            after.append(pod)
    return after


def on(nodes: Mapping[str, Node], *names: str) -> list[Node]:
    return [nodes[name] for name in names]


def writes_to(decision: Decision) -> list[tuple[Pod, str, str, bool]]:
    """Returns the patches of a decision, in order."""
    return [patch for admission in decision.admissions for patch in patches(admission)]


def patches(admission: Admission) -> list[tuple[Pod, str, str, bool]]:
    """Returns the writes of an admission, in order: pod, unit, plan, and whether its gate is removed.

    A pod that is not the first has one write for both.
    """
    first = {pod.uid: opened_value(NOW, plan).partition(" ")[2] for pod, plan in admission.plans}
    late = {member.pod.uid for member in admission.job.unpinned_workers} - first.keys()
    return [(pod, admission.blocks[pod.block], first[pod.uid], False) for pod, _ in admission.plans] + [
        (pod, admission.blocks[pod.block] if pod.uid in late else "", "", True)
        for pod in (member.pod for member in admission.job.gated_pods)
    ]


def problem(pod: Pod) -> str:
    """Returns why it cannot be placed, as it was read; empty where it can."""
    return messages.fault(*pod.fault) if pod.fault else ""


def jobs(pods: Iterable[Pod]) -> list[Job]:
    """Returns the jobs of pods that are believed."""
    return [job for _, job in jobs_of(unexamined_member(pod, UNITS) for pod in pods).values()]


def carry_out(pods: Iterable[Pod], decision: Decision, now: datetime = NOW, writes: int = 10**9) -> list[Pod]:
    """Returns the pods after the first this many writes of a decision, as if it crashed there."""
    world = {pod.uid: pod for pod in pods}
    deletions = [pod for deletion in decision.deletions for pod in deletion.pods]
    for pod in deletions[:writes]:
        del world[pod.uid]
    for pod, unit, plan, is_open in writes_to(decision)[: max(writes - len(deletions), 0)]:
        if unit and pod.place:
            world[pod.uid] = pinned(world[pod.uid], pod.place.unit, unit, now, plan)
        if is_open:
            world[pod.uid] = admitted(world[pod.uid])
    return list(world.values())


def writes_of(decision: Decision) -> int:
    """Returns how many writes a decision takes."""
    deletions: tuple[Deletion, ...] = decision.deletions
    return sum(len(deletion.pods) for deletion in deletions) + len(writes_to(decision))


def name_of(key: JobKey) -> str:
    """Returns ``a`` for a job of the namespace ``team``, ``other/a`` for one of another."""
    return display_name(key).removeprefix("team/")


def placed(decision: Decision) -> dict[str, str]:
    """Returns where the admitted jobs go: ``{"a": "us-01 us-02"}``."""
    by_job: dict[str, dict[str, None]] = {}
    for admission in decision.admissions:
        units = by_job.setdefault(name_of(admission.job.key), {})
        units.update(dict.fromkeys(admission.units))
    return {name: " ".join(units) for name, units in by_job.items()}


def waiting(decision: Decision) -> dict[str, str]:
    """Returns why the others wait."""
    return {name_of(waits.job.key): waits.why for waits in decision.waiting}


def deleted(decision: Decision) -> list[str]:
    """Returns the pods that are deleted."""
    return [pod.name for deletion in decision.deletions for pod in deletion.pods]
