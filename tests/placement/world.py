"""Helpers that create nodes and pods, and that change them as a decision and kube-scheduler do."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from contract.keys import GATE, HOSTNAME, NODE_IDS, SERVER_2, SERVER_4
from contract.placement import Placement, Placer
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
    inputs = tuning or Tuning(), memory or Memory(), inventory or Inventory()
    return Scene(nodes, tuple(pods), now, *inputs).decision()


def node(server: int, position: int, **changes: Any) -> Node:
    """Returns a node. ``n1-0`` is the first node of UltraServer ``us-01``, and in its pair ``us-01-a``."""
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


def demand_on_unit(unit: str) -> Demand:
    """Returns the demand of pods that select an UltraServer."""
    return replace(DEMAND, selector={**DEMAND.selector, SERVER_4: unit})


def servers(count: int) -> dict[str, Node]:
    """Returns the nodes of the given number of UltraServers, by name."""
    nodes = (node(server, position) for server in range(1, count + 1) for position in range(4))
    return {node.name: node for node in nodes}


def changed_nodes(nodes: Mapping[str, Node], **changes: Mapping[str, Any] | None) -> list[Node]:
    """Returns the nodes with changed fields: ``n1_0={"cordoned": True}``. None removes the node."""
    changes_by_name = {name.replace("_", "-"): change for name, change in changes.items()}
    assert changes_by_name.keys() <= nodes.keys()
    return [
        replace(node, **changes_by_name.get(name, {}))
        for name, node in nodes.items()
        if changes_by_name.get(name, {}) is not None
    ]


def config_of(workers: int) -> int:
    """Returns the node config of the packaged table for a number of workers."""
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
    """Returns the pods of a job as its operator creates them: all pods are gated."""
    size = config or config_of(workers)
    common: dict[str, Any] = {"job": f"{namespace}.{name}", "gates": (GATE,), "created": NOW - age} | changes
    pods = [
        Pod(
            namespace,
            f"{name}-worker-{index}",
            f"{namespace}/{name}/{index}/0",
            placement=Placement(Placer.WHOLE_JOB, workers, size, KEYS[size]),
            number=index,
            demand=demand,
            **common,
        )
        for index in range(workers)
    ]
    if launcher:
        pods.append(Pod(namespace, f"{name}-launcher", f"{namespace}/{name}/launcher/0", **common))
    return pods


def foreign_pod(name: str, node_name: str, *, neuron: bool = True, **changes: Any) -> Pod:
    """Returns a running pod that belongs to no job, on a node."""
    demand = Demand(requests={"aws.amazon.com/neuron": 1_000} if neuron else {"cpu": 1_000})
    return Pod("other", name, f"other/{name}", demand=demand, node=node_name, started=True, **changes)


def pin_pod(pod: Pod, key: str, value: str, now: datetime = NOW, plan: str = "") -> Pod:
    """Returns the pod after the patch that pins it."""
    demand = replace(pod.demand, selector={**pod.demand.selector, key: value})
    return replace(pod, demand=demand, admitted_at=now, plan=plan)


def ungate_pod(pod: Pod) -> Pod:
    """Returns the pod without the gate of whole-job admission."""
    return replace(pod, gates=tuple(gate for gate in pod.gates if gate != GATE))


def node_list(nodes: Iterable[Node] | Mapping[str, Node]) -> list[Node]:
    """Returns the nodes as a list. The argument may be a map of nodes by name."""
    return [*(nodes.values() if isinstance(nodes, Mapping) else nodes)]


def bind_pods(pods: Iterable[Pod], nodes: Iterable[Node] | Mapping[str, Node], **changes: Any) -> list[Pod]:
    """Returns the pods after their admission: each worker is pinned and bound to one of the nodes."""
    return [
        replace(
            ungate_pod(pin_pod(pod, pod.placement.unit, node.labels[pod.placement.unit])),
            node=node.name,
            **changes,
        )
        if pod.placement
        else ungate_pod(pod)
        for pod, node in zip(pods, node_list(nodes), strict=True)
    ]


def run_scheduler(pods: Iterable[Pod], topology: Topology) -> list[Pod]:
    """Returns the pods after kube-scheduler has bound all admitted workers, and their containers run."""
    pods = list(pods)
    used_nodes = {pod.node for pod in pods}
    pods_after = []
    for pod in pods:
        if pod.placement and pod.pin and not pod.gated and not pod.node:
            unit = topology.units_of_label(pod.placement.unit)[pod.pin]
            name = next(node.name for node in unit.nodes if node.name not in used_nodes)
            used_nodes.add(name)
            pods_after.append(replace(pod, node=name, started=True))
        else:
            pods_after.append(pod)
    return pods_after


def select_nodes(nodes: Mapping[str, Node], *names: str) -> list[Node]:
    """Returns the nodes with the given names."""
    return [nodes[name] for name in names]


def patches_of(decision: Decision) -> list[tuple[Pod, str, str, bool]]:
    """Returns the patches of all admissions of a decision, in order."""
    return [patch for admission in decision.admissions for patch in admission_patches(admission)]


def admission_patches(admission: Admission) -> list[tuple[Pod, str, str, bool]]:
    """Returns the patches of an admission, in order: pod, unit, plan, and whether the gate is removed.

    First the pods with a plan are pinned. Then one patch for each gated pod removes its gate, and pins it
    if it is a worker without a pin.
    """
    plans = {pod.uid: opened_value(NOW, plan).partition(" ")[2] for pod, plan in admission.plans}
    unpinned_uids = {member.pod.uid for member in admission.job.unpinned_workers} - plans.keys()
    return [(pod, admission.blocks[pod.block], plans[pod.uid], False) for pod, _ in admission.plans] + [
        (pod, admission.blocks[pod.block] if pod.uid in unpinned_uids else "", "", True)
        for pod in (member.pod for member in admission.job.gated_pods)
    ]


def fault_text(pod: Pod) -> str:
    """Returns the text of a pod's fault; empty if the pod has none."""
    return messages.fault(*pod.fault) if pod.fault else ""


