"""What the API server has, listed in pages and kept as little of as is needed."""

from __future__ import annotations

import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

import click

from kube.api import ApiError, ForbiddenError, leases
from kubectl_ultraserver.findings import Case
from kubectl_ultraserver.kueue import QUEUE, owned
from kubectl_ultraserver.names import belongs, job_of, unknown
from kubectl_ultraserver.objects import at, labels, maps, metadata, name_of, text
from kubectl_ultraserver.seen import Fleet, Work, table_of
from placement.model import COMPONENT
from placement.read import LIVE, read_node, read_pod
from placement.topology import Topology

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kube.api import Object
    from kube.client import KubernetesApi
    from kubectl_ultraserver.names import JobName
    from placement.model import Pod
    from webhook.rows.table import Table

MPIJOBS: Final = "mpijobs"
"""Of all kinds of job this one has to be readable."""
KUEUE: Final = ("kueue.x-k8s.io/v1beta2", "kueue.x-k8s.io/v1beta1")
"""Kueue 0.15 serves both; the newest is asked."""
HOOKS: Final = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
INSTALLED: Final = "ultraserver-webhook"
"""The namespace of an installation, and the name of its registration."""
RULES: Final = f"/api/v1/namespaces/{INSTALLED}/configmaps/{INSTALLED}-rules"
"""The rule table of an installation."""
ROLE: Final = "docs/kubectl.md has a ClusterRole with all that it needs"
SLOW_SECONDS: Final = 1.0
"""Progress is told of lists that take longer."""


class UnknownJobError(Exception):
    """There is no such job; the message names those that may have been meant."""


