"""A pass of the loop: it observes, decides, writes and reports."""

import contextlib
import gc
import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
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
from placement.decide.cluster import shown
from placement.decide.decide import Scene, assume
from placement.decide.jobs import Job
from placement.decide.plan import Decision, Deletion, Memory, Opening, Tuning
from placement.decide.topology import Topology
from placement.messages import EventReason
from placement.observe.inventory import Inventory
from placement.observe.model import Pod, Units

if TYPE_CHECKING:
    from placement.act.metrics import Metrics

WRITERS: Final = 8  # parallel writes of one job: at 20 ms each, 64 workers would take seconds
NEEDED: Final = 3  # copies that every decision needs; they come first

_log = logging.getLogger("placement")


@dataclass(slots=True)
class Passes:
    """Runs passes."""

    api: RestApi  # the client for writes
    # Copies of nodes, of pods that have not ended and of workers that have ended, which are needed; and of
    # the collections for device claims, in the order of `placement.observe.inventory.READERS`.
    copies: tuple[Mirror[Any], ...]
    tuning: Tuning
    units: Callable[[], Units]  # returns the kinds of unit now
    reporter: Reporter
    metrics: "Metrics"
    clock: Callable[[], datetime]
    interval: float = 10.0  # seconds between passes without changes: waiting depends on the time as well
    # Time limit of a pass's writes, so that it ends before the Lease does; the next pass writes the rest.
    longest: float = 5.0
    _writers: ThreadPoolExecutor = field(
        default_factory=lambda: ThreadPoolExecutor(WRITERS, "write"), init=False
    )
    _memory: Memory = field(default_factory=Memory, init=False)
    _written: dict[str, Pod] = field(default_factory=dict, init=False)
    # Whether a write of the last decision was refused: other jobs may get what that job does not.
    _refused: bool = field(default=False, init=False)
    _topology: Topology = field(default_factory=lambda: Topology(()), init=False)
    _shown: tuple[object, ...] = field(default=(), init=False)
    # What the last decision saw; None on a replica that does not lead.
    scene: Scene | None = field(default=None, init=False)

    def __call__(self) -> float:
        """Runs a pass; returns the seconds until the next one."""
        if not self.sees():
            return self.interval * jitter()
        deadline = time.monotonic() + self.longest
        done = self._pass(deadline)
        # Decide again after a refused write: that job backs off, and others may get its units.
        while self._refused and time.monotonic() < deadline:
            done = self._pass(deadline)
        return self.interval * jitter() if done else 0.0

    def _pass(self, deadline: float) -> bool:
        """Decides, writes and reports; returns whether there was time for all writes."""
        began = time.monotonic()
        decision = self._decide()
        self.metrics.decided(decision, time.monotonic() - began, self.clock())
        for job, error in decision.errors:
            self.metrics.failed("decision")
            _log.error("%s", messages.about(shown(job.key), messages.BUG), exc_info=error)
        self._memory = decision.memory
        self._refused = False
        done = self._carry_out(decision, deadline)
        self.reporter.waiting([*decision.waiting, *decision.untrusted], self.clock())
        return done

    def sees(self) -> bool:
        """Returns whether the copies of nodes and pods are fresh: a stale one may show used nodes as free.

        Without those for device claims, jobs without claims are still admitted, to nodes without claimed
        devices.

        Raises:
            RuntimeError: A watch has ended for good, so the program must be started again.
        """
        for copy in self.copies:
            copy.check()
        if any(copy.lost for copy in self.copies):
            self.metrics.failed("watch")
        blind = any(copy.lost for copy in self.copies[:NEEDED])
        return not blind and all(copy.wait(0) or copy.lost for copy in self.copies)

    def leads(self, leader: bool) -> None:  # noqa: FBT001 - the loop calls it back
        """Stores whether this replica leads; a follower's memory becomes outdated, so it is dropped."""
        self.metrics.leads(leader)
        if not leader:
            self._memory, self.scene = Memory(), None

    def _decide(self) -> Decision:
        lost = next((copy.lost for copy in self.copies[NEEDED:] if copy.lost), "")
        nodes, pods, ended, *claims = (copy.items() for copy in self.copies)
        inventory = Inventory(*claims, lost=lost)
        bare = {name: node for (_, name), node in nodes.items()}
        # Unchanged objects are identical, so this is cheap, except for all devices of a fleet.
        facts = bare, inventory.slices, inventory.classes, lost
        if facts != self._shown:
            self._topology, self._shown = Topology(with_devices(inventory, bare).values()), facts
        uids = {pod.uid for pod in pods.values()}
        self._written = {uid: pod for uid, pod in self._written.items() if uid in uids}
        live = [*assume(pods.values(), self._written.values()), *ended.values()]
        tuning = replace(self.tuning, units=self.units())
        scene = Scene(self._topology, tuple(live), self.clock(), tuning, self._memory, inventory)
        # With 10,000 nodes a full collection takes half as long as a decision: it runs after it.
        gc.disable()
        try:
            decision, self.scene = scene.decision(), scene
        finally:
            gc.enable()
        return decision

    def _carry_out(self, decision: Decision, deadline: float) -> bool:
        """Writes the decision, job by job; returns whether there was time for all of it."""
        for number, deletion in enumerate(decision.deletions):
            if number and time.monotonic() >= deadline:
                return False
            with self._attempt(deletion.job):
                self._delete(deletion)
        for number, opening in enumerate(decision.openings):
            # At least one job: with slow decisions none would ever be admitted.
            if number and time.monotonic() >= deadline:
                return False
            with self._attempt(opening.job):
                self._open(opening)
        return True

    @contextlib.contextmanager
    def _attempt(self, job: Job) -> Iterator[None]:
        """Makes the writes for one job. If one is refused, the job backs off and holds nothing."""
        try:
            yield
        except ApiError as error:
            self.metrics.failed("write")
            _log.warning("%s", messages.about(shown(job.key), error))
            self._refused = True
            self._memory = self._memory.with_refusal(job.key, str(error), self.clock())

    def _open(self, opening: Opening) -> None:
        now, job = self.clock(), opening.job

        blocks = {member.pod.uid: member.block for member in job.unpinned_workers}

        def pin(pod: Pod, plan: Mapping[int, str]) -> list[Object]:
            return write.pin(pod, job.place.unit, opening.blocks[blocks[pod.uid]], write.noted(now, plan))

        def let_through(pod: Pod) -> Pod | None:
            late = pod.uid in blocks and pod.opened is None
            return write.patch(self.api, pod, write.release(pod) + (pin(pod, {}) if late else []))

        def begin(pod: Pod) -> Pod | None:
            return write.patch(self.api, pod, pin(pod, plans[pod.uid]))

        plans = {pod.uid: plan for pod, plan in opening.plans}
        begun: dict[str, Pod] = {}
        for first, _ in opening.plans:  # one after the other: one of two leaders writes them all
            begun |= self._stored(begin, [first])
        self._stored(let_through, [begun.get(member.pod.uid, member.pod) for member in job.gated_pods])
        text = messages.admitted(opening.units)
        self.metrics.openings.inc()
        _log.info("%s", messages.about(shown(job.key), text))
        self.reporter.write(job, EventReason.ADMITTED, text, now)

    def _stored(self, put: Callable[[Pod], Pod | None], pods: Iterable[Pod]) -> dict[str, Pod]:
        """Writes several pods at a time, and remembers those that were stored, even if others failed.

        Raises:
            ApiError: A write failed; writes that had not begun were dropped.
        """
        stored: dict[str, Pod] = {}
        failures: list[ApiError] = []
        writes = [self._writers.submit(put, pod) for pod in pods]
        for written in writes:
            try:
                if not written.cancelled() and (pod := written.result()):
                    stored[pod.uid] = pod
            except ApiError as error:
                failures.append(error)
                for later in writes:
                    later.cancel()
        self._written |= stored
        if failures:
            raise failures[0]
        return stored

    def _delete(self, deletion: Deletion) -> None:
        event_reason, preemptor = deletion.reason, deletion.preemptor
        if preemptor and not write.unchanged(self.api, preemptor.workers[0].pod):
            return
        _log.warning("%s", messages.about(shown(deletion.job.key), deletion.why))

        def deleted(pod: Pod) -> Pod | None:
            """Deletes a pod; one that has started stays unless its job leaves a failed node, or ends."""
            if preemptor and not write.unchanged(self.api, pod):
                return None
            if event_reason:
                write.evict(self.api, pod, at_once=pod.uid in deletion.at_once)
            elif not write.delete(self.api, pod):
                return None
            self.metrics.deletions.inc()
            return replace(pod, deleting=True)

        if self._stored(deleted, deletion.pods) and deletion.is_last:
            reason = event_reason or EventReason.RECREATED
            self.reporter.write(deletion.job, reason, deletion.why, self.clock(), "Warning")
            if preemptor:
                text = messages.preempts(shown(deletion.job.key))
                self.reporter.write(preemptor, EventReason.PREEMPTS, text, self.clock())
                self.metrics.preemptions.inc()
            elif event_reason:
                self.metrics.left(event_reason)
