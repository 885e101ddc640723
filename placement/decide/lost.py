"""Finds jobs on failed nodes, and decides which pods are deleted, so that the jobs run elsewhere. Pure."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import chain
from typing import Final, NamedTuple

from contract.keys import GATE
from placement import messages
from placement.decide.cluster import Cluster, display_name
from placement.decide.fit import why_untolerated, why_unusable
from placement.decide.jobs import Job
from placement.decide.members import Member
from placement.decide.plan import MEMORY_TIME, MOST_DEPARTURES, Departure, Memory, Tuning
from placement.messages import EventReason
from placement.observe.model import Demand, JobKey, Node, intern

RESTART: Final = "restart"


class Loss(NamedTuple):
    """The blocks of a job that must leave their nodes, and the pods that are deleted for that."""

    why: str
    is_whole: bool  # whether the whole job waits again
    blocks: Mapping[int, Sequence[Member]]  # the blocks that must leave their present nodes
    pods: tuple[Member, ...]  # the workers that are deleted
    # The launchers, which are deleted before the workers: a launcher that loses a worker may end with exit
    # code 0, and then its job is complete. A new launcher also sets up the new nodes.
    launchers: tuple[Member, ...]
    # The uids of pods that are deleted without a grace period: pods on failed nodes, because no kubelet ends
    # them; and launchers, because with a grace period, their phase would become Failed.
    at_once: frozenset[str]
    preemptor: Job | None = None  # the job that preempts this job; None if a node failed

    @property
    def reason(self) -> EventReason:
        """The reason of the Event about the deletion."""
        if self.preemptor:
            return EventReason.PREEMPTED
        return EventReason.RESTARTED if self.is_whole else EventReason.MOVED


class Losses:
    """The jobs that have or have left a failed node, and the victims, in one decision."""

    def __init__(self, cluster: Cluster, now: datetime, tuning: Tuning, memory: Memory) -> None:
        self._cluster, self._now, self._tuning = cluster, now, tuning
        self._memory = memory  # the memory of the next decision
        self._pods: defaultdict[JobKey, list[Member]] = defaultdict(list)
        # The losses that have lasted for `Tuning.failed_after`, and the losses of the victims.
        self.lasting: dict[JobKey, Loss] = {}
        # The last time at which most nodes were not Ready. After it, nodes become Ready one after the other.
        self.cut_off_at: datetime | None = None

    def add(self, member: Member) -> None:
        """Adds a pod with the annotation on-node-failure, even if the pod is being deleted."""
        self._pods[member.key].append(member)

    def follow(self, jobs: Mapping[JobKey, Job], previous: Memory) -> Iterator[tuple[Job, Exception]]:
        """Finds losses, and holds the new nodes of jobs that move. Yields jobs that a bug affects."""
        cut_off = self._cluster.topology.is_cut_off(self._cluster.units.labels)
        self.cut_off_at = self._now if cut_off else previous.cut_off_at
        for key in self._pods.keys() & jobs.keys():
            try:
                loss = loss_of(jobs[key], self._pods[key], self._cluster)
            except Exception as error:  # noqa: BLE001 - a bug in this program about one job
                yield jobs[key], error
                continue
            if loss:
                self._memory.lost_since[key] = since = previous.lost_since.get(key, self._now)
                if self._now - since >= self._tuning.failed_after:
                    self.lasting[key] = loss
        for key, departure in previous.departures.items():
            job, is_new = jobs.get(key), self._is_new(departure)
            is_over = job.is_settled if job else not is_new
            age_start = None if is_over else departure.age_start
            if self._now - departure.deleted_at < MEMORY_TIME or age_start:
                nodes = frozenset[str]() if is_over else departure.nodes
                self._memory.departures[key] = departure._replace(age_start=age_start, nodes=nodes)
            if is_new and not is_over and not (job and job.gated_pods and not job.incomplete_reason):
                for name in departure.nodes:  # they stay held, because some pods may not exist yet
                    self._cluster.hold_node(name, key)

    def moves(self, job: Job) -> bool:
        """Returns whether a job must leave nodes (`lasting`), or moved from failed nodes recently."""
        departure = self._departure(job)
        return job.key in self.lasting or bool(departure and departure.nodes and self._is_new(departure))

    def age_start(self, job: Job) -> datetime | None:
        """Returns the start of the age of a job whose pods were all deleted; None for other jobs.

        `leave` limits the age to `Tuning.default_limit`, because the job may have run for months.
        """
        departure = self._departure(job)
        return departure.age_start if departure else None

    def restarted_at(self, job: Job) -> datetime | None:
        """Returns when all pods of a waiting job were deleted because a node failed; None for other jobs."""
        departure = self._departure(job)
        if departure and departure.age_start and not departure.is_preempted:
            return departure.deleted_at
        return None

    def backoff_reason(self, job: Job) -> str | None:
        """Returns why a job must not leave its nodes now; None if it may leave them."""
        if self.cut_off_at == self._now:
            return messages.MOST_NOT_READY
        if self.cut_off_at and self._now - self.cut_off_at < self._tuning.failed_after:
            return messages.MOST_WERE_NOT_READY
        times = self._memory.node_failures.get(job.key, ())
        if len(times) < MOST_DEPARTURES:
            return None
        return messages.next_attempt(messages.left_often(len(times)), times[0] + MEMORY_TIME)

    def loss_of_victim(self, job: Job, preemptor: Job, workers: tuple[Member, ...]) -> Loss:
        """Returns the loss of a job that is preempted: the whole job waits again."""
        why, launchers = messages.preempted_by(display_name(preemptor.key)), self.launchers_of(job.key)
        at_once = frozenset(member.pod.uid for member in launchers)
        return Loss(why, True, job.blocks, workers, launchers, at_once, preemptor)  # noqa: FBT003 - its fields

    def launchers_of(self, key: JobKey) -> tuple[Member, ...]:
        """Returns the launchers of a job (see `add`) that have nodes, even if they are being deleted."""
        return _launchers(self._pods.get(key, ()))

    def uids_on_nodes(self, key: JobKey) -> frozenset[str]:
        """Returns the uids of a job's pods (see `add`) that have nodes, even if they are being deleted."""
        return frozenset(member.pod.uid for member in self._pods.get(key, ()) if member.pod.node)

    def record_launcher_deletion(self, job: Job) -> str:
        """Returns why launchers must not be deleted again; otherwise, records a deletion and returns ''."""
        times = self._memory.launcher_deletions.get(job.key, ())
        if len(times) < MOST_DEPARTURES:
            self._memory.launcher_deletions[job.key] = (*times, self._now)
            return ""
        return messages.next_attempt(messages.launcher_again(len(times)), times[0] + MEMORY_TIME)

    def leave(self, job: Job, nodes: frozenset[str], admitted_at: datetime | None = None) -> None:
        """Remembers that a job leaves its nodes, and moves to ``nodes`` or, without them, waits again.

        ``admitted_at`` is when a victim was admitted: its age becomes the time for which it waited before.
        Without ``admitted_at``, a node failure is recorded.
        """
        start = self.age_start(job) or min(member.pod.created for member in job.workers or job.pods)
        start = min(start + (self._now - admitted_at if admitted_at else timedelta()), self._now)
        start = max(start, self._now - self._tuning.default_limit)
        placement = next(member.placement for member in self._pods[job.key] if member.placement)
        layout = placement.workers, placement.size, placement.unit
        age_start = None if nodes else start
        if not admitted_at:
            times = self._memory.node_failures.get(job.key, ())
            self._memory.node_failures[job.key] = (*times, self._now)
        previous = self._departure(job)  # a victim whose pods still end may also lose a node
        is_preempted = bool(admitted_at or (previous and previous.age_start and previous.is_preempted))
        self._memory.departures[job.key] = Departure(self._now, nodes, age_start, layout, is_preempted)
        self._memory.lost_since[job.key] = self._now  # if the job still lacks a node later, it leaves again

    @property
    def recently_left(self) -> set[JobKey]:
        """The jobs that left nodes so recently that their pods may not exist again yet."""
        return {key for key, departure in self._memory.departures.items() if self._is_new(departure)}

    def _departure(self, job: Job) -> Departure | None:
        """Returns the departure of a job; None if there is none, or if the job has another layout now."""
        departure = self._memory.departures.get(job.key)
        return departure if departure and job.layouts <= {departure.layout} else None

    def _is_new(self, departure: Departure) -> bool:
        return self._now - departure.deleted_at < self._tuning.bound


