"""A job with all that is looked up of it, and what it waits for, as people and programs read it."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Final

from contract import place as contract
from contract.keys import ADDED, JOB, TRAINING
from contract.place import ContractError, Place
from kube.api import Object
from kubectl_ultraserver.names import JobName
from kubectl_ultraserver.objects import at, labels, maps, metadata, name_of, number, templates, text
from kubectl_ultraserver.seen import Fleet
from placement.observe.model import Node, Pod
from placement.observe.read import ENDED, read_pod

LAUNCHERS: Final = ("launcher", "master")
"""What operators call the role of a pod that starts the others."""
ENDS: Final = ("Succeeded", "Complete", "Completed", "Failed")
"""Conditions of the kinds of job that have ended."""


@dataclass(frozen=True, slots=True)
class Finding:
    """A thing that a job waits for, or that is wrong with it.

    Attributes:
        kind: Of what is named: ``node``, ``pod``, ``queue``, ``job``, ``ultraserver``, ``webhook``,
            ``operator``, ``scheduler`` or ``program``.
        name: Its name.
        text: What is the matter with it.
        details: More, for example what keeps each UltraServer from being used.
        remedy: What to do; empty where that follows from the text.
    """

    kind: str
    name: str
    text: str
    details: tuple[str, ...] = ()
    remedy: str = ""


@dataclass(frozen=True)
class Case:
    """A job and its pods; and to explain it, what else was looked up.

    Attributes:
        called: What the command calls it.
        namespace: Its namespace.
        job: The object; empty where it is of no kind in the table, or may not be read.
        pods: Its pods, ended ones as well, by name.
        fleet: The cluster.
        space: Its Namespace; empty where it may not be read.
        events: Events about the job and its pods.
        registration: The MutatingWebhookConfiguration that jobs of its kind are sent by; None where there is
            none, empty where it may not be read.
        rules: The ConfigMap with the rule table; None where there is none, empty where it may not be read.
        answer: What the preview service says of a job that the webhook did not change; empty where it was not
            asked.
        unasked: Why it does not answer.
        lease: The Lease of the placement program; None where there is none.
        workloads: Kueue's Workloads in the namespace.
        kueue: Whether Kueue's API is there.
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

    @property
    def kind(self) -> str:
        """What kubectl calls its kind; ``job`` where that is not known."""
        return self.called.kind or text(self.job, "kind").lower() or "job"

    @property
    def title(self) -> str:
        """``mpijob team-b/train``."""
        return f"{self.kind} {self.namespace}/{self.called.name}"

    @property
    def marked(self) -> bool:
        """Whether the webhook added something to the job or its pods."""
        both = (*templates(self.job), *self.pods)
        return any(ADDED in labels(found, "annotations") or JOB in labels(found) for found in both)

    @property
    def makers(self) -> set[str]:
        """The names of what makes its pods: itself, and what it makes for that."""
        owners = (owner for pod in self.pods for owner in maps(pod, "metadata", "ownerReferences"))
        return {self.called.name, f"{self.called.name}-launcher", *(text(owner, "name") for owner in owners)}

    @cached_property
    def raw(self) -> dict[str, Object]:
        """The pods as the API server has them, by name."""
        return {name_of(raw): raw for raw in self.pods}

    @cached_property
    def workers(self) -> tuple[Pod, ...]:
        """The pods that take nodes, by number: they have a place, or where that lacks ask for devices."""
        found: list[Pod] = []
        numbers: defaultdict[str, set[int]] = defaultdict(set)
        raws = sorted(self.pods, key=_has_ended)
        for raw in raws:
            pod = _read(raw)
            if pod.place is None and not (self.problem(pod) or self.fleet.belief.claiming(pod).neuron):
                continue
            taken = numbers[pod.job]
            if pod.place is None or pod.place.index is None:  # one is as good as the other
                pod = replace(pod, number=len(taken))
            # A Job's pod that has failed is still there beside the one in its place.
            followed = pod.place and (pod.number in taken or pod.number >= pod.place.workers)
            if not (_has_ended(raw) and followed):
                taken.add(pod.number)
                found.append(pod)
        return tuple(sorted(found, key=lambda pod: (pod.job, pod.number, pod.name)))

    def problem(self, pod: Pod) -> str:
        """Why a pod cannot be placed, whether its place is believed or not; empty where it can."""
        return self.fleet.belief.claiming(pod).problem

    @cached_property
    def jobs(self) -> Mapping[str, tuple[Pod, ...]]:
        """The workers by what is placed as one: all of an object, or of a LeaderWorkerSet each group."""
        found: defaultdict[str, tuple[Pod, ...]] = defaultdict(tuple)
        for pod in self.workers:
            found[pod.job] += (pod,)
        return found

    @property
    def launchers(self) -> list[Object]:
        """The pods that start the job and take no node; the newest last."""
        own = {pod.name for pod in self.workers}
        found = [raw for raw in self.pods if starts(raw) and name_of(raw) not in own]
        return sorted(found, key=lambda pod: text(pod, "metadata", "creationTimestamp"))

    @cached_property
    def place(self) -> Place | None:
        """What admission wrote on its pods, or on its templates; None for a job that it did not change."""
        found = (_place(raw) for raw in (*self.pods, *templates(self.job)))
        return next((place for place in found if place), None)

    @property
    def wanted(self) -> int:
        """How many pods are to take nodes.

        Of an MPIJob without a place the number of its workers, for it says itself what is missing.
        """
        if self.place:
            return self.place.workers * max(len(self.jobs), 1)
        return max(number(self.job, "spec", "mpiReplicaSpecs", "Worker", "replicas"), len(self.workers))

    def node(self, worker: Pod) -> Node | None:
        """A worker's node; None where it is bound to none, or to one that is gone."""
        return self.fleet.topology.nodes.get(worker.node)

    @property
    def suspended(self) -> bool:
        """Whether the job's pods are not to be made now."""
        return True in (at(self.job, "spec", "suspend"), at(self.job, "spec", "runPolicy", "suspend"))

    def told(self, names: Iterable[str], *, component: str = "") -> Iterator[Object]:
        """The last Event of each reason about some objects: warnings, or all of a component."""
        wanted = set(names)
        last: dict[tuple[str, str], Object] = {}
        for event in sorted(self.events, key=_when):
            name = text(event, "involvedObject", "name")
            if name in wanted and (
                reporter(event) == component if component else event.get("type") == "Warning"
            ):
                last[name, text(event, "reason")] = event
        yield from last.values()

    def ended(self) -> str:
        """How the job ended, with its reason; empty while it goes on."""
        for item in maps(self.job, "status", "conditions"):
            if item.get("type") in ENDS and item.get("status") == "True":
                return f"{item['type']}: {text(item.get('message')) or text(item.get('reason'))}".strip(": ")
        return ""


def reporter(event: Object) -> str:
    """Which program wrote an Event."""
    return text(event, "reportingComponent") or text(event, "source", "component")


def _when(event: Object) -> str:
    """Its time; the API server writes them so that they sort as texts."""
    times = (event.get("eventTime"), event.get("lastTimestamp"), metadata(event).get("creationTimestamp"))
    return next((time for time in times if isinstance(time, str) and time), "")


def starts(raw: Object) -> bool:
    """Whether its operator says of a pod that it starts the others."""
    return labels(raw).get(TRAINING + "job-role") in LAUNCHERS


def _place(raw: Object) -> Place | None:
    try:
        return contract.read(metadata(raw))
    except ContractError:  # of a pod it is its `problem`
        return None


def _has_ended(raw: Object) -> bool:
    return at(raw, "status", "phase") in ENDED


def _read(raw: Object) -> Pod:
    """A pod; one that has ended as it was, for it is still of the job."""
    pod = read_pod(raw | {"status": {}} if _has_ended(raw) else raw)
    if pod is None:
        raise LookupError(f"pod {name_of(raw)} has ended")
    return pod
