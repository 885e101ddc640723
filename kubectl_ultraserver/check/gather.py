"""Reads what the checks judge, and has them judge it."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from functools import cached_property
from importlib.metadata import version
from importlib.resources import files
from typing import Final

import yaml

from contract.keys import INJECT, OFF
from contract.place import Placer
from kube.api import ApiError, ForbiddenError, Object
from kubectl_ultraserver.check import cluster, installed
from kubectl_ultraserver.check.line import FAIL, PASS, WARN, Line, Program, program
from kubectl_ultraserver.findings import Case
from kubectl_ultraserver.listing import HOOKS, LEASE, RULES, Lister
from kubectl_ultraserver.names import JobName
from kubectl_ultraserver.objects import NAME, at, labels, maps, name_of, number, text
from kubectl_ultraserver.seen import Fleet
from kubectl_ultraserver.service import OffError, ready
from placement.decide.topology import Topology
from placement.observe.model import COMPONENT

HOME: Final = f"/api/v1/namespaces/{NAME}"
ADMISSION: Final = HOOKS.rpartition("/")[0]
MUTATING: Final = "MutatingWebhookConfiguration"
CREATED: Final = {
    "": "namespaces serviceaccounts services configmaps secrets",
    "apps": "deployments",
    "autoscaling": "horizontalpodautoscalers",
    "policy": "poddisruptionbudgets",
    "networking.k8s.io": "networkpolicies",
    "rbac.authorization.k8s.io": "roles rolebindings clusterroles clusterrolebindings",
    "admissionregistration.k8s.io": "mutatingwebhookconfigurations validatingwebhookconfigurations "
    "validatingadmissionpolicies validatingadmissionpolicybindings",
}
"""By API group, what an installation consists of."""
POD, JOB = yaml.safe_load_all(files("kubectl_ultraserver.check").joinpath("trial.yaml").read_bytes())
"""A pod like the webhook's own, and a plain job of one UltraServer."""


class Gatherer(Lister):
    """Reads a cluster, each part when it is needed, and raises `ApiError` where it cannot or may not."""

    def refused(self) -> list[str]:
        """What of an installation this user may not create."""
        own = {"namespace": NAME, "verb": "create"}
        asked = (own | {"group": key, "resource": one} for key in CREATED for one in CREATED[key].split())
        return [one["resource"] for one in asked if not self.allowed("SelfSubjectAccessReview", one)]

    def allowed(self, kind: str, asked: Object, **who: str) -> bool:
        """What an access review of this kind says."""
        version, spec = "authorization.k8s.io/v1", {"resourceAttributes": asked, **who}
        review = {"apiVersion": version, "kind": kind, "spec": spec}
        return at(self.api.create(f"/apis/{version}/{kind.lower()}s", review), "status", "allowed") is True

    def tried(self, path: str, document: Object) -> tuple[Object, str]:
        """What would be stored of a new object, or why it would be refused."""
        try:
            return self.api.create(f"{path}?dryRun=All", document), ""
        except ApiError as error:
            if "cannot create resource" in str(error):  # RBAC refuses the user, and not what was sent
                raise
            return {}, str(error).partition("?dryRun=All: ")[2] or str(error)

    @cached_property
    def programs(self) -> list[Program]:
        """The Deployments of the cluster."""
        return [program(raw) for raw in self.items("/apis/apps/v1/deployments")]

    @cached_property
    def kinds(self) -> set[str]:
        """The kinds of job in the rule table that there are, as ``GROUP/VERSION/RESOURCE``."""
        return {f"{version}/{resource}" for version, resource in self._resources("")}

    @cached_property
    def replicas(self) -> installed.Replicas:
        """By serving pod what its ``/readyz`` says to the API server, which passes the question on."""
        found: installed.Replicas = {}
        for pod in (pod for pod in self.items(f"{HOME}/pods") if text(pod, "status", "phase") == "Running"):
            ports = [port for each in maps(pod, "spec", "containers") for port in maps(each, "ports")]
            for port in (number(port, "containerPort") for port in ports if port.get("name") == "https"):
                path = f"{HOME}/pods/https:{name_of(pod)}:{port}/proxy/readyz"
                try:
                    found[name_of(pod)] = self.api.get(path) or "it has no /readyz"
                except ApiError as error:
                    if isinstance(error, ForbiddenError):
                        raise
                    found[name_of(pod)] = str(error)
        return found

    @cached_property
    def registrations(self) -> dict[str, Object | None]:
        """The installation's webhook configurations, by kind."""
        kinds = (MUTATING, "ValidatingWebhookConfiguration")
        return {kind: self.api.get(f"{ADMISSION}/{kind.lower()}s/{NAME}") for kind in kinds}


Check = Callable[[Gatherer], Iterator[Line]]


def _certificates(seen: Gatherer) -> Iterator[Line]:
    return installed.certificates(seen.replicas, datetime.now(UTC))


def _registrations(seen: Gatherer) -> Iterator[Line]:
    try:
        bundle = text(seen.api.get(f"{HOME}/secrets/{NAME}-tls"), "data", "ca.crt")
    except ForbiddenError:
        bundle = ""
    return installed.bundles(seen.registrations, installed.authorities(bundle) if bundle else None)


