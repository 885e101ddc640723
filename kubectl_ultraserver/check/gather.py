"""Reads the objects that the checks need, and runs the checks."""

from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from functools import cached_property
from importlib.metadata import version
from importlib.resources import files
from typing import Final

import yaml

from contract.keys import INJECT, OPT_OUT_VALUES
from contract.placement import Placer
from kube.api import ApiError, ForbiddenError, Object
from kubectl_ultraserver.check import cluster, installed
from kubectl_ultraserver.check.line import FAIL, WARN, DeployedProgram, Line, deployed_program
from kubectl_ultraserver.check.messages import NO_CONFIGMAP, NO_READYZ, line
from kubectl_ultraserver.findings import Case
from kubectl_ultraserver.fleet import Fleet
from kubectl_ultraserver.listing import HOOKS_PATH, LEASE_PATH, RULES_PATH, Lister
from kubectl_ultraserver.names import JobReference
from kubectl_ultraserver.objects import NAME, at, labels, maps_at, name_of, number_at, text_at
from kubectl_ultraserver.service import UnavailableError, service_state
from placement.decide.topology import Topology
from placement.observe.model import COMPONENT

HOME_PATH: Final = f"/api/v1/namespaces/{NAME}"
ADMISSION_PATH: Final = HOOKS_PATH.rpartition("/")[0]
MUTATING: Final = "MutatingWebhookConfiguration"
CREATED_RESOURCES: Final = {
    "": "namespaces serviceaccounts services configmaps secrets",
    "apps": "deployments",
    "autoscaling": "horizontalpodautoscalers",
    "policy": "poddisruptionbudgets",
    "networking.k8s.io": "networkpolicies",
    "rbac.authorization.k8s.io": "roles rolebindings clusterroles clusterrolebindings",
    "admissionregistration.k8s.io": "mutatingwebhookconfigurations validatingwebhookconfigurations "
    "validatingadmissionpolicies validatingadmissionpolicybindings",
}
"""The resources that an installation creates, by API group."""
_TRIAL = files("kubectl_ultraserver.check").joinpath("trial.yaml")
TRIAL_POD, TRIAL_JOB = yaml.safe_load_all(_TRIAL.read_bytes())
"""A pod like those of the webhook, and a plain job that needs one UltraServer."""


