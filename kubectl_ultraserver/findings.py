"""A job with everything that was read about it, and the findings about what it waits for."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Final

from contract import place as contract
from contract.keys import ADDED, JOB, TRAINING
from contract.place import ContractError, Place
from kube.api import Object
from kubectl_ultraserver.fleet import Fleet
from kubectl_ultraserver.names import JobName
from kubectl_ultraserver.objects import at, labels, maps, metadata, name_of, number, templates, text
from placement.decide.cluster import shown
from placement.observe.model import Ended, Node, Pod
from placement.observe.read import ENDED, read_pod

LAUNCHERS: Final = ("launcher", "master")
"""Operators' names for the role of the pod that starts the others."""
END_CONDITIONS: Final = ("Succeeded", "Complete", "Completed", "Failed")
"""Conditions of jobs that have ended."""


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that a job waits for, or that is wrong with it.

    Attributes:
        kind: The kind of its subject: ``node``, ``pod``, ``queue``, ``job``, ``ultraserver``, ``webhook``,
            ``operator``, ``scheduler`` or ``program``.
        name: The name of its subject.
        text: The problem.
        details: More lines, such as why each UltraServer is not used.
        remedy: What to do; empty if the text implies it.
    """

    kind: str
    name: str
    text: str
    details: tuple[str, ...] = ()
    remedy: str = ""


@dataclass(frozen=True)
class Case:
    """A job and its pods, and what else was read to explain it.

    If the user may not read an object, its attribute is an empty map.

    Attributes:
        called: The job as the command names it.
        namespace: Its namespace.
        job: The object; empty if its kind is not in the table.
        pods: Its pods in the order of their names. Pods that have ended are included.
        fleet: The nodes and pods of the cluster.
        space: Its Namespace.
        events: Events about the job and its pods.
        registration: The MutatingWebhookConfiguration for jobs of its kind; None if there is none.
        rules: The ConfigMap with the rule table; None if there is none.
        answer: The preview service's answer about a job that the webhook did not change; else empty.
        unasked: Why the preview service does not answer.
        lease: The Lease of the placement program; None if there is none.
        workloads: Kueue's Workloads in the namespace.
        kueue: Whether the API server serves Kueue's API.
        over: The workers that have ended, of all jobs.
    """

    called: JobName
    namespace: str
    job: Object
    pods: tuple[Object, ...]
    fleet: Fleet
    space: Object = field(default_factory=dict)
    events: tuple[Object, ...] = ()
    registration: Object | None = field(default_factory=dict)
    rules: Object | None = None
    answer: Object = field(default_factory=dict)
    unasked: str = ""
    lease: Object | None = None
    workloads: tuple[Object, ...] = ()
    kueue: bool = False
    over: tuple[Ended, ...] = ()

    @property
    def kind(self) -> str:
        """Its kind in kubectl's spelling; ``job`` if it is not known."""
        return self.called.kind or text(self.job, "kind").lower() or "job"

    @property
    def title(self) -> str:
        """Its kind, namespace and name, such as ``mpijob team-b/train``."""
        return f"{self.kind} {self.namespace}/{self.called.name}"

    @property
    def marked(self) -> bool:
        """Whether the webhook added something to the job or its pods."""
        both = (*templates(self.job), *self.pods)
        return any(ADDED in labels(each, "annotations") or JOB in labels(each) for each in both)

    @property
    def gated(self) -> set[str]:
        """The names of its jobs with pods that wait for the placement program; a group may be a job."""
        return {shown(pod.key) for raw in self.pods if (pod := read_pod(raw)) and pod.gated}

    @property
    def owners(self) -> set[str]:
        """The names of its pods' owners: the job itself, and objects that it creates."""
        owners = (owner for pod in self.pods for owner in maps(pod, "metadata", "ownerReferences"))
        return {self.called.name, f"{self.called.name}-launcher", *(text(owner, "name") for owner in owners)}

    @cached_property
    def raw(self) -> dict[str, Object]:
        """The pods as JSON, by name."""
        return {name_of(raw): raw for raw in self.pods}

    @cached_property
    def workers(self) -> tuple[Pod, ...]:
        """The pods that take nodes, by number: with a placement annotation or, without one, with devices."""
        workers: list[Pod] = []
        numbers: defaultdict[str, set[int]] = defaultdict(set)
        raws = sorted(self.pods, key=_has_ended)
        for raw in raws:
            pod = _read(raw)
            if pod.place is None and not (self.problem(pod) or self.fleet.belief.claiming(pod).neuron):
                continue
            taken = numbers[pod.job]
            if pod.place is None or pod.place.index is None:  # without a number the order is free
                pod = replace(pod, number=len(taken))
            # A Job keeps its failed pod next to the new one.
            replaced = pod.place and (pod.number in taken or pod.number >= pod.place.workers)
            if not (_has_ended(raw) and replaced):
                taken.add(pod.number)
                workers.append(pod)
        return tuple(sorted(workers, key=lambda pod: (pod.job, pod.number, pod.name)))

    def problem(self, pod: Pod) -> str:
        """Returns why a pod cannot be placed, even if its placement annotation is ignored; else empty."""
        return self.fleet.belief.claiming(pod).problem

    @cached_property
    def jobs(self) -> Mapping[str, tuple[Pod, ...]]:
        """The workers by job: those of an object or, in a LeaderWorkerSet, of each group."""
        jobs: defaultdict[str, tuple[Pod, ...]] = defaultdict(tuple)
        for pod in self.workers:
            jobs[pod.job] += (pod,)
        return jobs

    @property
    def launchers(self) -> list[Object]:
        """The pods that start the job and take no node; the newest last."""
        workers = {pod.name for pod in self.workers}
        launchers = [raw for raw in self.pods if starts(raw) and name_of(raw) not in workers]
        return sorted(launchers, key=lambda pod: text(pod, "metadata", "creationTimestamp"))

    @cached_property
    def place(self) -> Place | None:
        """The placement annotation of its pods or templates; None if the webhook did not change the job."""
        places = (_place(raw) for raw in (*self.pods, *templates(self.job)))
        return next((place for place in places if place), None)

    @property
    def wanted(self) -> int:
        """The number of workers that the job needs.

        An MPIJob without a placement annotation has this number in its spec.
        """
        if self.place:
            return self.place.workers * max(len(self.jobs), 1)
        return max(number(self.job, "spec", "mpiReplicaSpecs", "Worker", "replicas"), len(self.workers))

    def node(self, worker: Pod) -> Node | None:
        """Returns a worker's node; None if it has none, or if the node was deleted."""
        return self.fleet.topology.nodes.get(worker.node)

    @property
    def suspended(self) -> bool:
        """Whether the job is suspended."""
        return True in (at(self.job, "spec", "suspend"), at(self.job, "spec", "runPolicy", "suspend"))

    def events_about(self, names: Iterable[str], *, component: str = "") -> Iterator[Object]:
        """Yields the last Event of each reason about the given objects: warnings, or all of ``component``."""
        objects = set(names)
        last: dict[tuple[str, str], Object] = {}
        for event in sorted(self.events, key=_when):
            name = text(event, "involvedObject", "name")
            if name in objects and (
                reporter(event) == component if component else event.get("type") == "Warning"
            ):
                last[name, text(event, "reason")] = event
        yield from last.values()

    def ended(self) -> str:
        """Returns how the job ended, with the reason; empty for a job that has not ended."""
        for item in maps(self.job, "status", "conditions"):
            if item.get("type") in END_CONDITIONS and item.get("status") == "True":
                return f"{item['type']}: {text(item.get('message')) or text(item.get('reason'))}".strip(": ")
        return ""


def reporter(event: Object) -> str:
    """Returns the program that wrote an Event."""
    return text(event, "reportingComponent") or text(event, "source", "component")


def _when(event: Object) -> str:
    """Returns an Event's time; the API server writes times in a form that sorts as text."""
    times = (event.get("eventTime"), event.get("lastTimestamp"), metadata(event).get("creationTimestamp"))
    return next((time for time in times if isinstance(time, str) and time), "")


def starts(raw: Object) -> bool:
    """Returns whether a pod starts the others of its job, by its operator's label."""
    return labels(raw).get(TRAINING + "job-role") in LAUNCHERS


def _place(raw: Object) -> Place | None:
    try:
        return contract.read(metadata(raw))
    except ContractError:  # `problem` reports it for a pod
        return None


def _has_ended(raw: Object) -> bool:
    return at(raw, "status", "phase") in ENDED


def _read(raw: Object) -> Pod:
    """Returns a pod; one that has ended is read as if it ran, because it still belongs to the job."""
    pod = read_pod(raw | {"status": {}} if _has_ended(raw) else raw)
    if pod is None:
        raise LookupError(f"pod {name_of(raw)} has ended")
    return pod
