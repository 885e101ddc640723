"""Reads objects of the API server, in pages, and keeps only the fields that are needed."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property
from typing import Final, TypeVar
from urllib.parse import quote

from common.output import progress
from kube.api import ForbiddenError, Object, leases
from kube.rest import RestApi
from kubectl_ultraserver import messages, service
from kubectl_ultraserver.findings import Case
from kubectl_ultraserver.fleet import Fleet
from kubectl_ultraserver.kueue import owned
from kubectl_ultraserver.names import JobName, belongs, job_of
from kubectl_ultraserver.objects import NAME, at, maps, name_of, text
from kubectl_ultraserver.table import Table, read
from placement.decide.allocation import offered
from placement.decide.topology import Topology
from placement.observe.inventory import API, READERS, Inventory
from placement.observe.model import COMPONENT, Ended, Pod
from placement.observe.read import LIVE, OVER, read_ended, read_node, read_pod

T = TypeVar("T")

MPIJOBS: Final = "mpijobs"
"""The only kind of job that the user must be able to read."""
KUEUE: Final = ("kueue.x-k8s.io/v1beta2", "kueue.x-k8s.io/v1beta1")
"""Kueue's API versions, the newest first; Kueue 0.15 serves both."""
HOOKS: Final = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
RULES: Final = f"/api/v1/namespaces/{NAME}/configmaps/{NAME}-rules"
"""The ConfigMap with the installation's rule table."""
LEASE: Final = f"{leases(NAME)}/{COMPONENT}"
"""The Lease of the installation's placement program."""


class UnknownJobError(Exception):
    """There is no such job."""