class Gatherer(Lister):
    """Reads each part of a cluster when it is needed, and raises `ApiError` if the part cannot be read."""

    def refused_resources(self) -> list[str]:
        """Returns the resources of an installation that this user may not create."""
        common_attributes = {"namespace": NAME, "verb": "create"}
        pairs = ((group, name) for group, names in CREATED_RESOURCES.items() for name in names.split())
        rights = (common_attributes | {"group": group, "resource": name} for group, name in pairs)
        return [item["resource"] for item in rights if not self.is_allowed("SelfSubjectAccessReview", item)]

    def is_allowed(self, kind: str, attributes: Object, **subject: str) -> bool:
        """Returns whether an access review of this kind allows the access."""
        version, spec = "authorization.k8s.io/v1", {"resourceAttributes": attributes, **subject}
        review = {"apiVersion": version, "kind": kind, "spec": spec}
        return at(self.api.create(f"/apis/{version}/{kind.lower()}s", review), "status", "allowed") is True

    def dry_run(self, path: str, document: Object) -> tuple[Object, str]:
        """Returns a dry run's object and "", or {} and the refusal; raises if the user lacks the right."""
        try:
            return self.api.create(f"{path}?dryRun=All", document), ""
        except ApiError as error:
            if "cannot create resource" in str(error):  # the user lacks the right; the object is not refused
                raise
            return {}, str(error).partition("?dryRun=All: ")[2] or str(error)

    @cached_property
    def programs(self) -> list[DeployedProgram]:
        """The programs that the cluster's Deployments run."""
        return [deployed_program(raw) for raw in self.items("/apis/apps/v1/deployments")]

    @cached_property
    def kinds(self) -> set[str]:
        """The served resources of the rule table's kinds of job, as ``GROUP/VERSION/RESOURCE``."""
        return {f"{version}/{resource}" for version, resource in self._resources("")}

    def operator_accounts(self, kinds: Collection[str]) -> dict[str, bool]:
        """Returns, for the account of each operator of these kinds, whether the guard accepts its pods."""
        verbs = {name: verb for kind, (name, verb) in cluster.OPERATORS.items() if kind in kinds}
        right, accounts = {"group": "ultraserver-webhook.io", "resource": "jobidentities"}, dict[str, bool]()
        for operator in (item for item in self.programs if item.name in verbs):
            review = right | {"verb": verbs[operator.name]}
            accounts[operator.account] = self.is_allowed("SubjectAccessReview", review, user=operator.account)
        return accounts

    @cached_property
    def readyz_answers(self) -> installed.ReadyzAnswers:
        """The answer of each serving pod's ``/readyz``, through the API server's proxy."""
        answers: installed.ReadyzAnswers = {}
        pods = self.items(f"{HOME_PATH}/pods")
        for pod in (pod for pod in pods if text_at(pod, "status", "phase") == "Running"):
            containers = maps_at(pod, "spec", "containers")
            ports = [port for container in containers for port in maps_at(container, "ports")]
            for port in (number_at(port, "containerPort") for port in ports if port.get("name") == "https"):
                path = f"{HOME_PATH}/pods/https:{name_of(pod)}:{port}/proxy/readyz"
                try:
                    answers[name_of(pod)] = self.api.get(path) or NO_READYZ
                except ApiError as error:
                    if isinstance(error, ForbiddenError):
                        raise
                    answers[name_of(pod)] = str(error)
        return answers

    @cached_property
    def registrations(self) -> dict[str, Object | None]:
        """The installation's webhook configurations, by kind; None for a missing configuration."""
        kinds = (MUTATING, "ValidatingWebhookConfiguration")
        return {kind: self.api.get(f"{ADMISSION_PATH}/{kind.lower()}s/{NAME}") for kind in kinds}


Check = Callable[[Gatherer], Iterator[Line]]


def _certificates(gatherer: Gatherer) -> Iterator[Line]:
    return installed.certificates(gatherer.readyz_answers, datetime.now(UTC))


def _registrations(gatherer: Gatherer) -> Iterator[Line]:
    try:
        bundle = text_at(gatherer.api.get(f"{HOME_PATH}/secrets/{NAME}-tls"), "data", "ca.crt")
    except ForbiddenError:
        bundle = ""
    return installed.bundles(gatherer.registrations, installed.authorities(bundle) if bundle else None)


def _left_out(gatherer: Gatherer) -> Iterator[Line]:
    namespaces = [*gatherer.items("/api/v1/namespaces")]
    return installed.left_out(gatherer.registrations[MUTATING], gatherer.kinds, namespaces)


def _tables(gatherer: Gatherer) -> Iterator[Line]:
    state, unavailable = dict[str, str](), ""
    try:
        state = service_state(gatherer.api)
    except UnavailableError as error:
        unavailable = str(error)
    problem = text_at(state, "problem") if gatherer.api.get(RULES_PATH) else NO_CONFIGMAP
    yield from installed.previews(state, unavailable, version("ultraserver-webhook"))
    yield from installed.tables(gatherer.readyz_answers, text_at(state, "table"), problem)


def _job(gatherer: Gatherer) -> Iterator[Line]:
    if cluster.MPIJOBS not in gatherer.kinds:
        return iter([line(WARN, "no-mpijobs", kind=cluster.MPIJOBS)])
    scope = f"/namespaces/{gatherer.namespace}"
    stored, refusal = gatherer.dry_run(f"/apis/kubeflow.org/v2beta1{scope}/mpijobs", TRIAL_JOB)
    fleet = Fleet(Topology(()), ())  # empty, because the job of a dry run has no pods
    namespace, rules = gatherer.api.get(f"/api/v1{scope}") or {}, gatherer.api.get(RULES_PATH)
    reference, config = JobReference("mpijob", name_of(TRIAL_JOB)), gatherer.registrations[MUTATING]
    case = Case(reference, gatherer.namespace, stored, (), fleet, namespace, registration=config, rules=rules)
    case = gatherer.with_preview(case, TRIAL_JOB)
    should_change = bool(case.answer.get("patch")) and labels(namespace).get(INJECT) not in OPT_OUT_VALUES
    return installed.job(stored, refusal, case, should_change=should_change)