def _left_out(seen: Gatherer) -> Iterator[Line]:
    return installed.left_out(seen.registrations[MUTATING], seen.kinds, [*seen.items("/api/v1/namespaces")])


def _tables(seen: Gatherer) -> Iterator[Line]:
    says, off = dict[str, str](), ""
    try:
        says = ready(seen.api)
    except OffError as error:
        off = str(error)
    problem = text(says, "problem") if seen.api.get(RULES) else "it does not exist"
    yield from installed.previews(says, off, version("ultraserver-webhook"))
    yield from installed.tables(seen.replicas, text(says, "table"), problem)


def _job(seen: Gatherer) -> Iterator[Line]:
    if cluster.MPIJOBS not in seen.kinds:
        return iter([Line(WARN, "the API server has no MPIJobs", "install mpi-operator", cluster.NEEDS)])
    there = f"/namespaces/{seen.namespace}"
    came, refused = seen.tried(f"/apis/kubeflow.org/v2beta1{there}/mpijobs", JOB)
    nothing = Fleet(Topology(()), ())  # a job on trial has no pods that could be on nodes
    space, rules = seen.api.get(f"/api/v1{there}") or {}, seen.api.get(RULES)
    called, sent = JobName("mpijob", name_of(JOB)), seen.registrations[MUTATING]
    case = Case(called, seen.namespace, came, (), nothing, space, registration=sent, rules=rules)
    case = seen.answered(case, JOB)
    wanted = bool(case.answer.get("patch")) and labels(space).get(INJECT) not in OFF
    return installed.job(came, refused, case, wanted=wanted)


def _placement(seen: Gatherer) -> Iterator[Line]:
    placers, kueue = seen.table.placers, bool(seen.kueue)
    lease, now = seen.api.get(LEASE), datetime.now(UTC)
    yield from installed.placement(lease, now, gates=Placer.GATE in placers, kueue=kueue)
    yield from installed.queues(counts=Placer.KUEUE in placers, kueue=kueue)


def _levels(seen: Gatherer) -> Iterator[Line]:
    """What Kueue is asked for in each shape, and what its Topologies have."""
    if not seen.kueue:
        return iter(())
    topologies = seen.items(f"{seen.kueue}/topologies")
    has = {text(level, "nodeLabel") for each in topologies for level in maps(each, "spec", "levels")}
    return installed.levels(seen.table.levels, has)


def _guard(seen: Gatherer) -> Iterator[Line]:
    path = f"{ADMISSION}/validatingadmissionpolic"
    policies, bound = [*seen.items(f"{path}ies")], [*seen.items(f"{path}ybindings")]
    verbs = {name: verb for kind, (name, verb) in cluster.OPERATORS.items() if kind in seen.kinds}
    asked, known = {"group": "ultraserver-webhook.io", "resource": "jobidentities"}, dict[str, bool]()
    for who, verb in ((each.account, verbs[each.name]) for each in seen.programs if each.name in verbs):
        known[who] = seen.allowed("SubjectAccessReview", asked | {"verb": verb}, user=who)
    placement = any(each.where == f"{NAME}/{COMPONENT}" for each in seen.programs)
    return installed.guard(policies, bound, known, placement=placement)


def _pods(seen: Gatherer) -> Iterator[Line]:
    own = seen.items(f"/apis/apps/v1/namespaces/{NAME}/deployments")
    return installed.pods([*own], [*seen.items(f"{HOME}/pods")])


def _namespace(seen: Gatherer) -> Iterator[Line]:
    found = seen.api.get(HOME)
    return cluster.namespace(found, seen.tried(f"{HOME}/pods", POD)[1] if found else "")


CLUSTER: Final[dict[str, Check]] = {
    "kubernetes": lambda seen: cluster.kubernetes(text(seen.api.get("/version"), "gitVersion")),
    "nodes": lambda seen: cluster.nodes(seen.fleet()),
    "operators": lambda seen: cluster.operators(seen.kinds, seen.programs, kueue=bool(seen.kueue)),
}
"""What is looked at before and after an installation."""
BEFORE: Final[dict[str, Check]] = {
    "rights": lambda seen: cluster.rights(seen.refused()),
    "namespace": _namespace,
}
_LOOKS = (_pods, _certificates, _tables, _registrations, _left_out, _job, _placement, _levels, _guard)
AFTER: Final = {judge.__name__.strip("_").replace("_", " "): judge for judge in _LOOKS}


def look(seen: Gatherer, *, pre: bool) -> Iterator[Line]:
    """What the checks say, each as soon as it is known; ``pre`` is whether it is still to be installed."""
    for name, judge in (CLUSTER | (BEFORE if pre else AFTER)).items():
        try:
            found = [*judge(seen)]
        except (ForbiddenError, OffError) as error:
            found = [Line(WARN, f"not looked at: {error}", "check as an administrator", "kubectl.md#check")]
        except ApiError as error:
            found = [Line(FAIL, str(error), "does the API server answer?", "kubectl.md#check")]
        for line in found:
            hint = ("", "") if line.status is PASS else (line.remedy, f"docs/{line.link}")
            yield Line(line.status, line.text, *hint, name)
