"""Decides which jobs are admitted now, which units they get, and why other jobs wait. Pure, without a clock.

Jobs that need only units that they already have, or that move off failed nodes, come first. Then jobs are
sorted by priority. For equal priority, jobs that preempt come first, then jobs that restart after a node
failure, then jobs that keep their position, then old large jobs, then other jobs by urgency
(`Shares.urgency`). The first job that does not fit gets a reservation of the units that become free first.
Later jobs are admitted to units that are not reserved, or to reserved units if these jobs end before the
reservation begins. The demands and failures of a job do not delay jobs of other namespaces.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import partial

from placement import messages
from placement.decide.allocate import Allocator, UnplacedError
from placement.decide.allocation import allocations
from placement.decide.cluster import Cluster, display_name
from placement.decide.jobs import Job, jobs_of
from placement.decide.lost import Loss, Losses, with_waiting_blocks
from placement.decide.members import Examiner, Member, unexamined_member
from placement.decide.order import Order
from placement.decide.plan import (
    Admission,
    Cache,
    Decision,
    Deletion,
    Failure,
    Memory,
    Shortage,
    Tuning,
    Unsettled,
    Waiting,
)
from placement.decide.preempt import Preemptions, without_jobs
from placement.decide.reasons import explain
from placement.decide.reserve import MIN_AGE, Ends, Shares
from placement.decide.topology import Topology
from placement.messages import Reason
from placement.observe.inventory import Inventory
from placement.observe.model import EndedWorker, JobKey, Pod


@dataclass(frozen=True, slots=True)
class Scene:
    """The inputs of a decision."""

    nodes: Topology
    # The pods that have not ended, with writes that no watch shows yet (`assume`), and the workers that have
    # ended.
    pods: tuple[Pod | EndedWorker, ...]
    now: datetime
    tuning: Tuning = field(default_factory=Tuning)
    memory: Memory = field(default_factory=Memory)  # the memory of the previous decision
    inventory: Inventory = field(default_factory=Inventory)  # the objects for device claims

    def decision(self) -> Decision:
        """Returns the decision."""
        return _DecisionMaker(self).run()


def assume(pods: Iterable[Pod], written_pods: Iterable[Pod]) -> list[Pod]:
    """Returns the pods with this program's own writes, which the watch may not show yet.

    A pod is first gated, then pinned, then without the gate, then bound, then being deleted. If the watch and
    the API server's answer to a write differ, the later state is used.
    """
    written_by_uid = {pod.uid: pod for pod in written_pods}
    return [max(pod, written_by_uid.get(pod.uid, pod), key=_stage) for pod in pods]


def _stage(pod: Pod) -> tuple[bool, ...]:
    return pod.deleting, bool(pod.node), not pod.gated, pod.admitted_at is not None


class _DecisionMaker:
    """Makes one decision."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self._now, self._tuning, self._memory = now, tuning, memory = scene.now, scene.tuning, scene.memory
        self._next_memory = memory.carry_over(now)  # the memory for the next decision
        failures = memory.failures.items()
        refused_jobs = {key for key, last in failures if last.refusal and now < last.retry_time(tuning)}
        limit, bound = tuning.default_limit, tuning.bound
        self._ends = Ends(now, memory.exceeded_limits, memory.admitted_jobs, limit, bound)
        self._cluster = cluster = Cluster(scene.nodes, refused_jobs, tuning.units, self._ends)
        self._allocator = Allocator(cluster, self._next_memory.doubtful_nodes)
        self._admissions: list[Admission] = []
        self._deletions: list[Deletion] = []
        self._waiting: list[Waiting] = []
        self._errors: list[tuple[Job, Exception]] = []
        self._ended_numbers: defaultdict[JobKey, set[int]] = defaultdict(set)
        self._losses = Losses(cluster, now, tuning, self._next_memory)
        self._preemptions = Preemptions(cluster, now, tuning, self._next_memory, self._losses)
        self._order = Order(now, memory, self._next_memory, self._losses, self._preemptions)
        # By namespace, an admitted job that lacks nodes and may still get them (`_may_get_nodes`).
        self._current_jobs: dict[str, JobKey] = {}

    def run(self) -> Decision:
        """Returns the decision."""
        members, jobs = self._consider_all()
        self._penalise_deleted_jobs(jobs)
        untrusted = (
            Waiting(Job(member.key, (member,)), member.problem)
            for member in members
            if member.problem and not member.pod.gated and not member.pod.deleting
        )
        return Decision(
            tuple(self._admissions),
            tuple(self._deletions),
            self._explain_waiting(),
            tuple(untrusted),
            tuple(self._errors),
            self._remember(),
            self._cluster,
            self._shares,
        )

    def _consider_all(self) -> tuple[list[Member], list[Job]]:
        """Adds all pods, then considers each job once, in order. Returns the pods and the jobs."""
        cache = self._memory.cache
        if cache and cache.units is not self._tuning.units:
            cache = None
        examiner, members = self._add_pods(cache)
        node_count = self._cluster.topology.count_with_devices(self._tuning.units.devices)
        self._shares = shares = Shares(self._cluster.holders, node_count)
        job_cache = jobs_of(members, cache.jobs if cache else None)
        self._cache = Cache(self._cluster.topology, self._tuning.units, examiner.reusable_members, job_cache)
        jobs = [self._with_ended_workers(job) for _, job in job_cache.values()]
        by_key = {job.key: job for job in jobs}
        self._errors += self._losses.follow(by_key, self._memory)
        self._preemptions.follow(by_key, self._scene.pods, self._memory.preemption)
        self._order.sort(jobs, shares)
        self._ends.add(jobs, self._cluster.holders)
        lacking_jobs = (job.key for job in jobs if self._may_get_nodes(job) and not job.is_settled)
        self._current_jobs = {key[0]: key for key in lacking_jobs}
        for job in jobs:
            try:
                self._consider(job)
            except Exception as error:  # noqa: BLE001 - a bug in this program about one job
                self._report_bug(job, error)
        return members, jobs

    def _remember(self) -> Memory:
        """Returns the memory for the next decision."""
        unstarted_jobs = {waiting.job.key: waiting.job for waiting in self._waiting}
        unstarted_jobs |= {admission.job.key: admission.job for admission in self._admissions}
        return replace(
            self._next_memory,
            reserved_since=self._reserved_since(),
            position_kept_since=self._order.position_kept_since(unstarted_jobs, self._cluster.reservations),
            admitted_jobs=self._ends.admitted_jobs,
            exceeded_limits=self._ends.exceeded_limits,
            preemption=self._preemptions.current,
            cut_off_at=self._losses.cut_off_at,
            cache=self._cache,
        )

    def _reserved_since(self) -> dict[JobKey, datetime]:
        """Returns, for each job with a reservation, the time since which jobs of its namespace have one.

        Jobs that do not wait now are ignored. The time is by namespace, because with a time for each job, two
        jobs could have a reservation in turn and be deleted without a debt (`_penalise_deleted_jobs`).
        """
        reserved_jobs = {reservation.job for reservation in self._cluster.reservations}
        still_waiting = reserved_jobs | {waiting.job.key for waiting in self._waiting}
        since_by_namespace: dict[str, datetime] = {}
        for job, since in self._memory.reserved_since.items():
            if job in still_waiting:
                since_by_namespace[job[0]] = min(since, since_by_namespace.get(job[0], since))
        return {job: since_by_namespace.get(job[0], self._now) for job in reserved_jobs}

    def _add_pods(self, cache: Cache | None) -> tuple[Examiner, list[Member]]:
        """Adds all pods and claims. Returns the examiner, and the pods of the jobs that no bug affects."""
        topology, units = self._cluster.topology, self._tuning.units
        pods, inventory = self._scene.pods, self._scene.inventory
        ended_workers = [pod for pod in pods if isinstance(pod, EndedWorker)]
        live_pods = [pod for pod in pods if isinstance(pod, Pod)]
        known = cache.members if cache else {}
        if cache and cache.topology is not topology:
            known = {uid: member for uid, member in known.items() if not member.pod.node}
        examiner = Examiner(live_pods, inventory, topology, units, self._now, self._tuning.bound, known)
        members: list[Member] = []
        bug_keys: set[JobKey] = set()
        for pod in live_pods:
            try:
                member = examiner.member_of(pod)
                if pod.on_failure:
                    self._losses.add(member)
                if pod.node or member.pin is not None:  # most waiting pods have neither
                    self._cluster.add_pod(member)
                if member.placement or pod.gated or member.problem:  # other pods belong to no job
                    members.append(member)
            except Exception as error:  # noqa: BLE001 - a bug in this program about one pod
                member = unexamined_member(pod, units)
                self._cluster.hold_unexamined(member)
                if member.key not in bug_keys:
                    self._report_bug(Job(member.key, (member,)), error)
                bug_keys.add(member.key)
        for claim in allocations(inventory, topology.nodes, live_pods):
            self._cluster.add_claim(claim)
        for job, number in ended_workers:
            self._ended_numbers[job].add(number)
        return examiner, [member for member in members if member.key not in bug_keys] if bug_keys else members

    def _with_ended_workers(self, job: Job) -> Job:
        """Returns the job with the numbers of its ended workers if it continues without these workers.

        After a failure, and for a new job of the same name, an operator recreates all workers. Ended workers
        of the previous run may still exist then. So ended workers are used only if a part of the job was
        admitted, or if none of its pods was created recently.
        """
        if ended := self._ended_numbers.get(job.key):
            newest = max(member.pod.created for member in job.pods)
            if job.was_admitted or self._now - newest >= self._tuning.bound:
                return replace(job, ended_numbers=ended)
        return job

    def _report_bug(self, job: Job, error: Exception) -> None:
        self._errors.append((job, error))
        self._waiting.append(Waiting(job, messages.cannot_decide(error), Reason.BUG))

    def _explain_waiting(self) -> tuple[Waiting, ...]:
        """Returns the waiting jobs with the reasons. A bug in the explanation does not affect admissions."""
        try:
            return tuple(explain(self._cluster, self._waiting))
        except Exception as error:  # noqa: BLE001 - a bug in this program
            self._errors += [(waiting.job, error) for waiting in self._waiting]
            why = messages.cannot_explain(error)
            return tuple(Waiting(waiting.job, why, waiting.reason) for waiting in self._waiting)

    def _consider(self, job: Job) -> None:
        """Admits a job, deletes some of its pods, adds it to the waiting jobs, or does nothing."""
        if loss := self._losses.lasting.get(job.key):
            self._delete_pods(job, loss)
            return
        if job.is_settled and not job.gated_pods:
            self._next_memory.failures.pop(job.key, None)
            return
        late_workers = self._late_workers(job)
        obstacle = job.obstacle if job.gated_pods else None
        self._order.remember_age_start(job, is_stuck=bool(obstacle))
        ending = messages.ENDING if self._preemptions.is_victim(job.key) else None
        why = obstacle or ending or self._backoff_reason(job) if job.gated_pods else None
        if late_workers and not self._was_refused(job):
            self._evict(job, late_workers, why or messages.NOT_EVERY_NODE)
        elif why is not None:
            self._waiting.append(Waiting(job, why, Reason.PODS if obstacle else Reason.BACKOFF))
        elif job.gated_pods:
            age = self._now - self._order.age_start(job)
            reserves = self._tuning.reserves and (age >= MIN_AGE or self._order.is_resuming(job))
            try:
                self._admissions.append(self._allocator.admit(job, age if reserves else None))
                self._current_jobs[job.key[0]] = job.key
                self._ends.admit(job)
                self._preemptions.admit(job)
                if not job.was_admitted:
                    self._next_memory.recent_admissions[job.key] = self._now
            except UnplacedError as error:
                shortage = error.shortage
                if shortage and reserves:
                    shortage = self._try_preemption(job, shortage)
                self._waiting.append(Waiting(job, str(error), error.reason, shortage))
                can_repel = job.key[0] in self._cluster.repelling.namespaces
                units = shortage.ranking.units.values() if shortage and can_repel else ()
                if any(self._cluster.is_repelled_by_own_namespace(unit, job) for unit in units):
                    self._order.remember_age_start(job, is_stuck=True)  # the job's author can prevent this

    def _try_preemption(self, job: Job, shortage: Shortage) -> Shortage:
        """Begins or continues a preemption, and reserves its units. Returns the shortage with the victims."""
        if not shortage.can_end or job.key[0] in self._next_memory.failed_namespaces:
            return shortage
        if self._preemptions.can_begin(job):
            fits = partial(self._admission_without, job)
            for victim, loss in self._preemptions.begin(job, shortage.ranking, fits):
                self._delete_pods(victim, loss)
        victims = self._preemptions.reserve_units(job)
        return replace(shortage, victims=victims) if victims else shortage

    def _admission_without(self, job: Job, victims: Collection[JobKey]) -> Admission | None:
        """Returns the job's admission as if victims and ending pods were gone; None if it still waits."""
        scene = self._scene
        pods, inventory = without_jobs(scene.pods, scene.inventory, victims)
        other_pods = tuple(pod for pod in pods if isinstance(pod, EndedWorker) or not pod.deleting)
        memory, tuning = replace(self._memory, preemption=None), replace(self._tuning, preempts=False)
        scene = replace(scene, pods=other_pods, tuning=tuning, memory=memory, inventory=inventory)
        trial = _DecisionMaker(scene)
        trial._consider_all()
        return next((admission for admission in trial._admissions if admission.job.key == job.key), None)

    def _delete_pods(self, job: Job, loss: Loss) -> None:
        """Deletes pods of a job that leaves a failed node or is preempted, or explains why the job stays."""
        why, cluster = self._losses.backoff_reason(job) or self._backoff_reason(job), self._cluster
        moving = with_waiting_blocks(job, loss, self._next_memory.lost_since.get(job.key, self._now))
        if why:
            self._waiting.append(Waiting(moving, f"{loss.why}; {why}", Reason.BACKOFF))
            return
        units = dict[int, str]()
        if not loss.is_whole:
            try:
                blocks = [moving.blocks[block] for block in loss.blocks]
                units = self._allocator.assign_units(moving, blocks, None)
            except UnplacedError as error:
                waiting = Waiting(moving, str(error), error.reason, error.shortage, loss.why)
                self._waiting.append(waiting)
                return
        if loss.launchers:
            self._end_launchers(job, loss)
            return
        moves = [(loss.blocks[block][0].unit, unit) for block, unit in units.items()]
        nodes = cluster.topology.node_names(job.placement.unit, units.values()) if units else frozenset[str]()
        admitted_at = self._ends.admitted_jobs[job.key].since if loss.preemptor else None
        self._losses.leave(job, nodes, admitted_at)
        pods, why = tuple(member.pod for member in loss.pods), messages.leaves(moves, loss.why)
        self._deletions.append(Deletion(job, pods, why, loss.reason, loss.at_once, preemptor=loss.preemptor))

    def _end_launchers(self, job: Job, loss: Loss) -> None:
        """Deletes launchers, unless they were deleted too often. A later decision deletes the workers."""
        topology = self._cluster.topology
        pods = (member.pod for member in loss.launchers)
        # A launcher that is being deleted on a Ready node ends without another deletion.
        pods_to_delete = tuple(pod for pod in pods if not pod.deleting or topology.why_dead(pod.node))
        keep_reason = self._losses.record_launcher_deletion(job) if pods_to_delete else ""
        why = f"{loss.why}; {keep_reason or messages.LAUNCHER_FIRST}"
        self._waiting.append(Waiting(job, why, Reason.BACKOFF if keep_reason else Reason.PODS))
        if pods_to_delete and not keep_reason:
            deletion = Deletion(job, pods_to_delete, why, loss.reason, loss.at_once, preemptor=loss.preemptor)
            self._deletions.append(deletion._replace(is_last=False))

    def _late_workers(self, job: Job) -> tuple[Member, ...]:
        """Returns the unstarted workers of a job that has lacked nodes too long. Sets `Memory.unsettled`."""
        if job.is_settled or not job.admitted_workers:
            return ()
        unstarted = tuple(member for member in job.admitted_workers if not member.pod.started)
        placed = len({member.pod.number for member in job.workers if member.pod.node})
        unsettled = self._memory.unsettled.get(job.key)
        # The time begins at the admission. It begins again if more workers have nodes or all have started,
        # but not if fewer have nodes: otherwise users could delete pods to hold a unit without using it.
        if not (unsettled and unstarted and placed <= unsettled.placed):
            unsettled = Unsettled(self._now, placed)
        self._next_memory.unsettled[job.key] = unsettled
        # If all existing workers have nodes, they may still pull images, and an eviction would not help.
        return unstarted if job.unbound_workers and self._now - unsettled.since >= self._tuning.bound else ()

    def _evict(self, job: Job, pods: tuple[Member, ...], why: str) -> None:
        no_failure = Failure(0, self._now - self._tuning.bound)
        failure, topology = self._next_memory.failures.get(job.key, no_failure), self._cluster.topology
        # If the last failure is more recent than `Tuning.bound`, this deletion repeats a refused deletion.
        is_new_failure = self._now - failure.at >= self._tuning.bound
        if is_new_failure or failure.refusal:
            pins = [member.pin for member in pods if member.pin and not member.pod.node]
            nodes = topology.node_names(job.placement.unit, pins)
            # If these nodes have too many anti-affinity terms, a first failure there is not the job's fault.
            new_nodes = [topology.nodes[name] for name in nodes - self._next_memory.doubtful_nodes.keys()]
            is_at_fault = not self._cluster.repelling.is_unclear(new_nodes, job.key[0])
            self._next_memory.doubtful_nodes.update(dict.fromkeys(nodes, self._now))
            if is_at_fault:
                self._next_memory.failed_namespaces[job.key[0]] = self._now
        if is_new_failure:
            self._next_memory.failures[job.key] = Failure(failure.count + is_at_fault, self._now)
        why = messages.not_whole(self._tuning.bound, why)
        self._deletions.append(Deletion(job, tuple(member.pod for member in pods), why))

    def _penalise_deleted_jobs(self, jobs: Iterable[Job]) -> None:
        """Reduces the age of all jobs of a namespace whose admitted jobs were deleted.

        If a job lacked nodes for at least a quarter of `Tuning.bound` and was then deleted, its admission has
        failed. If it was deleted sooner, the namespace gets a debt of `Tuning.bound`. If a job had a
        reservation, and now neither waits for units nor is admitted, the namespace gets a debt of the time
        for which its jobs had reservations.
        """
        existing_jobs = {job.key for job in jobs} | self._ended_numbers.keys()
        unsettled = self._memory.unsettled
        needing_units = {waiting.job.key for waiting in self._waiting if waiting.shortage}
        needing_units |= {admission.job.key for admission in self._admissions}
        for (namespace, job_id), since in self._memory.reserved_since.items():
            if (namespace, job_id) not in needing_units:
                _, last_debt_at = self._next_memory.age_debts.get(namespace, (None, since))
                self._add_debt(namespace, self._now - max(since, last_debt_at))
        for key, since in self._memory.recent_admissions.items():
            # After a quarter of `Tuning.bound`, it is unknown whether the job was deleted before this time.
            if self._now - since < self._tuning.bound / 4:
                if key in existing_jobs:
                    self._next_memory.recent_admissions.setdefault(key, since)
                elif key not in self._losses.recently_left:  # jobs that this program deleted cause no debt
                    self._add_debt(key[0], self._tuning.bound)
        blameless_jobs = {job.key for job in jobs if job.key in unsettled and job.is_settled}
        blameless_jobs |= self._losses.recently_left
        blameless_jobs |= self._next_memory.unsettled.keys() | {job.key for job, _ in self._errors}
        for key in unsettled.keys() - blameless_jobs:
            failure = self._next_memory.failures.get(key)
            lasted = self._now - unsettled[key].since
            if (not failure or failure.refusal) and lasted >= self._tuning.bound / 4:
                self._next_memory.failed_namespaces[key[0]] = self._now

    def _add_debt(self, namespace: str, time: timedelta) -> None:
        """Adds a time to the debt of a namespace. The maximum debt is the default time limit."""
        debt, _ = self._next_memory.age_debts.get(namespace, (timedelta(), None))
        self._next_memory.age_debts[namespace] = min(debt + time, self._tuning.default_limit), self._now

    def _may_get_nodes(self, job: Job) -> bool:
        """Returns whether a job was admitted or got a node so recently that it may still get all nodes."""
        unsettled = self._memory.unsettled.get(job.key)
        since = unsettled.since if unsettled else self._memory.recent_admissions.get(job.key)
        return since is not None and self._now - since < self._tuning.bound

    def _backoff_reason(self, job: Job) -> str | None:
        """Returns why a job backs off, with the time of the next try if known; None if it is considered now.

        In a namespace with failed admissions, the next job is admitted only when all workers of the last
        admitted job have nodes, or `Tuning.bound` is over.
        """
        current = self._current_jobs.get(job.key[0], job.key)
        if current != job.key and job.key[0] in self._next_memory.failed_namespaces and not job.was_admitted:
            return messages.waits_for(display_name(current))
        failure = self._memory.failures.get(job.key)
        if failure is None:
            return None
        retry_time = failure.retry_time(self._tuning)
        if self._now >= retry_time:
            return None
        why = messages.refused(failure.refusal) if failure.refusal else messages.failed(failure.count)
        return messages.next_attempt(why, retry_time)

    def _was_refused(self, job: Job) -> bool:
        """Returns whether a write to a job's pods was refused so recently that the job is not evicted yet."""
        failure = self._memory.failures.get(job.key)
        is_backing_off = job.key in self._cluster.refused_jobs
        return is_backing_off and failure is not None and self._now - failure.at < self._tuning.bound