def loss_of(job: Job, pods: Iterable[Member], cluster: Cluster) -> Loss | None:
    """Returns the loss of a job; None if all its blocks can run on their nodes, or no pod must be deleted.

    A cordoned or tainted node causes a loss only if a missing worker needs the node. ``pods`` are the job's
    pods with the annotation on-node-failure, including pods that are being deleted.
    """
    workers = [member for member in pods if member.placement]
    admitted_workers = [
        member for member in workers if member.pod.admitted_at and (member.pod.node or member.pin)
    ]
    nodes_by_number = _nodes_by_number(job)
    # A worker that is being deleted is ignored if another worker with its number has a unit.
    present_workers = [
        member
        for member in admitted_workers
        if not (member.pod.deleting and member.pod.number in nodes_by_number)
    ]
    blocks = defaultdict[int, list[Member]](list)
    for member in present_workers:
        blocks[member.pod.block].append(member)
    texts = {block: _block_cause(job, members, nodes_by_number, cluster) for block, members in blocks.items()}
    causes = {block: text for block, text in texts.items() if text}
    restarts = any(member.pod.on_failure == RESTART for member in workers)
    launchers = _launchers(pods)
    bound_pods = (member.pod for member in pods if member.pod.node)
    dead_uids = {pod.uid for pod in bound_pods if cluster.topology.why_dead(pod.node)}
    leaving_pods = [
        member
        for member in present_workers
        if (restarts or member.pod.block in causes)
        and not member.pod.gated
        and (member.pod.uid in dead_uids or not member.pod.deleting)
    ]
    if not causes or not leaving_pods:
        return None
    return Loss(
        next(iter(causes.values())),
        restarts,
        {block: blocks[block] for block in sorted(causes)},
        tuple(leaving_pods),
        launchers,
        frozenset(dead_uids.union(member.pod.uid for member in launchers)),
    )


