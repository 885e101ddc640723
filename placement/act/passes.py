"""A pass of the loop: it observes, decides, writes and reports."""

import contextlib
import gc
import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from kube.api import ApiError, Object
from kube.backoff import jitter
from kube.rest import RestApi
from kube.watch import Mirror
from placement import messages
from placement.act import write
from placement.act.events import Reporter
from placement.decide.allocation import with_devices
from placement.decide.cluster import display_name
from placement.decide.decide import Scene, assume
from placement.decide.jobs import Job
from placement.decide.plan import Admission, Decision, Deletion, Memory, Tuning
from placement.decide.topology import Topology
from placement.messages import EventReason
from placement.observe.inventory import Inventory
from placement.observe.model import Pod, UnitSettings

if TYPE_CHECKING:
    from placement.act.metrics import Metrics

WRITERS: Final = 8  # parallel writes for one job: in turn, 64 writes of 20 ms would take over a second
NEEDED_COPIES: Final = 3  # the number of `PassRunner.copies`, from the first, that every decision needs

_log = logging.getLogger("placement")


@dataclass(slots=True)
class PassRunner:
    """Runs the passes of the loop."""

    api: RestApi  # the client for writes
    # First the copies that every decision needs: nodes, pods that have not ended, and workers that have
    # ended. Then the copies for device claims, in the order of `placement.observe.inventory.READERS`.
    copies: tuple[Mirror[Any], ...]
    tuning: Tuning
    units: Callable[[], UnitSettings]  # returns the present units of the rule table
    reporter: Reporter
    metrics: "Metrics"
    clock: Callable[[], datetime]
    interval: float = 10.0  # seconds between passes if nothing changes: decisions depend on the time, too
    # After these seconds, a pass begins no writes for further jobs, so that it ends before the Lease expires.
    # The next pass writes for these jobs.
    max_seconds: float = 5.0
    _writers: Executor = field(default_factory=lambda: ThreadPoolExecutor(WRITERS, "write"), init=False)
    _memory: Memory = field(default_factory=Memory, init=False)
    _written_pods: dict[str, Pod] = field(default_factory=dict, init=False)
    _topology: Topology = field(default_factory=lambda: Topology(()), init=False)
    _topology_inputs: tuple[object, ...] = field(default=(), init=False)
    # The inputs of the last decision; None if this replica does not lead or has not decided.
    scene: Scene | None = field(default=None, init=False)

    def __call__(self) -> float:
        """Decides, writes and reports if the copies are fresh; returns the seconds until the next pass.

        The result is 0 if there was no time for a write, or a write was refused. After a refused write, the
        job backs off, and other jobs can get its units in the next pass.
        """
        if not self.is_fresh():
            return self.interval * jitter()
        began = time.monotonic()
        decision = self._decide()
        self.metrics.record_decision(decision, time.monotonic() - began, self.clock())
        for job, error in decision.errors:
            self.metrics.count_failure("decision")
            _log.error("%s", messages.about(display_name(job.key), messages.BUG), exc_info=error)
        self._memory = decision.memory
        was_in_time = self._write_decision(decision, began + self.max_seconds)
        self.reporter.report_waiting([*decision.waiting, *decision.untrusted], self.clock())
        was_refused = self._memory is not decision.memory  # see `_handle_refusal`
        return self.interval * jitter() if was_in_time and not was_refused else 0.0

    def is_fresh(self) -> bool:
        """Returns whether a decision is possible; counts a failure if any copy is stale.

        A stale copy of nodes or pods can show used nodes as free. If only copies for device claims are stale,
        no node offers devices for claims, and jobs without claims are still admitted.

        Raises:
            RuntimeError: A watch has ended and cannot continue, so the program must be started again.
        """
        for copy in self.copies:
            copy.check()
        if any(copy.stale_reason for copy in self.copies):
            self.metrics.count_failure("watch")
        is_stale = any(copy.stale_reason for copy in self.copies[:NEEDED_COPIES])
        return not is_stale and all(copy.wait(0) or copy.stale_reason for copy in self.copies)

    def set_leader(self, is_leader: bool) -> None:  # noqa: FBT001 - the loop calls it back
        """Records whether this replica leads. A follower drops its memory and scene: they become outdated."""
        self.metrics.set_leader(is_leader)
        if not is_leader:
            self._memory, self.scene = Memory(), None

    def _decide(self) -> Decision:
        stale_reason = next(filter(None, (copy.stale_reason for copy in self.copies[NEEDED_COPIES:])), "")
        nodes, pods, ended, *claims = (copy.items() for copy in self.copies)
        inventory = Inventory(*claims, stale_reason=stale_reason)
        by_name = {name: node for (_, name), node in nodes.items()}
        # Unchanged objects are identical, so the comparison is cheap.
        inputs = by_name, inventory.slices, inventory.classes, stale_reason
        if inputs != self._topology_inputs:
            self._topology = Topology(with_devices(inventory, by_name).values())
            self._topology_inputs = inputs
        uids = {pod.uid for pod in pods.values()}
        self._written_pods = {uid: pod for uid, pod in self._written_pods.items() if uid in uids}
        all_pods = [*assume(pods.values(), self._written_pods.values()), *ended.values()]
        tuning = replace(self.tuning, units=self.units())
        scene = Scene(self._topology, tuple(all_pods), self.clock(), tuning, self._memory, inventory)
        # With 10,000 nodes, a garbage collection takes half as long as a decision, so it runs afterwards.
        gc.disable()
        try:
            decision, self.scene = scene.decision(), scene
        finally:
            gc.enable()
        return decision

    def _write_decision(self, decision: Decision, deadline: float) -> bool:
        """Writes the decision, job by job; returns whether there was time for all writes."""
        for number, deletion in enumerate(decision.deletions):
            if number and time.monotonic() >= deadline:
                return False
            with self._handle_refusal(deletion.job):
                self._delete(deletion)
        for number, admission in enumerate(decision.admissions):
            # The first admission has no deadline, so that a slow decision does not prevent all admissions.
            if number and time.monotonic() >= deadline:
                return False
            with self._handle_refusal(admission.job):
                self._admit(admission)
        return True

    @contextlib.contextmanager
    def _handle_refusal(self, job: Job) -> Iterator[None]:
        """Runs the writes for a job. If a write fails, logs and counts the error; the job then backs off."""
        try:
            yield
        except ApiError as error:
            self.metrics.count_failure("write")
            _log.warning("%s", messages.about(display_name(job.key), error))
            self._memory = self._memory.with_refusal(job.key, str(error), self.clock())

    def _admit(self, admission: Admission) -> None:
        now, job = self.clock(), admission.job

        blocks = {member.pod.uid: member.pod.block for member in job.unpinned_workers}

        def pin(pod: Pod, plan: Mapping[int, str]) -> list[Object]:
            unit = admission.blocks[blocks[pod.uid]]
            return write.pin_operations(pod, job.placement.unit, unit, write.opened_value(now, plan))

        def remove_gate(pod: Pod) -> Pod | None:
            is_unpinned = pod.uid in blocks and pod.admitted_at is None
            return write.patch(self.api, pod, write.gate_removal(pod) + (pin(pod, {}) if is_unpinned else []))

        def write_plan(pod: Pod) -> Pod | None:
            return write.patch(self.api, pod, pin(pod, plans[pod.uid]))

        plans = {pod.uid: plan for pod, plan in admission.plans}
        pinned_pods: dict[str, Pod] = {}
        # Plans are written one after the other: of two leaders, the slower one fails at its first plan.
        for first_pod, _ in admission.plans:
            pinned_pods |= self._write_pods(write_plan, [first_pod])
        gated_pods = [pinned_pods.get(member.pod.uid, member.pod) for member in job.gated_pods]
        self._write_pods(remove_gate, gated_pods)
        text = messages.admitted(admission.units)
        self.metrics.admissions.inc()
        _log.info("%s", messages.about(display_name(job.key), text))
        self.reporter.write(job, EventReason.ADMITTED, text, now)

    def _write_pods(self, write_pod: Callable[[Pod], Pod | None], pods: Iterable[Pod]) -> dict[str, Pod]:
        """Writes pods in parallel. Returns the written pods by uid, and remembers them even after errors.

        Raises:
            ApiError: A write failed. Writes that had not begun were cancelled.
        """
        stored: dict[str, Pod] = {}
        failures: list[ApiError] = []
        futures = [self._writers.submit(write_pod, pod) for pod in pods]
        for future in futures:
            try:
                if not future.cancelled() and (pod := future.result()):
                    stored[pod.uid] = pod
            except ApiError as error:
                failures.append(error)
                for other_future in futures:
                    other_future.cancel()
        self._written_pods |= stored
        if failures:
            raise failures[0]
        return stored

    def _delete(self, deletion: Deletion) -> None:
        event_reason, preemptor = deletion.reason, deletion.preemptor
        if preemptor and not write.is_unchanged(self.api, preemptor.workers[0].pod):
            return
        _log.warning("%s", messages.about(display_name(deletion.job.key), deletion.why))

        def delete_pod(pod: Pod) -> Pod | None:
            """Deletes a pod; a started pod only if its job leaves a node or is preempted."""
            if preemptor and not write.is_unchanged(self.api, pod):
                return None
            if event_reason:
                grace = 0 if pod.uid in deletion.at_once else None
                self.api.delete(write.pod_path(pod), {"uid": pod.uid}, grace_seconds=grace)
            elif write.delete(self.api, pod):
                self.metrics.evictions.inc()
            else:
                return None
            return replace(pod, deleting=True)

        if self._write_pods(delete_pod, deletion.pods) and deletion.is_last:
            reason = event_reason or EventReason.EVICTED
            self.reporter.write(deletion.job, reason, deletion.why, self.clock(), "Warning")
            if preemptor:
                text = messages.preempts(display_name(deletion.job.key))
                self.reporter.write(preemptor, EventReason.PREEMPTS, text, self.clock())
                self.metrics.preemptions.inc()
            elif event_reason:
                self.metrics.count_departure(event_reason)
