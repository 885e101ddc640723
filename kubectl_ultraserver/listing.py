"""Reads objects of the API server page by page, and keeps only the fields that commands need."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property
from typing import Final, TypeVar
from urllib.parse import quote

from common.output import progress
from kube.api import ApiError, ForbiddenError, Object, leases_path
from kube.rest import RestApi
from kubectl_ultraserver import messages, service
from kubectl_ultraserver.findings import Case
from kubectl_ultraserver.fleet import Fleet
from kubectl_ultraserver.kueue import is_owned
from kubectl_ultraserver.names import JobReference, is_pod_of, job_of
from kubectl_ultraserver.objects import NAME, at, maps_at, name_of, text_at
from kubectl_ultraserver.table import Table, read
from placement.decide.allocation import with_devices
from placement.decide.topology import Topology
from placement.observe.inventory import API_PATH, READERS, Inventory
from placement.observe.model import COMPONENT, EndedWorker, Pod
from placement.observe.read import ENDED_QUERY, LIVE_QUERY, read_ended, read_node, read_pod

T = TypeVar("T")

MPIJOBS: Final = "mpijobs"
"""The only kind of job that the user must be able to read if the command names no kind."""
KUEUE: Final = ("kueue.x-k8s.io/v1beta2", "kueue.x-k8s.io/v1beta1")
"""Kueue's API versions, the newest first; Kueue 0.15 serves both."""
HOOKS_PATH: Final = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
RULES_PATH: Final = f"/api/v1/namespaces/{NAME}/configmaps/{NAME}-rules"
"""The ConfigMap with the installation's rule table."""
LEASE_PATH: Final = f"{leases_path(NAME)}/{COMPONENT}"
"""The Lease of the installation's placement program."""


