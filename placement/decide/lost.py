"""Finds jobs that have lost a node, and decides which pods are deleted so that they run elsewhere. Pure."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import chain
from typing import Final, NamedTuple

from contract.keys import GATE
from placement import messages
from placement.decide.believe import Member
from placement.decide.cluster import Cluster, shown
from placement.decide.fit import untolerated, unusable
from placement.decide.jobs import Job
from placement.decide.plan import MOST_LEFT, REMEMBERED, Left, Memory, Tuning, recent
from placement.messages import EventReason
from placement.observe.model import Demand, JobKey, Node, shared

RESTART: Final = "restart"


class Loss(NamedTuple):
    """What a job has lost."""

    why: str
    whole: bool  # whether all of it waits again
    blocks: Mapping[int, Sequence[Member]]  # the blocks that cannot run on their present nodes
    pods: tuple[Member, ...]  # the pods to delete
    # The launchers to delete before them: a launcher that loses a worker may end with 0, and then its job
    # counts as complete. A new launcher also sets up the new nodes.
    launchers: tuple[Member, ...]
    # The uids of pods to delete without a grace period: no kubelet ends them, or they are launchers, whose
    # phase would become Failed.
    at_once: frozenset[str]
    by: Job | None = None  # the job of higher priority for which it ends; None if a node failed

    @property
    def how(self) -> EventReason:
        """What the job does: the reason of its Event."""
        if self.by:
            return EventReason.PREEMPTED
        return EventReason.RESTARTED if self.whole else EventReason.MOVED


class Losses:
    """The jobs that have lost a node or have left one, while a decision is made."""

    def __init__(self, cluster: Cluster, now: datetime, tuning: Tuning, memory: Memory) -> None:
        self._cluster, self._now, self._tuning = cluster, now, tuning
        self._memory = memory  # of the next decision
        self._pods: defaultdict[JobKey, list[Member]] = defaultdict(list)
        self.lasting: dict[JobKey, Loss] = {}  # the losses that have lasted for `failed_after`
        # When most nodes were not Ready last: after that, they come back one after the other.
        self.cut_off: datetime | None = None

    def add(self, member: Member) -> None:
        """Adds a pod of a job with on-node-failure, even one that is being deleted."""
        self._pods[member.key].append(member)

    def follow(self, jobs: Mapping[JobKey, Job], before: Memory) -> Iterator[tuple[Job, Exception]]:
        """Finds losses, and keeps units for the jobs that move; yields the jobs with a bug."""
        cut_off = self._cluster.topology.cut_off(self._cluster.units.labels)
        self.cut_off = self._now if cut_off else before.cut_off
        for key in self._pods.keys() & jobs.keys():
            try:
                loss = loss_of(jobs[key], self._pods[key], self._cluster)
            except Exception as error:  # noqa: BLE001 - a bug in this program about one job
                yield jobs[key], error
                continue
            if loss:
                self._memory.lost[key] = since = before.lost.get(key, self._now)
                if self._now - since >= self._tuning.failed_after:
                    self.lasting[key] = loss
        for key, left in before.left.items():
            job, new = jobs.get(key), self._is_new(left)
            # A later job of the same name is another job.
            ended = job.settled if job else not new
            created = None if ended else left.created
            if self._now - left.at < REMEMBERED or created:
                nodes = frozenset[str]() if ended else left.nodes
                self._memory.left[key] = left._replace(created=created, nodes=nodes)
            if new and not ended and not (job and job.gated and not job.missing):
                for name in left.nodes:  # not all of its pods exist yet
                    self._cluster.hold(name, key)

    def moves(self, job: Job) -> bool:
        """Returns whether it needs a unit in place of one with a failed node."""
        left = self._left(job)
        return job.key in self.lasting or bool(left and left.nodes and self._is_new(left))

    def created(self, job: Job) -> datetime | None:
        """If all pods of a job were deleted, returns when the job was first created; otherwise None.

        Its age when they were deleted is at most the default limit: it may have run for months.
        """
        left = self._left(job)
        return left.created if left else None

    def pause(self, job: Job) -> str | None:
        """Returns why it may leave no node now; None if it may."""
        if self.cut_off == self._now:
            return messages.MOST_NOT_READY
        if self.cut_off and self._now - self.cut_off < self._tuning.failed_after:
            return messages.MOST_WERE_NOT_READY
        times = self._times(job)
        if len(times) < MOST_LEFT:
            return None
        return messages.tried_again(messages.left_often(len(times)), times[0] + REMEMBERED)

    def victim(self, job: Job, by: Job, workers: tuple[Member, ...]) -> Loss:
        """Returns what a job loses if it is preempted: all of it waits again."""
        why, launchers = messages.preempted_by(shown(by.key)), self.launchers_of(job.key)
        at_once = frozenset(member.pod.uid for member in launchers)
        return Loss(why, True, job.blocks, workers, launchers, at_once, by)  # noqa: FBT003 - its fields

    def launchers_of(self, key: JobKey) -> tuple[Member, ...]:
        """Returns the launchers of a job that have nodes, including those that are being deleted."""
        return _launchers(self._pods.get(key, ()))

    def running(self, key: JobKey) -> frozenset[str]:
        """Returns the uids of a job's pods with nodes, including those that are being deleted."""
        return frozenset(member.pod.uid for member in self._pods.get(key, ()) if member.pod.node)

    def keeps_launcher(self, job: Job) -> str:
        """Returns why the launcher of a job is not deleted again; empty, and remembers it, if it is."""
        times = self._memory.launchers.get(job.key, ())
        if len(times) < MOST_LEFT:
            self._memory.launchers[job.key] = (*times, self._now)
            return ""
        return messages.tried_again(messages.launcher_again(len(times)), times[0] + REMEMBERED)

    def leave(self, job: Job, nodes: frozenset[str], began: datetime | None = None) -> None:
        """Remembers that a job leaves a failed node and moves to ``nodes``; without any, it waits again.

        If ``began`` is given, the age of the job is only the time for which it waited before it began to run.
        """
        first = self.created(job) or min(member.pod.created for member in job.workers or job.pods)
        first = min(first + (self._now - began if began else timedelta()), self._now)
        first = max(first, self._now - self._tuning.default_limit)
        place = next(member.place for member in self._pods[job.key] if member.place)
        layout = place.workers, place.size, place.unit
        kept = None if nodes else first
        times = self._times(job) if began else (*self._times(job), self._now)
        self._memory.left[job.key] = Left(self._now, times, nodes, kept, layout)
        self._memory.lost[job.key] = self._now  # it is tried again if this does not help

    @property
    def recent(self) -> set[JobKey]:
        """The jobs whose pods may still be created again."""
        return {key for key, left in self._memory.left.items() if self._is_new(left)}

    def _left(self, job: Job) -> Left | None:
        """Returns what is known of a job that left a node, unless that was another job of its name."""
        left = self._memory.left.get(job.key)
        return left if left and job.layouts <= {left.layout} else None

    def _is_new(self, left: Left) -> bool:
        return self._now - left.at < self._tuning.bound

    def _times(self, job: Job) -> tuple[datetime, ...]:
        left = self._memory.left.get(job.key)
        return recent(left.times, self._now) if left else ()