@dataclass
class Lister:
    """Lists.

    Attributes:
        api: The API server.
        namespace: Of the job.
        progress: Whether somebody sees what is written to standard error.
    """

    api: KubernetesApi
    namespace: str
    progress: bool = False
    _began: float = field(default_factory=time.monotonic, init=False)

    def fleet(self) -> Fleet:
        """All nodes and the pods that matter; those of one namespace where no more may be listed.

        Raises:
            ApiError: Not even that.
        """
        topology = Topology(map(read_node, self._items("/api/v1/nodes", "nodes")))
        fleet = Fleet(topology, (), table=self._table)
        here = {node.name for node in topology.nodes.values() if fleet.may_take(node)}
        unseen = ""
        try:
            found = self._pods(f"/api/v1/pods?{LIVE}", "pods", here)
        except ForbiddenError as error:
            path = f"/api/v1/namespaces/{self.namespace}/pods?{LIVE}"
            found = self._pods(path, f"pods in namespace {self.namespace}", here)
            unseen = f"pods of other namespaces were not looked at: {error}"
        pods = tuple(pod for pod, _ in found)
        owners = {pod.uid: owner for pod, owner in found if owner}
        return replace(fleet, pods=pods, owners=owners, unseen=unseen)

    def work(self, called: JobName) -> Work:
        """A job, its pods and the cluster.

        Raises:
            UnknownJobError: There is no such job.
            ApiError: The API server refuses, or does not answer.
        """
        job, there = self._job(called), self.namespace
        found = self._items(f"/api/v1/namespaces/{there}/pods", f"pods in namespace {there}")
        pods = [pod for pod in found if belongs(pod, called)]
        if job is None and not pods and not any(owned(found, called) for found in self._workloads()):
            raise UnknownJobError(self._unknown(called))
        return Work(called, there, job, tuple(sorted(pods, key=name_of)), self.fleet())

    def case(self, work: Work) -> Case:
        """What else there is to know about a job that waits; what may not be read is left out."""
        names = {*work.makers, *map(name_of, work.pods)}
        events: list[Object] = []
        with suppress(ForbiddenError):  # there may be very many
            told = self._items(f"/api/v1/namespaces/{self.namespace}/events", "events")
            events += [event for event in told if at(event, "involvedObject", "name") in names]
        registration, asked = self._registration(work.kind)
        uid = text(metadata(work.job or {}).get("uid"))
        workloads = self._workloads(f"?labelSelector=kueue.x-k8s.io%2Fjob-uid%3D{uid}" if uid else "")
        wanted = {text(at(found, "spec", "queueName")) for found in workloads}
        wanted |= {labels(work.job or {}).get(QUEUE, "")} - {""}
        queues = self._queues() if wanted and self._kueue else {}
        behind = {text(at(queues[name], "spec", "clusterQueue")) for name in wanted if name in queues}
        return Case(
            work,
            datetime.now(UTC),
            self._get(f"/api/v1/namespaces/{self.namespace}") or {},
            tuple(events),
            registration,
            asked,
            self._rules,
            self._get(f"{leases(INSTALLED)}/{COMPONENT}"),
            tuple(workloads),
            queues,
            {name: found for name in behind if (found := self._get(f"{self._kueue}/clusterqueues/{name}"))},
            bool(self._kueue),
        )

    def _pods(self, path: str, what: str, here: set[str]) -> list[tuple[Pod, str]]:
        """The pods that stand on some nodes or on none, and their jobs' names."""
        found = []
        for raw in self._items(path, what):
            node = at(raw, "spec", "nodeName")
            if node and node not in here:
                continue
            pod = read_pod(raw)
            if pod and (node or pod.gated or pod.place or pod.problem):
                found.append((pod, job_of(raw)))
        return found

    def _registration(self, kind: str) -> tuple[Object | None, bool]:
        """What sends jobs of a kind to the webhook, and whether that could be looked up."""
        sent = {resource for _, resource in self._resources(kind)}
        found, asked = self._readable(HOOKS, "mutatingwebhookconfigurations")
        sends = (
            item
            for item in found
            if INSTALLED in name_of(item)
            and any(
                not sent.isdisjoint(rule.get("resources") or ())
                for hook in maps(item.get("webhooks"))
                for rule in maps(hook.get("rules"))
            )
        )
        return next(sends, None), asked

    def _workloads(self, query: str = "") -> list[Object]:
        path = f"{self._kueue}/namespaces/{self.namespace}/workloads{query}"
        return self._readable(path, "workloads")[0] if self._kueue else []

    def _queues(self) -> dict[str, Object]:
        path = f"{self._kueue}/namespaces/{self.namespace}/localqueues"
        return {name_of(queue): queue for queue in self._readable(path, "localqueues")[0]}

    @cached_property
    def _rules(self) -> Object | None:
        """The ConfigMap with the rule table; see `findings.Case`."""
        return self._get(RULES)

    @cached_property
    def _table(self) -> Table:
        return table_of(self._rules)[0]

    def _resources(self, kind: str) -> Iterator[tuple[str, str]]:
        """API version and name of the resources of jobs in the rule table that are served, or of one kind."""
        kinds = dict.fromkeys(kind for row in self._table.workloads for kind in row.kinds)
        for version, _, wanted in (found.rpartition("/") for found in kinds):
            if version in self._served and kind in ("", wanted.lower()):
                for found in maps((self.api.get(f"/apis/{version}") or {}).get("resources")):
                    if found.get("kind") == wanted and "/" not in text(found.get("name")):
                        yield version, text(found.get("name"))

    def _job(self, called: JobName) -> Object | None:
        """The object of a job; None where there is none, or its kind is not named and may not be read."""
        inside, name = f"namespaces/{self.namespace}", quote(called.name, safe="")
        for version, resource in self._resources(called.kind):
            try:
                with _needs(f"get {resource} in namespace {self.namespace}"):
                    if found := self.api.get(f"/apis/{version}/{inside}/{resource}/{name}"):
                        return found
            except ForbiddenError:
                if called.kind or resource == MPIJOBS:
                    raise
        return None

    @cached_property
    def _served(self) -> frozenset[str]:
        """The versions of API groups that there are, as ``GROUP/VERSION``."""
        groups = maps((self.api.get("/apis") or {}).get("groups"))
        return frozenset(
            text(version.get("groupVersion")) for group in groups for version in maps(group.get("versions"))
        )

    @property
    def _kueue(self) -> str:
        """The path of Kueue's newest version; empty where it is not installed."""
        return next((f"/apis/{version}" for version in KUEUE if version in self._served), "")

    def _get(self, path: str) -> Object | None:
        """An object; {} where it may not be read."""
        try:
            return self.api.get(path)
        except ForbiddenError:
            return {}

    def _unknown(self, called: JobName) -> str:
        """That there is no such job, and which there are."""
        names: set[tuple[str, str]] = set()
        paths = ["/api/v1/pods"]
        for version, resource in self._resources(called.kind):
            paths += [f"/apis/{version}/{part}{resource}" for part in ("", f"namespaces/{self.namespace}/")]
        for path in paths:
            # Best effort: any of these may be refused.
            with suppress(ApiError):
                for found in self._items(path, path.rpartition("/")[2]):
                    name = job_of(found) or (name_of(found) if path != paths[0] else "")
                    names.add((text(metadata(found).get("namespace")), name))
        return unknown(called, self.namespace, {(there, name) for there, name in names if name})

    def _readable(self, path: str, what: str) -> tuple[list[Object], bool]:
        """A collection, and whether it may be read; empty where not."""
        try:
            return list(self._items(path, what)), True
        except ForbiddenError:
            return [], False

    def _items(self, path: str, what: str) -> Iterator[Object]:
        count = 0
        with _needs(f"list {what}"):
            for page in self.api.pages(path):
                items = maps(page.get("items"))
                count += len(items)
                self._tell(f"listing {what}: {count:,}")
                yield from items
        self._tell("")

    def _tell(self, line: str) -> None:
        if self.progress and time.monotonic() - self._began > SLOW_SECONDS:
            click.echo(f"\r\033[K{line}", err=True, nl=False)


@contextmanager
def _needs(what: str) -> Iterator[None]:
    try:
        yield
    except ForbiddenError as error:
        reason = str(error).partition(": 403 ")[2] or str(error)
        raise ForbiddenError(f"cannot {what}: {reason}; it needs the right to {what}: {ROLE}") from error