@dataclass
class Lister:
    """Reads jobs, nodes, pods and the installation."""

    api: RestApi  # the API server
    namespace: str  # the namespace of the job

    @cached_property
    def fleet(self) -> Fleet:
        """All nodes, and `Fleet.pods`; only pods of `namespace` if the user may not list all pods.

        Raises:
            ApiError: The nodes or the pods of the namespace cannot be listed.
        """
        inventory, unseen = self._read_claims()
        nodes = {node.name: node for node in map(read_node, self.items("/api/v1/nodes"))}
        topology = Topology(with_devices(inventory, nodes).values())
        fleet = Fleet(topology, (), table=self.table, inventory=inventory, now=datetime.now(UTC))
        node_names = {node.name for node in topology.nodes.values() if fleet.has_unit_or_devices(node)}
        pods_and_jobs, forbidden = self._pods(LIVE_QUERY, lambda raw: _relevant_pod(raw, node_names))
        unseen = messages.other_pods_unseen(forbidden) if forbidden else unseen
        pods = tuple(pod for pod, _ in pods_and_jobs)
        job_names = {pod.uid: job for pod, job in pods_and_jobs if job}
        return replace(fleet, pods=pods, job_names=job_names, unseen=unseen)

    @cached_property
    def ended_workers(self) -> tuple[EndedWorker, ...]:
        """The workers that have ended; only those of `namespace` if the user may not list all pods."""
        return tuple(self._pods(ENDED_QUERY, read_ended)[0])

    @cached_property
    def lease(self) -> Object | None:
        """The Lease of the placement program; see `findings.Case`."""
        return self._get(LEASE_PATH)

    def _read_claims(self) -> tuple[Inventory, str]:
        """Returns devices and claims (none before Kubernetes 1.34), and why they are not listed (or "")."""
        if not self.has_claims:
            return Inventory(), ""
        try:
            return Inventory(*(self._read(path, reader) for path, reader in READERS.items())), ""
        except ForbiddenError as error:
            return Inventory(), messages.claims_unseen(error)

    def _read(self, path: str, reader: Callable[[Object], T | None]) -> dict[tuple[str, str], T]:
        """Returns the results of ``reader`` for a collection's items, by namespace and name; omits None."""
        rows = (
            (text_at(obj, "metadata", "namespace"), name_of(obj), reader(obj)) for obj in self.items(path)
        )
        return {(namespace, name): item for namespace, name, item in rows if item is not None}

    def job(self, reference: JobReference) -> Case:
        """Returns a job with its pods and the cluster.

        Raises:
            ApiError: The API server has no job of this name, refuses, or does not answer.
        """
        job = self._job(reference)
        pods = [pod for pod in self.items(f"/api/v1/{self._scope}/pods") if is_pod_of(pod, reference)]
        if not job and not pods and not any(is_owned(item, reference) for item in self._kueue_workloads()):
            raise ApiError(messages.no_job(reference, self.namespace))
        return Case(reference, self.namespace, job or {}, tuple(sorted(pods, key=name_of)), self.fleet)

    def with_explanations(self, case: Case) -> Case:
        """Returns the case with all other objects that explain the job and that the user may read."""
        names = {*case.owner_names, *map(name_of, case.pods)}
        path = f"/api/v1/{self._scope}/events"
        events = self._readable(path, lambda event: at(event, "involvedObject", "name") in names)
        uid = text_at(case.job, "metadata", "uid")
        selector = f"?labelSelector=kueue.x-k8s.io%2Fjob-uid%3D{uid}" if uid else ""
        case = replace(
            case,
            namespace_object=self._get(f"/api/v1/namespaces/{self.namespace}") or {},
            events=tuple(events),
            registration=self._registration(case.kind),
            rules=self._table_config_map,
            lease=self.lease,
            ended_workers=self.ended_workers,
            workloads=tuple(self._kueue_workloads(selector)),
            has_kueue=bool(self.kueue_api),
        )
        return self.with_preview(case, case.job) if case.job and not case.is_changed else case

    def with_preview(self, case: Case, job: Object) -> Case:
        """Returns the case with the preview service's answer for the time at which the job was created."""
        created = text_at(job, "metadata", "creationTimestamp")
        parameters = {"namespace": case.namespace, **({"time": created} if created else {})}
        try:
            return replace(case, answer=service.item_of(self.api, job, **parameters))
        except service.UnavailableError as error:
            return replace(case, no_preview_reason=str(error))

    def _pods(self, query: str, reader: Callable[[Object], T | None]) -> tuple[list[T], str]:
        """Returns the results of ``reader`` for pods (omits None), and why only `namespace` was listed.

        The reason is empty if all namespaces were listed.
        """
        try:
            return self._map_items(f"/api/v1/pods?{query}", reader), ""
        except ForbiddenError as error:
            return self._map_items(f"/api/v1/{self._scope}/pods?{query}", reader), str(error)

    def _map_items(self, path: str, reader: Callable[[Object], T | None]) -> list[T]:
        return [item for raw in self.items(path) if (item := reader(raw)) is not None]

    def _registration(self, kind: str) -> Object | None:
        """Returns the registration of the webhook for a kind of job; see `findings.Case`."""
        resources = {resource for _, resource in self._resources(kind)}
        try:
            return next((config for config in self.items(HOOKS_PATH) if _receives(config, resources)), None)
        except ForbiddenError:
            return {}

    def _kueue_workloads(self, query: str = "") -> list[Object]:
        """Returns Kueue's Workloads in the namespace; empty if the user may not list them."""
        return self._readable(f"{self.kueue_api}/{self._scope}/workloads{query}") if self.kueue_api else []

    @cached_property
    def _table_config_map(self) -> Object | None:
        """The ConfigMap with the rule table; see `findings.Case`."""
        return self._get(RULES_PATH)

    @cached_property
    def table(self) -> Table:
        """The installation's rule table, or the packaged table; see `read`."""
        return read(self._table_config_map)

    def _resources(self, kind: str) -> Iterator[tuple[str, str]]:
        """Yields version and name of the served resources of ``kind``; empty means all kinds in the table."""
        for version, _, kind_name in (row_kind.rpartition("/") for row_kind in self.table.kinds):
            if version in self.served_versions and kind in ("", kind_name.lower()):
                for resource in maps_at(self.api.get(f"/apis/{version}"), "resources"):
                    if resource.get("kind") == kind_name and "/" not in text_at(resource, "name"):
                        yield version, text_at(resource, "name")

    def _job(self, reference: JobReference) -> Object | None:
        """Returns the object of a job; None if no kind that the user may read has this job."""
        for version, resource in self._resources(reference.kind):
            try:
                with _explain_missing_right(f"get {messages.in_namespace(resource, self.namespace)}"):
                    path = f"/apis/{version}/{self._scope}/{resource}/{quote(reference.name, safe='')}"
                    if job := self.api.get(path):
                        return job
            except ForbiddenError:
                if reference.kind or resource == MPIJOBS:
                    raise
        return None

    @cached_property
    def served_versions(self) -> frozenset[str]:
        """The API versions that the API server serves, as ``GROUP/VERSION``."""
        groups = maps_at(self.api.get("/apis"), "groups")
        versions = (version for group in groups for version in maps_at(group, "versions"))
        return frozenset(text_at(version, "groupVersion") for version in versions)

    @property
    def _scope(self) -> str:
        return f"namespaces/{self.namespace}"

    @property
    def has_claims(self) -> bool:
        """Whether the API server serves device claims; Kubernetes does from version 1.34 on."""
        return API_PATH.removeprefix("/apis/") in self.served_versions

    @property
    def kueue_api(self) -> str:
        """The path of Kueue's newest API version; empty if Kueue is not installed."""
        return next((f"/apis/{version}" for version in KUEUE if version in self.served_versions), "")

    def _get(self, path: str) -> Object | None:
        """Returns an object; None if it does not exist, and {} if the user may not read it."""
        try:
            return self.api.get(path)
        except ForbiddenError:
            return {}

    def _readable(self, path: str, is_wanted: Callable[[Object], bool] = bool) -> list[Object]:
        """Returns the wanted items of a collection; an empty list if the user may not read the collection."""
        try:
            return [item for item in self.items(path) if is_wanted(item)]
        except ForbiddenError:
            return []

    def items(self, path: str) -> Iterator[Object]:
        """Yields the items of a collection, which is read page by page."""
        *_, scope, name, resource = path.partition("?")[0].split("/")
        description = messages.in_namespace(resource, name) if scope == "namespaces" else resource
        try:
            with _explain_missing_right(f"list {description}"):
                for number, page in enumerate(self.api.pages(path), 1):
                    yield from maps_at(page, "items")
                    progress(messages.listing(description, number))
        finally:
            progress("")


def _relevant_pod(raw: Object, node_names: set[str]) -> tuple[Pod, str] | None:
    """Returns a pod of `Fleet.pods` with the name of its job; None for any other pod."""
    node = at(raw, "spec", "nodeName")
    pod = read_pod(raw) if not node or node in node_names else None
    return (pod, job_of(raw)) if pod and (node or pod.gated or pod.placement or pod.fault) else None


def _receives(registration: Object, names: set[str]) -> bool:
    hooks = maps_at(registration, "webhooks") if NAME in name_of(registration) else ()
    return any(names & {*(rule.get("resources") or ())} for hook in hooks for rule in maps_at(hook, "rules"))


@contextmanager
def _explain_missing_right(right: str) -> Iterator[None]:
    try:
        yield
    except ForbiddenError as error:
        reason = str(error).partition(": 403 ")[2] or str(error)
        raise ForbiddenError(messages.lacks_right(right, reason)) from error