def loss_of(job: Job, pods: Iterable[Member], cluster: Cluster) -> Loss | None:
    """Returns what a job has lost that has chosen to move or to restart; None if it can run where it is.

    A cordoned or tainted node is a loss only if a worker has to come back to it.

    ``pods`` are all of the job's with its choice, including those that are being deleted.
    """
    workers = [member for member in pods if member.place]
    admitted = [member for member in workers if member.pod.opened and (member.pod.node or member.pin)]
    alive = _alive(job)
    # A worker that is being deleted is taken into account as long as no other worker has its number.
    there = [member for member in admitted if not (member.pod.deleting and member.pod.number in alive)]
    blocks = defaultdict[int, list[Member]](list)
    for member in there:
        blocks[member.block].append(member)
    why = {block: text for block, own in blocks.items() if (text := _trouble(job, own, alive, cluster))}
    all_of_it = any(member.pod.on_failure == RESTART for member in workers)
    launchers = _launchers(pods)
    dead = {member.pod.uid for member in pods if member.pod.node and cluster.topology.dead(member.pod.node)}
    leaving = [
        member
        for member in there
        if (all_of_it or member.block in why)
        and not member.pod.gated
        and (member.pod.uid in dead or not member.pod.deleting)
    ]
    if not why or not leaving:
        return None
    return Loss(
        next(iter(why.values())),
        all_of_it,
        {block: blocks[block] for block in sorted(why)},
        tuple(leaving),
        launchers,
        frozenset(dead.union(member.pod.uid for member in launchers)),
    )


def _launchers(pods: Iterable[Member]) -> tuple[Member, ...]:
    return tuple(member for member in pods if not member.place and member.pod.node)


def elsewhere(job: Job, loss: Loss, since: datetime) -> Job:
    """Returns a job as if the workers of the lost blocks waited since then, without their pins."""
    stay = [member for member in job.pods if not member.place or member.block not in loss.blocks]
    return replace(job, pods=(*stay, *(_waits(member, since) for member in chain(*loss.blocks.values()))))


def _waits(member: Member, since: datetime) -> Member:
    unit = member.place.unit if member.place else ""
    selector = {key: value for key, value in member.demand.selector.items() if key != unit}
    demand = shared(replace(member.demand, selector=selector))
    pod = replace(
        member.pod, gates=(GATE,), opened=None, plan="", node="", started=False, deleting=False, created=since
    )
    return Member(pod, member.key, member.place, demand, claimed=False, neuron=True, pin=None, problem="")


def _alive(job: Job) -> Mapping[int, str]:
    """Returns the nodes of the workers that have units, by number, including those without the annotation."""
    pods = (member.pod for member in job.workers if member.pod.node or (member.pod.opened and member.pin))
    return {pod.number: pod.node for pod in pods}


def _out_of_use(node: Node, demand: Demand) -> str | None:
    """Returns the state of a node that keeps workers from returning; labels and devices are ignored."""
    if state := unusable(node):
        return messages.node_is(node.name, state)
    cause = untolerated(demand, node)
    return cause.detail if cause else None


def _trouble(job: Job, own: Sequence[Member], alive: Mapping[int, str], cluster: Cluster) -> str | None:
    """Returns why a block cannot run where it is: the state of a node; None if it can.

    ``alive`` has the nodes of the job's workers that have units, by number.
    """
    for member in own:
        if member.pod.node and (why := cluster.topology.dead(member.pod.node)):
            return why
    place, topology = job.place, cluster.topology
    first = max(own, key=lambda member: not member.pod.deleting)
    numbers = range(first.block * place.size, (first.block + 1) * place.size)
    lacking = sum(number not in alive and number not in job.ended for number in numbers)
    unit_id = first.unit
    unit = topology.unit(place.unit, unit_id)
    free_nodes = [node for node in unit.nodes if node.name not in alive.values()] if unit else []
    causes = [cause for node in free_nodes if (cause := _out_of_use(node, first.demand))]
    if lacking <= len(free_nodes) - len(causes):
        return None
    if causes:
        return causes[0]
    whole = cluster.units.kind(place).nodes
    return messages.node_of_unit_gone(unit_id) if len(unit.nodes if unit else ()) < whole else None