def jobs(pods: Iterable[Pod]) -> list[Job]:
    """Returns the jobs of the pods, as if all placement annotations were trusted."""
    return [job for _, job in jobs_of(unexamined_member(pod, UNITS) for pod in pods).values()]


def carry_out(pods: Iterable[Pod], decision: Decision, now: datetime = NOW, writes: int = 10**9) -> list[Pod]:
    """Returns the pods after the first ``writes`` writes of a decision, as if the program crashed then."""
    pods_by_uid = {pod.uid: pod for pod in pods}
    deletions = [pod for deletion in decision.deletions for pod in deletion.pods]
    for pod in deletions[:writes]:
        del pods_by_uid[pod.uid]
    for pod, unit, plan, removes_gate in patches_of(decision)[: max(writes - len(deletions), 0)]:
        if unit and pod.placement:
            pods_by_uid[pod.uid] = pin_pod(pods_by_uid[pod.uid], pod.placement.unit, unit, now, plan)
        if removes_gate:
            pods_by_uid[pod.uid] = ungate_pod(pods_by_uid[pod.uid])
    return list(pods_by_uid.values())


def count_writes(decision: Decision) -> int:
    """Returns the number of deletions and patches of a decision."""
    deletions: tuple[Deletion, ...] = decision.deletions
    return sum(len(deletion.pods) for deletion in deletions) + len(patches_of(decision))


def short_name(key: JobKey) -> str:
    """Returns ``a`` for a job in the namespace ``team``, and ``other/a`` for a job in ``other``."""
    return display_name(key).removeprefix("team/")


def placed_jobs(decision: Decision) -> dict[str, str]:
    """Returns the new units of each admitted job: ``{"a": "us-01 us-02"}``."""
    by_job: dict[str, dict[str, None]] = {}
    for admission in decision.admissions:
        units = by_job.setdefault(short_name(admission.job.key), {})
        units.update(dict.fromkeys(admission.units))
    return {name: " ".join(units) for name, units in by_job.items()}


def waiting_reasons(decision: Decision) -> dict[str, str]:
    """Returns why each waiting job waits, by the job's name."""
    return {short_name(waits.job.key): waits.why for waits in decision.waiting}


def deleted_pods(decision: Decision) -> list[str]:
    """Returns the names of the pods that the decision deletes."""
    return [pod.name for deletion in decision.deletions for pod in deletion.pods]
