"""Defines `Finding`, and `Case`: a job with the objects that explain its state."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Final

from contract import placement as contract
from contract.keys import ADDED, JOB, TRAINING
from contract.placement import ContractError, Placement
from kube.api import Object
from kubectl_ultraserver.fleet import Fleet
from kubectl_ultraserver.messages import Code
from kubectl_ultraserver.names import JobReference
from kubectl_ultraserver.objects import at, labels, maps_at, metadata, name_of, number_at, templates, text_at
from placement.decide.cluster import display_name
from placement.observe.model import EndedWorker, Node, Pod
from placement.observe.read import ENDED_PHASES, read_pod

LAUNCHER_ROLES: Final = ("launcher", "master")
"""Names that operators use for the role of the pod that starts the other pods."""
END_CONDITIONS: Final = ("Succeeded", "Complete", "Completed", "Failed")
"""The conditions of a job that has ended."""


@dataclass(frozen=True, slots=True)
class Finding:
    """A reason why a job waits, or a problem of the job."""

    code: Code  # the code of the problem, for programs
    kind: str  # the kind of the subject: node, pod, queue, job, ultraserver, webhook, operator or program
    name: str  # the name of the subject
    text: str  # the problem
    details: tuple[str, ...] = ()  # lines with details, such as why each UltraServer is not used
    remedy: str = ""  # what the user can do; empty if the text implies it


@dataclass(frozen=True)
class Case:
    """A job, its pods, and the other objects that explain its state.

    An attribute is an empty map or tuple if the user may not read the objects in it.
    """

    reference: JobReference  # the job as the command names it
    namespace: str  # the job's namespace
    job: Object  # the job's object; empty if not found, for example because the rule table lacks its kind
    pods: tuple[Object, ...]  # the job's pods, sorted by name, including pods that have ended
    fleet: Fleet  # the nodes and pods of the cluster
    namespace_object: Object = field(default_factory=dict)  # the job's Namespace
    events: tuple[Object, ...] = ()  # Events about the job and its pods
    # The MutatingWebhookConfiguration for jobs of this kind; None if it does not exist.
    registration: Object | None = field(default_factory=dict)
    rules: Object | None = None  # the ConfigMap with the rule table; None if it does not exist
    # The preview service's answer about the job; empty if it was not called or did not answer.
    answer: Object = field(default_factory=dict)
    # Why the preview service did not answer; empty if it answered or was not called.
    no_preview_reason: str = ""
    lease: Object | None = None  # the Lease of the placement program; None if it does not exist
    # Kueue's Workloads with the job's uid; all Workloads of the namespace if ``job`` is empty.
    workloads: tuple[Object, ...] = ()
    has_kueue: bool = False  # whether the API server serves Kueue's API
    ended_workers: tuple[EndedWorker, ...] = ()  # the workers, of all jobs, that have ended

    @property
    def kind(self) -> str:
        """The job's kind in lower case; ``job`` if the kind is not known."""
        return self.reference.kind or text_at(self.job, "kind").lower() or "job"

    @property
    def title(self) -> str:
        """The job's kind, namespace and name, such as ``mpijob team-b/train``."""
        return f"{self.kind} {self.namespace}/{self.reference.name}"

    @property
    def is_changed(self) -> bool:
        """Whether the job's templates or its pods have the record `ADDED` or a job label."""
        objects = (*templates(self.job), *self.pods)
        return any(ADDED in labels(obj, "annotations") or JOB in labels(obj) for obj in objects)

    @property
    def gated_job_names(self) -> set[str]:
        """The jobs, as NAMESPACE/NAME, whose pods have the gate; a LeaderWorkerSet can have several jobs."""
        return {display_name(pod.key) for raw in self.pods if (pod := read_pod(raw)) and pod.gated}

    @property
    def owner_names(self) -> set[str]:
        """The names of the job, its launcher and the other owners of its pods."""
        owners = (owner for pod in self.pods for owner in maps_at(pod, "metadata", "ownerReferences"))
        name = self.reference.name
        return {name, f"{name}-launcher", *(text_at(owner, "name") for owner in owners)}

    @cached_property
    def pod_objects(self) -> dict[str, Object]:
        """The pods as JSON, by name."""
        return {name_of(raw): raw for raw in self.pods}

    @cached_property
    def workers(self) -> tuple[Pod, ...]:
        """The job's workers, sorted by job, number and name.

        A pod is a worker if it has a placement annotation, a problem or devices. If no pod or template has a
        readable placement annotation, all other pods except launchers are workers, too. An ended pod is no
        longer a worker if it was replaced, or if its number is too high.
        """
        workers: list[Pod] = []
        numbers: defaultdict[str, set[int]] = defaultdict(set)
        raw_pods = sorted(self.pods, key=_has_ended)
        for raw in raw_pods:
            pod = _pod_of(raw)
            if pod.placement is None and (self.placement or is_launcher(raw)):
                member = self.fleet.examiner.with_claims(pod)
                if not (member.problem or member.uses_devices):
                    continue
            known_numbers = numbers[pod.job]
            if pod.placement is None or pod.placement.index is None:  # the pod has no fixed number
                pod = replace(pod, number=len(known_numbers))
            # A Job keeps its failed pod after it has created a new pod.
            is_surplus = pod.placement and (
                pod.number in known_numbers or pod.number >= pod.placement.workers
            )
            if not (_has_ended(raw) and is_surplus):
                known_numbers.add(pod.number)
                workers.append(pod)
        return tuple(sorted(workers, key=lambda pod: (pod.job, pod.number, pod.name)))

    def problem(self, pod: Pod) -> str:
        """Returns the problem of a pod or its claims that prevents a placement; empty if there is none."""
        return self.fleet.examiner.with_claims(pod).problem

    @cached_property
    def workers_by_job(self) -> Mapping[str, tuple[Pod, ...]]:
        """The workers by job. The groups of a LeaderWorkerSet are placed as separate jobs."""
        jobs: defaultdict[str, tuple[Pod, ...]] = defaultdict(tuple)
        for pod in self.workers:
            jobs[pod.job] += (pod,)
        return jobs

    @property
    def launchers(self) -> list[Object]:
        """The launchers that are not workers, the newest last."""
        workers = {pod.name for pod in self.workers}
        launchers = [raw for raw in self.pods if is_launcher(raw) and name_of(raw) not in workers]
        return sorted(launchers, key=lambda pod: text_at(pod, "metadata", "creationTimestamp"))

    @cached_property
    def placement(self) -> Placement | None:
        """The placement annotation of the job's pods or templates; None if none can be read."""
        placements = (_placement_of(raw) for raw in (*self.pods, *templates(self.job)))
        return next((placement for placement in placements if placement), None)

    @property
    def worker_count(self) -> int:
        """The number of workers that the job needs.

        Without a placement annotation: the number in an MPIJob's spec or, if larger, of the existing workers.
        """
        if self.placement:
            return self.placement.workers * max(len(self.workers_by_job), 1)
        return max(number_at(self.job, "spec", "mpiReplicaSpecs", "Worker", "replicas"), len(self.workers))

    def node(self, worker: Pod) -> Node | None:
        """Returns a worker's node; None if the worker has no node, or if the node was deleted."""
        return self.fleet.topology.nodes.get(worker.node)

    @property
    def is_suspended(self) -> bool:
        """Whether the job is suspended."""
        return True in (at(self.job, "spec", "suspend"), at(self.job, "spec", "runPolicy", "suspend"))

    def events_about(self, names: Iterable[str], *, component: str = "") -> Iterator[Object]:
        """Yields, per object and reason, the last Event of ``component``; if this is '', the last warning."""
        object_names = set(names)
        last_events: dict[tuple[str, str], Object] = {}
        for event in sorted(self.events, key=_event_time):
            name = text_at(event, "involvedObject", "name")
            writer = text_at(event, "reportingComponent") or text_at(event, "source", "component")
            is_wanted = writer == component if component else event.get("type") == "Warning"
            if name in object_names and is_wanted:
                last_events[name, text_at(event, "reason")] = event
        yield from last_events.values()

    def end_reason(self) -> str:
        """Returns how the job ended, with the reason; empty for a job that has not ended."""
        for item in maps_at(self.job, "status", "conditions"):
            if item.get("type") in END_CONDITIONS and item.get("status") == "True":
                text = text_at(item.get("message")) or text_at(item.get("reason"))
                return f"{item['type']}: {text}".strip(": ")
        return ""


def _event_time(event: Object) -> str:
    """Returns an Event's time; the API server writes times in a form that sorts as text."""
    times = (event.get("eventTime"), event.get("lastTimestamp"), metadata(event).get("creationTimestamp"))
    return next((time for time in times if isinstance(time, str) and time), "")


def is_launcher(raw: Object) -> bool:
    """Returns whether a pod is its job's launcher, by the operator's label."""
    return labels(raw).get(TRAINING + "job-role") in LAUNCHER_ROLES


def _placement_of(raw: Object) -> Placement | None:
    try:
        return contract.read(metadata(raw))
    except ContractError:  # `problem` reports the error of a pod
        return None


def _has_ended(raw: Object) -> bool:
    return at(raw, "status", "phase") in ENDED_PHASES


def _pod_of(raw: Object) -> Pod:
    """Returns a pod. A pod that has ended is read as if it ran, because it still belongs to its job."""
    pod = read_pod(raw | {"status": {}} if _has_ended(raw) else raw)
    if pod is None:
        raise LookupError(f"pod {name_of(raw)} has ended")
    return pod
