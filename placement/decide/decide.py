"""Decides which jobs are admitted now, onto which units, and why the others wait; pure, without a clock.

A job that was admitted in part and has its units is finished first. Then jobs are considered by priority,
then by age / (share + 0.1), where the share is the part of all nodes that the namespace has. The first job
that does not fit gets a reservation: the units that become free first. Other jobs are admitted to other
units, or to these if they end before the reservation begins. The demands and failures of a job do not delay
jobs of other namespaces.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import partial

from placement import messages
from placement.decide.allocate import Allocator, UnplacedError
from placement.decide.allocation import taken
from placement.decide.believe import Belief, Member, unjudged
from placement.decide.cluster import Cluster, shown
from placement.decide.jobs import Job, jobs_of
from placement.decide.lost import Loss, Losses, elsewhere
from placement.decide.plan import (
    Decision,
    Deletion,
    Failure,
    Known,
    Memory,
    Opening,
    Shortage,
    Tuning,
    Unsettled,
    Waiting,
)
from placement.decide.preempt import Preemptions, without
from placement.decide.reasons import explain
from placement.decide.reserve import YOUNG, Ends, Shares
from placement.decide.topology import Topology
from placement.messages import Reason
from placement.observe.inventory import Inventory
from placement.observe.model import Ended, JobKey, Pod


@dataclass(frozen=True, slots=True)
class Scene:
    """The inputs of a decision.

    Attributes:
        nodes: The nodes.
        pods: Those that have not ended, with writes that no watch shows yet (`assume`), and the workers that
            have ended.
        now: The time.
        tuning: The settings.
        memory: What the previous decision remembers.
        inventory: The objects for device claims.
    """

    nodes: Topology
    pods: tuple[Pod | Ended, ...]
    now: datetime
    tuning: Tuning = field(default_factory=Tuning)
    memory: Memory = field(default_factory=Memory)
    inventory: Inventory = field(default_factory=Inventory)

    def decision(self) -> Decision:
        """Returns what to do now."""
        return _Round(self).run()


def assume(pods: Iterable[Pod], written: Iterable[Pod]) -> list[Pod]:
    """Returns the pods with this program's own writes, which the watch may not show yet.

    The state of a pod only moves forward: gated, pinned, without gate, bound. If the watch and the API
    server's answer to a write differ, the later state is used.
    """
    later = {pod.uid: pod for pod in written}
    return [max(pod, later.get(pod.uid, pod), key=_stage) for pod in pods]


def _stage(pod: Pod) -> tuple[bool, ...]:
    return pod.deleting, bool(pod.node), not pod.gated, pod.opened is not None


class _Round:
    """One decision while it is made."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self._now, self._tuning, self._memory = now, tuning, memory = scene.now, scene.tuning, scene.memory
        self._next = memory.later(now)  # what the next decision remembers, as far as it is known
        failures = memory.failures.items()
        resting = {key for key, failure in failures if failure.refused and now < failure.again(tuning)}
        self._cluster = cluster = Cluster(scene.nodes, resting, tuning.units)
        self._ends = Ends(now, memory.exceeded, memory.admitted, tuning.default_limit, tuning.bound)
        self._allocator = Allocator(cluster, self._next.doubtful, self._ends)
        self._openings: list[Opening] = []
        self._deletions: list[Deletion] = []
        self._waiting: list[Waiting] = []
        self._errors: list[tuple[Job, Exception]] = []
        self._ended: defaultdict[JobKey, set[int]] = defaultdict(set)
        self._losses = Losses(cluster, now, tuning, self._next)
        self._preemptions = Preemptions(cluster, now, tuning, self._next, self._losses, self._ends)
        # By namespace, the admitted job whose time for getting its nodes has not ended.
        self._trying: dict[str, JobKey] = {}

    def run(self) -> Decision:
        """Returns the decision."""
        members, jobs = self._consider_all()
        self._penalise_deleted_jobs(jobs)
        doubted = (
            Waiting(Job(member.key, (member,)), member.problem)
            for member in members
            if member.problem and not member.pod.gated and not member.pod.deleting
        )
        return Decision(
            tuple(self._openings),
            tuple(self._deletions),
            self._explained(),
            tuple(doubted),
            tuple(self._errors),
            self._remember(),
            self._cluster,
            self._ends,
            self._shares,
        )

    def _consider_all(self) -> tuple[list[Member], list[Job]]:
        """Adds all pods, then considers each job once, in order; returns the believed pods and the jobs."""
        before = self._memory.known
        if before and before.units is not self._tuning.units:
            before = None
        belief, members = self._add_pods(before)
        self._shares = shares = Shares(self._cluster.holders, len(self._cluster.topology.nodes))
        known = jobs_of(members, before.jobs if before else None)
        self._known = Known(self._cluster.topology, self._tuning.units, belief.members, known)
        jobs = [self._with_ended(job) for _, job in known.values()]
        by_key = {job.key: job for job in jobs}
        self._errors += self._losses.follow(by_key, self._memory)
        self._preemptions.follow(by_key, self._scene.pods, self._memory.preemption)
        jobs.sort(key=lambda job: self._order(job, shares))
        self._ends.add(jobs)
        self._trying = {job.key[0]: job.key for job in jobs if self._has_time(job) and not job.settled}
        for job in jobs:
            try:
                self._consider(job)
            except Exception as error:  # noqa: BLE001 - a bug in this program about one job
                self._report_bug(job, error)
        return members, jobs

    def _order(self, job: Job, shares: Shares) -> tuple[bool, int, bool, float, datetime, datetime, JobKey]:
        """Returns the sort key of a job: first those that have their units, then by priority and urgency.

        A job for which others end stays the first one of its priority.
        """
        since = self._since(job)
        urgency = shares.urgency(job.key[0], self._now - since)
        waits = not self._preemptions.preempts(job)
        return not self._goes_first(job), -job.priority, waits, -urgency, since, job.created, job.key

    def _since(self, job: Job) -> datetime:
        """Returns the time from which the age of a job is counted: it exists, and could have been admitted.

        If an admission fails, all jobs of the namespace lose their age. Otherwise a namespace could hold a
        unit with one failing job after the other.
        """
        created, failure, namespace = job.created, self._next.failures.get(job.key), job.key[0]
        parked, vain = self._memory.parked.get(job.key, created), self._next.vain.get(namespace, created)
        since = self._losses.created(job) or max(created, parked, vain)
        if failure and failure.count and not failure.refused:
            since = max(failure.at, since)
        debt, _ = self._next.debts.get(namespace, (timedelta(), None))
        return since + debt

    def _remember(self) -> Memory:
        """Returns the memory for the next decision."""
        reservation, reserved = self._cluster.reservation, self._memory.reserved
        if reservation is None:
            reserved = None
        elif reserved is None or reserved[0] != reservation.job:
            reserved = reservation.job, self._now
        return replace(
            self._next,
            reserved=reserved,
            admitted=self._ends.admitted,
            exceeded=self._ends.exceeded,
            preemption=self._preemptions.current,
            cut_off=self._losses.cut_off,
            known=self._known,
        )

    def _goes_first(self, job: Job) -> bool:
        """Returns whether it only needs units that it has, or one in place of a unit with a failed node.

        A failed admission or a refused write ends that.
        """
        moves = (job.returns or self._losses.moves(job)) and not self._preemptions.is_victim(job.key)
        return moves and job.key not in self._next.failures

    def _add_pods(self, before: Known | None) -> tuple[Belief, list[Member]]:
        """Adds all pods to the cluster; returns the believed ones, except of jobs that caused a bug."""
        topology, units = self._cluster.topology, self._tuning.units
        pods, inventory = self._scene.pods, self._scene.inventory
        ended = [pod for pod in pods if isinstance(pod, Ended)]
        live = [pod for pod in pods if isinstance(pod, Pod)]
        known = before.members if before else {}
        if before and before.topology is not topology:
            known = {uid: member for uid, member in known.items() if not member.pod.node}
        belief = Belief(live, inventory, topology, units, self._now, self._tuning.bound, known)
        members: list[Member] = []
        failed: set[JobKey] = set()
        for pod in live:
            try:
                member = belief.of(pod)
                if pod.on_failure:
                    self._losses.add(member)
                if pod.node or member.pin is not None:  # most waiting pods have neither
                    self._cluster.add_pod(member)
                if member.place or pod.gated or member.problem:  # other pods belong to no job
                    members.append(member)
            except Exception as error:  # noqa: BLE001 - as above
                member = unjudged(pod, units)
                self._cluster.hold_unexamined(member)
                if member.key not in failed:
                    self._report_bug(Job(member.key, (member,)), error)
                failed.add(member.key)
        for claim in taken(inventory, topology.nodes, live):
            self._cluster.add_claim(claim)
        for job, number in ended:
            self._ended[job].add(number)
        return belief, [member for member in members if member.key not in failed] if failed else members

    def _with_ended(self, job: Job) -> Job:
        """Returns the job with its ended workers, if it continues without them.

        After a failure, or in a new job with the same name, an operator recreates all workers, and ended ones
        of the previous run may still exist. They matter only if another worker runs, or if no worker was
        created for the time in which an admitted job must get its nodes.
        """
        if ended := self._ended.get(job.key):
            newest = max(member.pod.created for member in job.pods)
            if job.begun or self._now - newest >= self._tuning.bound:
                return replace(job, ended=ended)
        return job

    def _report_bug(self, job: Job, error: Exception) -> None:
        self._errors.append((job, error))
        self._waiting.append(Waiting(job, messages.cannot_decide(error), Reason.BUG))

    def _explained(self) -> tuple[Waiting, ...]:
        """Returns why jobs wait; a bug here does not affect the admissions."""
        try:
            return tuple(explain(self._cluster, self._waiting))
        except Exception as error:  # noqa: BLE001 - a mistake of ours
            self._errors += [(waiting.job, error) for waiting in self._waiting]
            why = messages.cannot_explain(error)
            return tuple(Waiting(waiting.job, why, waiting.reason) for waiting in self._waiting)

    def _consider(self, job: Job) -> None:
        if loss := self._losses.lasting.get(job.key):
            self._delete_pods(job, loss)
            return
        if job.settled and not job.gated:
            self._next.failures.pop(job.key, None)
            return
        late = self._late_workers(job)
        trouble = job.trouble if job.gated else None
        self._pause_age(job, stuck=bool(trouble))
        why = trouble or self._preemptions.pause(job) or self._pause(job) if job.gated else None
        if late and not self._was_refused(job):
            self._evict(job, late, why or messages.NOT_EVERY_NODE)
        elif why is not None:
            self._waiting.append(Waiting(job, why, Reason.PODS if trouble else Reason.BACKOFF))
        elif job.gated:
            failure = self._next.failures.get(job.key)
            old = self._now - self._since(job) >= YOUNG or self._goes_first(job)
            reserves = self._tuning.reserves and old
            try:
                self._openings.append(self._allocator.open(job, failure, reserves=reserves))
                self._trying[job.key[0]] = job.key
                self._ends.admit(job)
                self._preemptions.admit(job)
                if not job.begun:
                    self._next.begun[job.key] = self._now
            except UnplacedError as error:
                shortage = error.shortage
                if shortage and reserves:
                    shortage = self._with_victims(job, shortage)
                self._waiting.append(Waiting(job, str(error), error.reason, shortage))
                home = job.key[0] in self._cluster.repelling.namespaces
                fitting = shortage.ranking.fitting.values() if shortage and home else ()
                if any(self._cluster.repelled_at_home(unit, job) for unit in fitting):
                    self._pause_age(job, stuck=True)  # its author can remove this obstacle at any time

    def _with_victims(self, job: Job, shortage: Shortage) -> Shortage:
        """Returns what a job that reserves units lacks, with the jobs of lower priority that it preempts."""
        if not shortage.can_end or job.key[0] in self._next.vain:
            return shortage
        if self._preemptions.may(job):
            fits = partial(self._opened, job)
            for victim, loss in self._preemptions.begin(job, shortage.ranking, fits):
                self._delete_pods(victim, loss)
        victims = self._preemptions.hold(job)
        return replace(shortage, victims=victims) if victims else shortage

    def _opened(self, job: Job, victims: Collection[JobKey]) -> Opening | None:
        """Returns how a job would be admitted if the given jobs did not exist; None if it would wait."""
        scene = self._scene
        pods, inventory = without(scene.pods, scene.inventory, victims)
        others = tuple(pod for pod in pods if isinstance(pod, Ended) or not pod.deleting)
        memory, tuning = replace(self._memory, preemption=None), replace(self._tuning, preempts=False)
        trial = _Round(replace(scene, pods=others, tuning=tuning, memory=memory, inventory=inventory))
        trial._consider_all()
        return next((opening for opening in trial._openings if opening.job.key == job.key), None)

    def _delete_pods(self, job: Job, loss: Loss) -> None:
        """Deletes the pods of a job that cannot run because of a failed node, or that is preempted."""
        why, cluster = self._losses.pause(job) or self._pause(job), self._cluster
        moving = elsewhere(job, loss, self._next.lost.get(job.key, self._now))
        if why:
            self._waiting.append(Waiting(moving, f"{loss.why}; {why}", Reason.BACKOFF))
            return
        units = dict[int, str]()
        if not loss.whole:
            try:
                blocks = [moving.blocks[block] for block in loss.blocks]
                units = self._allocator.settle(moving, blocks, None, reserves=False)
            except UnplacedError as error:
                waiting = Waiting(moving, str(error), error.reason, error.shortage, loss.why)
                self._waiting.append(waiting)
                return
        if loss.launchers:
            self._end_launchers(job, loss)
            return
        moves = [(loss.blocks[block][0].unit, unit) for block, unit in units.items()]
        nodes = cluster.topology.names(job.place.unit, units.values()) if units else frozenset[str]()
        began = self._ends.admitted[job.key].since if loss.by else None
        self._losses.leave(job, nodes, began)
        pods, why = tuple(member.pod for member in loss.pods), messages.leaves(moves, loss.why)
        self._deletions.append(Deletion(job, pods, why, loss.how, loss.at_once, by=loss.by))

    def _end_launchers(self, job: Job, loss: Loss) -> None:
        """Deletes the launcher of a job that leaves a failed node; its workers follow when it is gone."""
        topology = self._cluster.topology
        pods = (member.pod for member in loss.launchers)
        # A launcher that is being deleted on a Ready node ends by itself.
        ending = tuple(pod for pod in pods if not pod.deleting or topology.dead(pod.node))
        kept = self._losses.keeps_launcher(job) if ending else ""
        why = f"{loss.why}; {kept or messages.LAUNCHER_FIRST}"
        self._waiting.append(Waiting(job, why, Reason.BACKOFF if kept else Reason.PODS))
        if ending and not kept:
            self._deletions.append(Deletion(job, ending, why, loss.how, loss.at_once, False, loss.by))  # noqa: FBT003 - its fields

    def _pause_age(self, job: Job, *, stuck: bool) -> None:
        """Excludes from a job's age the time in which it could not be admitted; a new leader excludes all."""
        since, before = self._memory.parked.get(job.key), self._memory.at
        if stuck:
            since = min((since or job.created) + (self._now - before), self._now) if before else self._now
        if since and job.gated:
            self._next.parked[job.key] = since

    def _late_workers(self, job: Job) -> tuple[Member, ...]:
        """Returns the workers that have not started, if the job was admitted and lacks nodes for too long."""
        if job.settled or not job.admitted:
            return ()
        late = tuple(member for member in job.admitted if not member.pod.started)
        placed = len({member.pod.number for member in job.workers if member.pod.node})
        lacks = self._memory.unsettled.get(job.key)
        # The time begins with the admission, and again when more workers have nodes than ever before.
        # Otherwise an author who deletes pods could hold a unit forever without using it.
        if not (lacks and late and placed <= lacks.placed):
            lacks = Unsettled(self._now, placed)
        self._next.unsettled[job.key] = lacks
        # If workers are only missing, evicting the others, which may still pull images, would not help.
        return late if job.coming and self._now - lacks.since >= self._tuning.bound else ()

    def _evict(self, job: Job, pods: tuple[Member, ...], why: str) -> None:
        before = self._next.failures.get(job.key, Failure(0, self._now - self._tuning.bound, frozenset()))
        topology = self._cluster.topology
        late = self._now - before.at >= self._tuning.bound  # otherwise a refused deletion is tried again
        if late or before.refused:
            pins = [member.pin for member in pods if member.pin and not member.pod.node]
            nodes = topology.names(job.place.unit, pins)
            # If terms were too many to examine, the first failure on these nodes is ignored.
            new = [topology.nodes[name] for name in nodes - self._next.doubtful.keys()]
            fault = not self._cluster.repelling.unclear(new, job.key[0])
            self._next.doubtful.update(dict.fromkeys(nodes, self._now))
            if fault:
                self._next.vain[job.key[0]] = self._now
        if late:
            units = frozenset(member.unit for member in pods if member.unit is not None)
            self._next.failures[job.key] = Failure(before.count + fault, self._now, before.units | units)
        why = messages.not_whole(self._tuning.bound, why)
        self._deletions.append(Deletion(job, tuple(member.pod for member in pods), why))

    def _penalise_deleted_jobs(self, jobs: Iterable[Job]) -> None:
        """Reduces the age of all jobs of a namespace whose admitted jobs were deleted.

        The admission of a job that was deleted after a part of the time, before it was evicted, has failed.
        If it was deleted sooner, its namespace owes the time that an admission may take. For a job that had
        the reservation, and no longer needs it, its namespace owes the time for which it had it.
        """
        existing, before = {job.key for job in jobs} | self._ended.keys(), self._memory.unsettled
        needing = {waiting.job.key for waiting in self._waiting if waiting.shortage}
        needing |= {opening.job.key for opening in self._openings}
        if (reserved := self._memory.reserved) and reserved[0] not in needing:
            self._add_debt(reserved[0][0], self._now - reserved[1])
        for key, since in self._memory.begun.items():
            # After a longer gap between decisions, when the job was deleted is unknown.
            if self._now - since < self._tuning.bound / 4:
                if key in existing:
                    self._next.begun.setdefault(key, since)
                elif key not in self._losses.recent:  # which this program deleted
                    self._add_debt(key[0], self._tuning.bound)
        fine = {job.key for job in jobs if job.key in before and job.settled}
        fine |= self._losses.recent
        fine |= self._next.unsettled.keys() | {job.key for job, _ in self._errors}
        for key in before.keys() - fine:
            failure = self._next.failures.get(key)
            if (not failure or failure.refused) and self._now - before[key].since >= self._tuning.bound / 4:
                self._next.vain[key[0]] = self._now

    def _add_debt(self, namespace: str, time: timedelta) -> None:
        """Adds to the age that a namespace owes: at most a default limit, about as long as a reservation."""
        debt, _ = self._next.debts.get(namespace, (timedelta(), None))
        self._next.debts[namespace] = min(debt + time, self._tuning.default_limit), self._now

    def _has_time(self, job: Job) -> bool:
        lacks = self._memory.unsettled.get(job.key)
        since = lacks.since if lacks else self._memory.begun.get(job.key)
        return since is not None and self._now - since < self._tuning.bound

    def _pause(self, job: Job) -> str | None:
        """Returns why a job backs off, after failed admissions or a refused write, with the time; or None.

        In a namespace with failed admissions, only one job at a time has units, until all its workers have
        nodes.
        """
        trying = self._trying.get(job.key[0], job.key)
        if trying != job.key and job.key[0] in self._next.vain and not job.begun:
            return messages.waits_for(shown(trying))
        failure = self._memory.failures.get(job.key)
        if failure is None:
            return None
        again = failure.again(self._tuning)
        if self._now >= again:
            return None
        why = messages.refused(failure.refused) if failure.refused else messages.failed(failure.count)
        return messages.tried_again(why, again)

    def _was_refused(self, job: Job) -> bool:
        """Returns whether a write to its pods was refused just now; then it is not evicted for lateness."""
        failure = self._memory.failures.get(job.key)
        resting = job.key in self._cluster.resting
        return resting and failure is not None and self._now - failure.at < self._tuning.bound