@dataclass
class Lister:
    """Reads jobs, nodes, pods and the installation.

    Attributes:
        api: The API server.
        namespace: The namespace of the job.
    """

    api: RestApi
    namespace: str

    @cached_property
    def fleet(self) -> Fleet:
        """All nodes and relevant pods; only those of one namespace if the user may not list others.

        Raises:
            ApiError: These cannot be listed either.
        """
        inventory, unseen = self._claims()
        nodes = {node.name: node for node in map(read_node, self.items("/api/v1/nodes"))}
        topology = Topology(offered(inventory, nodes).values())
        fleet = Fleet(topology, (), table=self.table, inventory=inventory, now=datetime.now(UTC))
        names = {node.name for node in topology.nodes.values() if fleet.may_take(node)}
        listed, forbidden = self._pods(LIVE, lambda raw: _on(raw, names))
        unseen = messages.other_pods_unseen(forbidden) if forbidden else unseen
        pods = tuple(pod for pod, _ in listed)
        owners = {pod.uid: owner for pod, owner in listed if owner}
        return replace(fleet, pods=pods, owners=owners, unseen=unseen)

    @cached_property
    def ended(self) -> tuple[Ended, ...]:
        """The workers that have ended; only those of one namespace if `fleet` has only these."""
        return tuple(self._pods(OVER, read_ended)[0])

    @cached_property
    def lease(self) -> Object | None:
        """The Lease of the placement program; see `findings.Case`."""
        return self._get(LEASE)

    def _claims(self) -> tuple[Inventory, str]:
        """Returns the device claims (none before Kubernetes 1.34), and the reason if they were not read."""
        if not self.has_claims:
            return Inventory(), ""
        try:
            return Inventory(*(self._read(path, read) for path, read in READERS.items())), ""
        except ForbiddenError as error:
            return Inventory(), messages.claims_unseen(error)

    def _read(self, path: str, read: Callable[[Object], T | None]) -> dict[tuple[str, str], T]:
        """Returns what ``read`` keeps of a collection, by namespace and name."""
        pairs = (((text(raw, "metadata", "namespace"), name_of(raw)), read(raw)) for raw in self.items(path))
        return {key: item for key, item in pairs if item is not None}

    def job(self, called: JobName) -> Case:
        """Returns a job, its pods and the cluster.

        Raises:
            UnknownJobError: There is no such job.
            ApiError: The API server refuses, or does not answer.
        """
        job = self._job(called)
        pods = [pod for pod in self.items(f"/api/v1/{self._inside}/pods") if belongs(pod, called)]
        if job is None and not pods and not any(owned(one, called) for one in self._workloads()):
            raise UnknownJobError(messages.no_job(called, self.namespace))
        return Case(called, self.namespace, job or {}, tuple(sorted(pods, key=name_of)), self.fleet)

    def explained(self, case: Case) -> Case:
        """Returns the case with everything else that explains the job, as far as the user may read it."""
        names = {*case.owners, *map(name_of, case.pods)}
        events = self._readable(
            f"/api/v1/{self._inside}/events", lambda event: at(event, "involvedObject", "name") in names
        )
        uid = text(case.job, "metadata", "uid")
        own = f"?labelSelector=kueue.x-k8s.io%2Fjob-uid%3D{uid}" if uid else ""
        case = replace(
            case,
            space=self._get(f"/api/v1/namespaces/{self.namespace}") or {},
            events=tuple(events),
            registration=self._registration(case.kind),
            rules=self._rules,
            lease=self.lease,
            over=self.ended,
            workloads=tuple(self._workloads(own)),
            kueue=bool(self.kueue),
        )
        return self.answered(case, case.job) if case.job and not case.marked else case

    def answered(self, case: Case, job: Object) -> Case:
        """Returns the case with the preview service's answer about the job at its creation time."""
        created = text(job, "metadata", "creationTimestamp")
        parameters = {"namespace": case.namespace, **({"time": created} if created else {})}
        try:
            return replace(case, answer=service.item(self.api, job, **parameters))
        except service.OffError as error:
            return replace(case, unasked=str(error))

    def _pods(self, query: str, read: Callable[[Object], T | None]) -> tuple[list[T], str]:
        """Returns what ``read`` keeps of pods; and why only one namespace was listed, or an empty text."""
        try:
            return self._kept(f"/api/v1/pods?{query}", read), ""
        except ForbiddenError as error:
            return self._kept(f"/api/v1/{self._inside}/pods?{query}", read), str(error)

    def _kept(self, path: str, read: Callable[[Object], T | None]) -> list[T]:
        return [item for raw in self.items(path) if (item := read(raw)) is not None]

    def _registration(self, kind: str) -> Object | None:
        """Returns the registration of the webhook for a kind of job; see `findings.Case`."""
        resources = {resource for _, resource in self._resources(kind)}
        try:
            return next((each for each in self.items(HOOKS) if _sends(each, resources)), None)
        except ForbiddenError:
            return {}

    def _workloads(self, query: str = "") -> list[Object]:
        """Returns Kueue's Workloads in the namespace; none if Kueue is not installed."""
        return self._readable(f"{self.kueue}/{self._inside}/workloads{query}") if self.kueue else []

    @cached_property
    def _rules(self) -> Object | None:
        """The ConfigMap with the rule table; see `findings.Case`."""
        return self._get(RULES)

    @cached_property
    def table(self) -> Table:
        """The installation's rule table."""
        return read(self._rules)

    def _resources(self, kind: str) -> Iterator[tuple[str, str]]:
        """Yields API version and name of the served resources of the rule table's jobs, or of one kind."""
        for version, _, wanted in (known.rpartition("/") for known in self.table.kinds):
            if version in self.served and kind in ("", wanted.lower()):
                for resource in maps(self.api.get(f"/apis/{version}"), "resources"):
                    if resource.get("kind") == wanted and "/" not in text(resource, "name"):
                        yield version, text(resource, "name")

    def _job(self, called: JobName) -> Object | None:
        """Returns the object of a job; None if there is none, or if the user may not read unnamed kinds."""
        for version, resource in self._resources(called.kind):
            try:
                with _needs(f"get {resource} in namespace {self.namespace}"):
                    path = f"/apis/{version}/{self._inside}/{resource}/{quote(called.name, safe='')}"
                    if job := self.api.get(path):
                        return job
            except ForbiddenError:
                if called.kind or resource == MPIJOBS:
                    raise
        return None

    @cached_property
    def served(self) -> frozenset[str]:
        """The API versions that the API server serves, as ``GROUP/VERSION``."""
        groups = maps(self.api.get("/apis"), "groups")
        return frozenset(
            text(version, "groupVersion") for group in groups for version in maps(group, "versions")
        )

    @property
    def _inside(self) -> str:
        return f"namespaces/{self.namespace}"

    @property
    def has_claims(self) -> bool:
        """Whether the API server serves device claims, as from Kubernetes 1.34 on."""
        return API.removeprefix("/apis/") in self.served

    @property
    def kueue(self) -> str:
        """The path of Kueue's newest API version; empty if Kueue is not installed."""
        return next((f"/apis/{version}" for version in KUEUE if version in self.served), "")

    def _get(self, path: str) -> Object | None:
        """Returns an object; {} if the user may not read it."""
        try:
            return self.api.get(path)
        except ForbiddenError:
            return {}

    def _readable(self, path: str, keep: Callable[[Object], bool] = bool) -> list[Object]:
        """Returns the objects of a collection to keep; none if the user may not read it."""
        try:
            return [each for each in self.items(path) if keep(each)]
        except ForbiddenError:
            return []

    def items(self, path: str) -> Iterator[Object]:
        """Yields the objects of a collection, and reads a page at a time."""
        *_, where, name, kind = path.partition("?")[0].split("/")
        what = f"{kind} in namespace {name}" if where == "namespaces" else kind
        try:
            with _needs(f"list {what}"):
                for number, page in enumerate(self.api.pages(path), 1):
                    yield from maps(page, "items")
                    progress(f"listing {what}, page {number}")
        finally:
            progress("")


def _on(raw: Object, names: set[str]) -> tuple[Pod, str] | None:
    """Returns a pod on one of these nodes or on none, and its job's name; None for others."""
    node = at(raw, "spec", "nodeName")
    pod = read_pod(raw) if not node or node in names else None
    return (pod, job_of(raw)) if pod and (node or pod.gated or pod.place or pod.fault) else None


def _sends(registration: Object, resources: set[str]) -> bool:
    hooks = maps(registration, "webhooks") if NAME in name_of(registration) else ()
    return any(resources & {*(rule.get("resources") or ())} for hook in hooks for rule in maps(hook, "rules"))


@contextmanager
def _needs(what: str) -> Iterator[None]:
    try:
        yield
    except ForbiddenError as error:
        reason = str(error).partition(": 403 ")[2] or str(error)
        raise ForbiddenError(messages.lacks_right(what, reason)) from error
