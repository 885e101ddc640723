"""Checks whether a cluster is ready for an installation. Pure: `gather` reads the objects."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final

from common.texts import join_names
from kube.api import Object
from kubectl_ultraserver.check.line import FAIL, PASS, WARN, DeployedProgram, Line, release
from kubectl_ultraserver.check.messages import CLUSTER_LEVEL, NO_TAG, line
from kubectl_ultraserver.fleet import Fleet
from kubectl_ultraserver.objects import labels, text_at
from kubectl_ultraserver.servers import servers

OLDEST: Final = (1, 30)
"""The oldest supported Kubernetes, with v1 admission policies, ``matchConditions``, ``preStop.sleep``."""
TESTED: Final = ((1, 34), (1, 37))
"""The oldest and the newest Kubernetes in the tests."""
OLDEST_KUEUE: Final = (0, 15)
"""The oldest Kueue in the tests."""
MPIJOBS: Final = "kubeflow.org/v2beta1/mpijobs"
OPERATORS: Final = {
    MPIJOBS: ("mpi-operator", "write"),
    "kubeflow.org/v1/mpijobs": ("training-operator", "copy"),
    "kubeflow.org/v1/pytorchjobs": ("training-operator", "copy"),
    "jobset.x-k8s.io/v1alpha2/jobsets": ("jobset", "write"),
    "leaderworkerset.x-k8s.io/v1/leaderworkersets": ("lws", "write"),
}
"""For each kind of job, its operator's image name, and the verb on jobidentities that the operator needs."""

BOUND_ACCOUNTS: Final = frozenset(
    {"system:serviceaccount:mpi-operator:mpi-operator", "system:serviceaccount:kubeflow:mpi-operator"}
)
"""The accounts of mpi-operator that the chart binds to a role, so that the guard accepts their pods."""


def kubernetes(version: str) -> Iterator[Line]:
    """Yields whether a version of Kubernetes is supported and tested."""
    number = release(version)
    status = FAIL if number < OLDEST else PASS if TESTED[0] <= number <= TESTED[1] else WARN
    code = "old-kubernetes" if status is FAIL else "kubernetes"
    oldest, newest = (f"{major}.{minor}" for major, minor in TESTED)
    yield line(status, code, version=version, oldest=oldest, newest=newest)


def rights(refused_resources: Sequence[str]) -> Iterator[Line]:
    """Yields whether the user may create the objects of an installation."""
    yield line(FAIL if refused_resources else PASS, "rights", resources=", ".join(refused_resources))


def nodes(fleet: Fleet) -> Iterator[Line]:
    """Yields whether UltraServer nodes have unit labels and devices, and whether guarantees can be met."""
    server_nodes = [node for node in fleet.topology.nodes.values() if fleet.is_ultraserver_node(node)]
    units, count = fleet.table.units, len(server_nodes)
    unlabelled = [node.name for node in server_nodes if all(node.unit(key) is None for key in units.labels)]
    without_devices = [
        node.name
        for node in server_nodes
        if not (node.devices or any(map(node.allocatable.get, units.devices)))
    ]
    if not server_nodes:
        yield line(WARN, "no-ultraservers", types=", ".join(fleet.table.types))
    elif not (unlabelled or without_devices):
        yield line(PASS, "nodes", all=count, units=sum(bool(server.id) for server in servers(fleet)))
    for code, names in (("nodes-without-unit", unlabelled), ("nodes-without-devices", without_devices)):
        if names:
            status, label = FAIL if len(names) == count else WARN, units.labels[0]
            yield line(status, code, some=len(names), all=count, label=label, names=join_names(sorted(names)))
    yield from _guarantees(fleet)


def _guarantees(fleet: Fleet) -> Iterator[Line]:
    """Yields a warning for each unit label for which guarantees promise more units than the cluster has."""
    guarantees, units = fleet.table.units.guarantees, fleet.table.units
    for label in dict.fromkeys(row.unit for row in guarantees):
        promised = sum(row.count for row in guarantees if row.unit == label)
        sizes = [len(unit.nodes) for unit in fleet.topology.units_of_label(label).values()]
        existing = sum(size >= units.kind_of_label(label).max_nodes for size in sizes)
        if promised > existing:
            yield line(WARN, "guarantees", promised=promised, label=label, existing=existing)


def operators(
    kinds: Collection[str], programs: Sequence[DeployedProgram], *, has_kueue: bool
) -> Iterator[Line]:
    """Yields whether each served kind's operator runs and, if Kueue's API is served, whether Kueue runs."""
    if MPIJOBS not in kinds:
        yield line(WARN, "no-mpijobs", kind=MPIJOBS)
    for kind, (name, _) in OPERATORS.items():
        if kind in kinds:
            yield _program_line("operator", programs, name, kind)
    if has_kueue:
        yield _program_line("kueue", programs, "kueue")
    for program in programs:
        if program.name == "kueue" and release(program.version) < OLDEST_KUEUE:
            yield line(WARN, "old-kueue", version=program.version or NO_TAG)


def _program_line(code: str, programs: Sequence[DeployedProgram], name: str, kind: str = "") -> Line:
    """Returns whether a Deployment runs the image ``name``. If not, the line's code ends with -not-found."""
    matches = [program for program in programs if program.name == name]
    if not matches:
        return line(WARN, f"{code}-not-found", name=name, kind=kind)
    program = max(matches, key=lambda program: program.ready)
    namespace, status = program.deployment.partition("/")[0], PASS if program.ready else FAIL
    return line(status, code, **program._asdict(), namespace=namespace, kind=kind)


def accounts(is_bound_by_account: Mapping[str, bool]) -> Iterator[Line]:
    """Yields a line for each account of mpi-operator: whether the guard will accept its pods."""
    for account, is_bound in sorted(is_bound_by_account.items()):
        yield line(PASS if is_bound or account in BOUND_ACCOUNTS else FAIL, "account", account=account)


def namespace(obj: Object | None, refusal: str) -> Iterator[Line]:
    """Yields whether the installation's namespace, if it exists already, accepts a pod like the webhook's."""
    level = labels(obj or {}).get("pod-security.kubernetes.io/enforce") or CLUSTER_LEVEL
    if obj is None:
        yield line(PASS, "no-namespace")
    elif text_at(obj, "status", "phase") == "Terminating":
        yield line(FAIL, "namespace-terminating", level=level)
    else:
        yield line(FAIL if refusal else PASS, "namespace", level=level, why=refusal)