def _launchers(pods: Iterable[Member]) -> tuple[Member, ...]:
    return tuple(member for member in pods if not member.placement and member.pod.node)


def with_waiting_blocks(job: Job, loss: Loss, since: datetime) -> Job:
    """Returns a job as if the workers of the lost blocks waited without pins since the given time."""
    other_pods = [
        member for member in job.pods if not member.placement or member.pod.block not in loss.blocks
    ]
    waiting_workers = (_as_waiting(member, since) for member in chain(*loss.blocks.values()))
    return replace(job, pods=(*other_pods, *waiting_workers))


def _as_waiting(member: Member, since: datetime) -> Member:
    pod, label = member.pod, member.placement.unit if member.placement else ""
    selector = {key: value for key, value in member.demand.selector.items() if key != label}
    demand = intern(replace(member.demand, selector=selector))
    pod = replace(
        pod, gates=(GATE,), admitted_at=None, plan="", node="", started=False, deleting=False, created=since
    )
    return Member(pod, member.key, member.placement, demand, has_claim=False, uses_devices=True, pin=None)


def _nodes_by_number(job: Job) -> Mapping[int, str]:
    """Returns the node name (or '') of each worker that has a unit, by the worker's number."""
    pods = (
        member.pod for member in job.workers if member.pod.node or (member.pod.admitted_at and member.pin)
    )
    return {pod.number: pod.node for pod in pods}


def _why_out_of_use(node: Node, demand: Demand) -> str | None:
    """Returns why workers cannot return to a node; None if they can. Labels and devices are ignored."""
    if state := why_unusable(node):
        return messages.node_is(node.name, state)
    cause = why_untolerated(demand, node)
    return cause.detail if cause else None


def _block_cause(
    job: Job, members: Sequence[Member], nodes_by_number: Mapping[int, str], cluster: Cluster
) -> str | None:
    """Returns why a block cannot run on its unit; None if it can, or if the cause is not a node.

    A block cannot if a worker's node is gone or not Ready, or too few nodes are usable for missing workers.
    """
    for member in members:
        if member.pod.node and (why := cluster.topology.why_dead(member.pod.node)):
            return why
    placement, topology = job.placement, cluster.topology
    sample = next((member for member in members if not member.pod.deleting), members[0])
    numbers = range(sample.pod.block * placement.size, (sample.pod.block + 1) * placement.size)
    missing = sum(number not in nodes_by_number and number not in job.ended_numbers for number in numbers)
    unit_id = sample.unit
    unit = topology.unit(placement.unit, unit_id)
    free_nodes = [node for node in unit.nodes if node.name not in nodes_by_number.values()] if unit else []
    causes = [cause for node in free_nodes if (cause := _why_out_of_use(node, sample.demand))]
    if missing <= len(free_nodes) - len(causes):
        return None
    if causes:
        return causes[0]
    full_size = cluster.units.kind_of_placement(placement).nodes
    return messages.node_of_unit_gone(unit_id) if len(unit.nodes if unit else ()) < full_size else None
