"""Checks whether a cluster is ready for an installation. Pure: `gather` reads the objects."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final

from kube.api import Object
from kubectl_ultraserver.check.line import FAIL, PASS, WARN, DeployedProgram, Line, release
from kubectl_ultraserver.fleet import Fleet
from kubectl_ultraserver.messages import join_names
from kubectl_ultraserver.objects import NAME, labels, text_at
from kubectl_ultraserver.servers import servers
from placement.observe.model import Node

REQUIREMENTS: Final = "install.md#requirements"
OLDEST: Final = (1, 30)
"""The oldest supported Kubernetes: the chart needs v1 policies, ``matchConditions``, ``preStop.sleep``."""
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
"""For each kind of job, its operator's image, and the verb that the guard requires of that account."""

BOUND_ACCOUNTS: Final = frozenset(
    {"system:serviceaccount:mpi-operator:mpi-operator", "system:serviceaccount:kubeflow:mpi-operator"}
)
"""The accounts of mpi-operator that the chart binds, so that the guard accepts the operator's pods."""


def kubernetes(version: str) -> Iterator[Line]:
    """Yields whether a version of Kubernetes is supported and tested."""
    tested = f"{TESTED[0][0]}.{TESTED[0][1]} to {TESTED[1][0]}.{TESTED[1][1]} were tested"
    number = release(version)
    status = FAIL if number < OLDEST else PASS if TESTED[0] <= number <= TESTED[1] else WARN
    remedy = (
        "upgrade: 1.29 has no v1 admission policies"
        if status is FAIL
        else "try the webhook on a test cluster first"
    )
    yield Line(status, f"Kubernetes {version}; {tested}", remedy, REQUIREMENTS)


def rights(refused: Sequence[str]) -> Iterator[Line]:
    """Yields whether the user may create the objects of an installation."""
    text = f"you may {'not ' if refused else ''}create {', '.join(refused) or 'all that is installed'}"
    yield Line(FAIL if refused else PASS, text, "install as an administrator of the cluster", REQUIREMENTS)


def nodes(fleet: Fleet) -> Iterator[Line]:
    """Yields whether UltraServer nodes have the labels and devices of the device plugin or DRA driver."""
    members = [node for node in fleet.topology.nodes.values() if fleet.is_ultraserver_node(node)]
    units = fleet.table.units.labels
    unlabelled = [node.name for node in members if all(node.unit(key) is None for key in units)]
    without_devices = [node.name for node in members if not _devices(node, fleet.table.units.devices)]
    if not members:
        types = ", ".join(fleet.table.types)
        yield Line(
            WARN, "there is no UltraServer node", f"add nodes of {types}; until then jobs wait", REQUIREMENTS
        )
    elif not (unlabelled or without_devices):
        unit_count = sum(bool(server.id) for server in servers(fleet))
        yield Line(PASS, f"{len(members)} nodes of {unit_count} UltraServers")
    for names, problem in (
        (unlabelled, f"have no label of a working UltraServer, such as {units[0]}"),
        (without_devices, "have no devices"),
    ):
        if names:
            text = f"{len(names)} of {len(members)} UltraServer nodes {problem}: {join_names(sorted(names))}"
            remedy = (
                "check that a device plugin or DRA driver with support for UltraServers runs on these nodes"
            )
            yield Line(FAIL if len(names) == len(members) else WARN, text, remedy, "claims.md")
    yield from _guarantees(fleet)


def _guarantees(fleet: Fleet) -> Iterator[Line]:
    """Yields a warning for each unit label of which guarantees promise more units than the cluster has."""
    guarantees, units = fleet.table.units.guarantees, fleet.table.units
    for label in dict.fromkeys(row.unit for row in guarantees):
        promised = sum(row.count for row in guarantees if row.unit == label)
        sizes = [len(unit.nodes) for unit in fleet.topology.units_by(label).values()]
        existing = sum(size >= units.of(label).max_nodes for size in sizes)
        if promised > existing:
            text = f"teams are guaranteed {promised} units of {label}, but the cluster has {existing}"
            yield Line(WARN, text, "guarantee fewer units, or add nodes", "placement.md#guarantees")


def _devices(node: Node, resources: Collection[str]) -> bool:
    return bool(node.devices) or any(map(node.allocatable.get, resources))


def operators(kinds: Collection[str], programs: Sequence[DeployedProgram], *, kueue: bool) -> Iterator[Line]:
    """Yields whether the operator of each served kind of job runs, and Kueue, if it is installed."""
    if MPIJOBS not in kinds:
        yield Line(
            WARN, f"the API server has no {MPIJOBS}", "install mpi-operator to run such jobs", REQUIREMENTS
        )
    for kind, (name, _) in OPERATORS.items():
        if kind in kinds:
            yield from _runs(name, f"pods of {kind}", programs, "kinds.md")
    if kueue:
        yield from _runs("kueue", "admission of queued jobs", programs, "kueue.md#set-it-up")
    for program in programs:
        if program.name == "kueue" and release(program.version) < OLDEST_KUEUE:
            text = f"Kueue {program.version or 'without a tag'} was not tested, 0.15 was"
            yield Line(WARN, text, "upgrade it", "kueue.md#set-it-up")


def _runs(name: str, effect: str, programs: Sequence[DeployedProgram], link: str) -> Iterator[Line]:
    """Yields whether a Deployment runs an image with this name."""
    matches = sorted((item for item in programs if item.name == name), key=lambda item: -item.ready)
    if not matches:
        remedy = "install it, except if it runs with another image or outside the cluster"
        yield Line(WARN, f"no Deployment has an image {name}: no {effect}", remedy, link)
    for item in matches[:1]:
        text = f"{name} {item.version} is {item.where}, with {item.ready} of {item.wanted} pods ready"
        remedy = f"kubectl -n {item.where.partition('/')[0]} describe pods; until then no {effect}"
        yield Line(PASS if item.ready else FAIL, text, remedy, link)


def accounts(bound_accounts: Mapping[str, bool]) -> Iterator[Line]:
    """Yields a line for each account of mpi-operator: whether the guard will accept its pods."""
    for account, is_bound in sorted(bound_accounts.items()):
        is_accepted = is_bound or account in BOUND_ACCOUNTS
        text = f"the guard will {'accept' if is_accepted else 'refuse'} the pods of {account}"
        remedy = f"before you install, bind it to the ClusterRole {NAME}-operator"
        yield Line(PASS if is_accepted else FAIL, text, remedy, "install.md#bind-another-operator")


def namespace(obj: Object | None, refusal: str) -> Iterator[Line]:
    """Yields whether the installation's namespace, if it exists already, accepts a pod like the webhook's."""
    if obj is None:
        yield Line(PASS, f"namespace {NAME} is created by the installation")
        return
    is_ending = text_at(obj, "status", "phase") == "Terminating"
    state = f"refuses a pod like the webhook's: {refusal}" if refusal else "accepts pods like the webhook's"
    level = labels(obj).get("pod-security.kubernetes.io/enforce", "as the cluster has it")
    text = f"namespace {NAME}, PodSecurity {level}, {'is being deleted' if is_ending else state}"
    remedy = "wait until it is deleted" if is_ending else "change the quota, limit or policy"
    yield Line(FAIL if is_ending or refusal else PASS, text, remedy, REQUIREMENTS)