def _placement(gatherer: Gatherer) -> Iterator[Line]:
    placers, kueue = gatherer.table.placers, bool(gatherer.kueue_api)
    lease, now = gatherer.api.get(LEASE_PATH), datetime.now(UTC)
    yield from installed.placement(lease, now, is_used=Placer.WHOLE_JOB in placers, has_kueue=kueue)
    yield from installed.queues(is_used=Placer.KUEUE in placers, has_kueue=kueue)


def _levels(gatherer: Gatherer) -> Iterator[Line]:
    """Yields whether Kueue's Topologies have the levels that the rule table uses."""
    if not gatherer.kueue_api:
        return iter(())
    topologies = gatherer.items(f"{gatherer.kueue_api}/topologies")
    levels = [level for topology in topologies for level in maps_at(topology, "spec", "levels")]
    return installed.levels(gatherer.table.levels, {text_at(level, "nodeLabel") for level in levels})


def _guard(gatherer: Gatherer) -> Iterator[Line]:
    path = f"{ADMISSION_PATH}/validatingadmissionpolic"
    policies, bindings = [*gatherer.items(f"{path}ies")], [*gatherer.items(f"{path}ybindings")]
    has_program = any(program.deployment == f"{NAME}/{COMPONENT}" for program in gatherer.programs)
    accounts = gatherer.operator_accounts(gatherer.kinds)
    return installed.guard(policies, bindings, accounts, has_program=has_program)


def _pods(gatherer: Gatherer) -> Iterator[Line]:
    deployments = gatherer.items(f"/apis/apps/v1/namespaces/{NAME}/deployments")
    return installed.pods([*deployments], [*gatherer.items(f"{HOME_PATH}/pods")])


def _namespace(gatherer: Gatherer) -> Iterator[Line]:
    obj = gatherer.api.get(HOME_PATH)
    return cluster.namespace(obj, gatherer.dry_run(f"{HOME_PATH}/pods", TRIAL_POD)[1] if obj else "")


CLUSTER_CHECKS: Final[dict[str, Check]] = {
    "kubernetes": lambda gatherer: cluster.kubernetes(text_at(gatherer.api.get("/version"), "gitVersion")),
    "nodes": lambda gatherer: cluster.nodes(gatherer.fleet),
    "operators": lambda gatherer: cluster.operators(
        gatherer.kinds, gatherer.programs, has_kueue=bool(gatherer.kueue_api)
    ),
}
"""The checks that run both before and after an installation."""
CHECKS_BEFORE: Final[dict[str, Check]] = {
    "rights": lambda gatherer: cluster.rights(gatherer.refused_resources()),
    "namespace": _namespace,
    "accounts": lambda gatherer: cluster.accounts(gatherer.operator_accounts([cluster.MPIJOBS])),
}
_CHECKS = (_pods, _certificates, _tables, _registrations, _left_out, _job, _placement, _levels, _guard)
CHECKS_AFTER: Final = {check.__name__.strip("_").replace("_", " "): check for check in _CHECKS}


def run_checks(gatherer: Gatherer, *, pre: bool) -> Iterator[Line]:
    """Yields each result as soon as it is known. ``pre`` selects the checks before an installation."""
    for name, check in (CLUSTER_CHECKS | (CHECKS_BEFORE if pre else CHECKS_AFTER)).items():
        try:
            lines = [*check(gatherer)]
        except (ForbiddenError, UnavailableError) as error:
            lines = [line(WARN, "not-checked", why=error)]
        except ApiError as error:
            lines = [line(FAIL, "not-read", why=error)]
        yield from (replace(result, check=name) for result in lines)
