"""Checks whether a cluster is ready for an installation. Pure: `gather` reads the objects."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final

from kube.api import Object
from kubectl_ultraserver.check.line import FAIL, PASS, WARN, Line, Program, release
from kubectl_ultraserver.fleet import Fleet
from kubectl_ultraserver.messages import join_names
from kubectl_ultraserver.objects import NAME, labels, text_at
from kubectl_ultraserver.servers import servers
from placement.observe.model import Node

NEEDS: Final = "install.md#requirements"
LEAST: Final = (1, 30)
"""The oldest Kubernetes, as in the chart: v1 policies, ``matchConditions``, and ``sleep`` of ``preStop``."""
TESTED: Final = ((1, 34), (1, 37))
"""The first and the last minor version in the tests."""
KUEUE: Final = (0, 15)
"""The oldest Kueue in the tests."""
MPIJOBS: Final = "kubeflow.org/v2beta1/mpijobs"
OPERATORS: Final = {
    MPIJOBS: ("mpi-operator", "write"),
    "kubeflow.org/v1/mpijobs": ("training-operator", "copy"),
    "kubeflow.org/v1/pytorchjobs": ("training-operator", "copy"),
    "jobset.x-k8s.io/v1alpha2/jobsets": ("jobset", "write"),
    "leaderworkerset.x-k8s.io/v1/leaderworkersets": ("lws", "write"),
}
"""By kind, its operator's image, and the verb that the guard requires for the operator's account."""

EXPECTED: Final = frozenset(
    {"system:serviceaccount:mpi-operator:mpi-operator", "system:serviceaccount:kubeflow:mpi-operator"}
)
"""Accounts of mpi-operator that the chart binds, so that the guard accepts their pods."""


def kubernetes(version: str) -> Iterator[Line]:
    """Yields whether this version of Kubernetes is supported and tested."""
    tested = f"{TESTED[0][0]}.{TESTED[0][1]} to {TESTED[1][0]}.{TESTED[1][1]} were tested"
    number = release(version)
    status = FAIL if number < LEAST else PASS if TESTED[0] <= number <= TESTED[1] else WARN
    remedy = "upgrade: 1.29 has no v1 admission policies" if status is FAIL else "try it on a test cluster"
    yield Line(status, f"Kubernetes {version}; {tested}", remedy, NEEDS)


def rights(refused: Sequence[str]) -> Iterator[Line]:
    """Yields whether the user may create the objects of an installation."""
    text_ = f"you may {'not ' if refused else ''}create {', '.join(refused) or 'all that is installed'}"
    yield Line(FAIL if refused else PASS, text_, "install as an administrator of the cluster", NEEDS)


def nodes(fleet: Fleet) -> Iterator[Line]:
    """Yields whether UltraServer nodes have the labels and devices of the device plugin or DRA driver."""
    known = [node for node in fleet.topology.nodes.values() if fleet.is_ultraserver_node(node)]
    units = fleet.table.units.labels
    lost = [node.name for node in known if all(node.unit(key) is None for key in units)]
    bare = [node.name for node in known if not _devices(node, fleet.table.units.devices)]
    if not known:
        types = ", ".join(fleet.table.types)
        yield Line(WARN, "there is no UltraServer node", f"add nodes of {types}; until then jobs wait", NEEDS)
    elif not (lost or bare):
        whole = sum(bool(server.id) for server in servers(fleet))
        yield Line(PASS, f"{len(known)} nodes of {whole} UltraServers")
    for names, lack in (
        (lost, f"have no label of a working UltraServer, such as {units[0]}"),
        (bare, "have no devices"),
    ):
        if names:
            text_ = f"{len(names)} of {len(known)} UltraServer nodes {lack}: {join_names(sorted(names))}"
            remedy = "does the device plugin, or DRA driver, run there, and support UltraServers?"
            yield Line(FAIL if len(names) == len(known) else WARN, text_, remedy, "claims.md")
    yield from _guarantees(fleet)


def _guarantees(fleet: Fleet) -> Iterator[Line]:
    """Yields a warning for each unit label of which guarantees promise more units than the cluster has."""
    rows, units = fleet.table.units.guarantees, fleet.table.units
    for label in dict.fromkeys(row.unit for row in rows):
        counted = sum(row.count for row in rows if row.unit == label)
        sizes = [len(unit.nodes) for unit in fleet.topology.units_by(label).values()]
        whole = sum(size >= units.of(label).usable for size in sizes)
        if counted > whole:
            text_ = f"teams are guaranteed {counted} units of {label}, but the cluster has {whole}"
            yield Line(WARN, text_, "guarantee fewer, or add nodes", "placement.md#guarantees")


def _devices(node: Node, resources: Collection[str]) -> bool:
    return bool(node.devices) or any(map(node.allocatable.get, resources))


def operators(kinds: Collection[str], programs: Sequence[Program], *, kueue: bool) -> Iterator[Line]:
    """Yields whether the operator of each served kind of job runs, and Kueue if it is installed."""
    if MPIJOBS not in kinds:
        yield Line(WARN, f"the API server has no {MPIJOBS}", "install mpi-operator to run such jobs", NEEDS)
    for kind, (name, _) in OPERATORS.items():
        if kind in kinds:
            yield from _runs(name, f"pods of {kind}", programs, "kinds.md")
    if kueue:
        yield from _runs("kueue", "admission of queued jobs", programs, "kueue.md#set-it-up")
    for each in programs:
        if each.name == "kueue" and release(each.version) < KUEUE:
            text_ = f"Kueue {each.version or 'without a tag'} was not tested, 0.15 was"
            yield Line(WARN, text_, "upgrade it", "kueue.md#set-it-up")


def _runs(name: str, what: str, programs: Sequence[Program], link: str) -> Iterator[Line]:
    """Yields whether an image with this name runs in a Deployment."""
    running = sorted((each for each in programs if each.name == name), key=lambda each: -each.ready)
    if not running:
        remedy = "install it, unless it runs under another name or outside the cluster"
        yield Line(WARN, f"no Deployment has an image {name}: no {what}", remedy, link)
    for each in running[:1]:
        text_ = f"{name} {each.version} is {each.where}, with {each.ready} of {each.wanted} pods ready"
        remedy = f"kubectl -n {each.where.partition('/')[0]} describe pods; until then no {what}"
        yield Line(PASS if each.ready else FAIL, text_, remedy, link)


def accounts(known: Mapping[str, bool]) -> Iterator[Line]:
    """Yields a line for each account of mpi-operator: whether the guard will accept its pods."""
    for account, bound in sorted(known.items()):
        accepted = bound or account in EXPECTED
        text_ = f"the guard will {'accept' if accepted else 'refuse'} the pods of {account}"
        remedy = f"before you install, bind it to the ClusterRole {NAME}-operator"
        yield Line(PASS if accepted else FAIL, text_, remedy, "install.md#bind-another-operator")


def namespace(namespace_object: Object | None, refused: str) -> Iterator[Line]:
    """Yields whether the installation's namespace, if it exists already, accepts a pod like the webhook's."""
    if namespace_object is None:
        yield Line(PASS, f"namespace {NAME} is created by the installation")
        return
    ending = text_at(namespace_object, "status", "phase") == "Terminating"
    does = f"refuses a pod like the webhook's: {refused}" if refused else "accepts pods like the webhook's"
    level = labels(namespace_object).get("pod-security.kubernetes.io/enforce", "as the cluster has it")
    text_ = f"namespace {NAME}, PodSecurity {level}, {'is being deleted' if ending else does}"
    remedy = "wait until it is deleted" if ending else "change the quota, limit or policy"
    yield Line(FAIL if ending or refused else PASS, text_, remedy, NEEDS)
