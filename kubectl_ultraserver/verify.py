"""Is a job placed whole: the document's "Confirm your work", with a verdict."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from contract.keys import ULTRASERVER
from kubectl_ultraserver.seen import MODE, node_number
from placement.reasons import units

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kubectl_ultraserver.seen import Work, Worker
    from placement.topology import Group

TOKENS: Final = {4: {"4", "1"}, 2: {"2", "3"}, 1: {"1", "4"}}
"""Words of the mode label that stand for a node config: the config itself, or the driver's enum
(1 = X4, 2 = X2H, 3 = X2V, 4 = X1). The document shows ``1_2_4``, which can be read as both, so a node is
said to lack a config only where it does by both."""

NAMED: Final = 4
"""As many pods are named; more are counted."""


@dataclass(frozen=True, slots=True)
class Row:
    """A worker in the order of the ranks that the init script gives: by server, then node, then number.

    Attributes:
        rank: Its ``NEURON_GLOBAL_TOPOID``; None while it has no node.
        worker: The pod.
        node: Its node; empty while it has none.
        server_2: The server id of two nodes.
        node_2: Its number in it.
        server_4: The server id of four nodes.
        node_4: Its number in it.
        mode: The modes that its node supports.
    """

    rank: int | None
    worker: str
    node: str
    server_2: str
    node_2: str
    server_4: str
    node_4: str
    mode: str


@dataclass(frozen=True, slots=True)
class Problem:
    """Something that keeps a job from being placed whole.

    Attributes:
        kind: ``waiting``, ``straddles``, ``shares`` or ``node``.
        text: With names.
        name: Of the pod, UltraServer or node.
    """

    kind: str
    text: str
    name: str


@dataclass(frozen=True)
class Verdict:
    """What verification found.

    Attributes:
        title: The job.
        text: In a sentence.
        problems: None where it is placed whole.
        rows: Its workers.
        unseen: What could not be looked at.
    """

    title: str
    text: str
    problems: tuple[Problem, ...]
    rows: tuple[Row, ...]
    unseen: str = ""

    @property
    def whole(self) -> bool:
        """Whether the job is placed as its node config needs."""
        return not self.problems


def verify(work: Work) -> Verdict:
    """Look at where a job's workers are."""
    problems = (*waiting(work), *misplaced(work))
    if problems:
        kinds = list(dict.fromkeys(problem.kind for problem in problems))
        said = {
            "waiting": "waiting for nodes",
            "straddles": "straddles UltraServers",
            "shares": "shares an UltraServer with another job",
            "node": "is on nodes that cannot work together",
        }
        text = f"not placed whole: {', '.join(said[kind] for kind in kinds)}"
    else:
        count = len({_unit(work, worker) for worker in work.workers})
        what = units(count, work.size).replace("free ", "").replace("whole ", "")
        text = f"placed whole: {len(work.workers)} workers on {what}, as node config {work.size} needs"
    return Verdict(work.title, text, problems, tuple(rows(work)), work.fleet.unseen)


def rows(work: Work) -> Iterator[Row]:
    """The workers in the order of their ranks; those without a node last."""

    def order(worker: Worker) -> tuple[bool, str, int, int]:
        if work.size == 1 or worker.node is None:  # single nodes stay as the hostfile has them
            return not worker.bound, "", 0, worker.index
        number = node_number(worker.node, work.key)
        return False, worker.label(work.key), int(number) if number.isdecimal() else -1, worker.index

    for rank, worker in enumerate(sorted(work.workers, key=order)):
        pair, four = (
            (worker.label(f"{ULTRASERVER}server-id-{size}"), worker.label(f"{ULTRASERVER}node-id-{size}"))
            for size in (2, 4)
        )
        yield Row(rank if worker.bound else None, worker.name, worker.bound, *pair, *four, worker.label(MODE))


def waiting(work: Work) -> Iterator[Problem]:
    """Workers without a node, and those that do not exist."""
    lacking = [worker.name for worker in work.workers if not worker.bound]
    if lacking:
        yield Problem(
            "waiting", f"{len(lacking)} of {work.wanted} workers have no node: {few(lacking)}", lacking[0]
        )
    if len(work.workers) < work.wanted or not work.wanted:
        text = f"{len(work.workers)} of {work.wanted} workers exist" if work.wanted else "it has no workers"
        yield Problem("waiting", text, work.called.name)


def misplaced(work: Work) -> Iterator[Problem]:
    """What is wrong with the nodes that workers have."""
    homes: defaultdict[str, list[Worker]] = defaultdict(list)
    for worker in work.workers:
        if worker.bound:
            yield from _bad_node(work, worker)
            if unit := _unit(work, worker):
                homes[unit].append(worker)
    for node, count in Counter(worker.bound for worker in work.workers if worker.bound).items():
        if count > 1 and work.size > 1:
            yield Problem("straddles", f"node {node} has {count} of its workers, and may have one", node)
    # A job that still waits may have blocks that are not full yet, but no more of them than it needs.
    complete = sum(map(len, homes.values())) == work.wanted
    spread = work.size > 1 and (complete or len(homes) > -(-work.wanted // work.size))
    for unit, there in sorted(homes.items()):
        if spread and len(there) != work.size:
            yield Problem("straddles", _count(work, unit, there), unit)
        group = work.fleet.topology.groups(work.key).get(unit)
        if group:
            yield from _shared(work, unit, group)


def few(names: list[str]) -> str:
    """Some names, and how many more there are."""
    more = len(names) - NAMED
    return ", ".join(names[:NAMED]) + (f" and {more} more" if more > 0 else "")


def _unit(work: Work, worker: Worker) -> str | None:
    return worker.node.unit(work.key) if worker.node else None


def _count(work: Work, unit: str, there: list[Worker]) -> str:
    names = few([worker.name for worker in there])
    return f"{unit} has {len(there)} of its workers, and node config {work.size} needs {work.size}: {names}"


def _bad_node(work: Work, worker: Worker) -> Iterator[Problem]:
    name, size = worker.bound, work.size
    if worker.node is None:
        yield Problem("node", f"{worker.name} is on node {name}, which does not exist any more", name)
        return
    if not worker.node.ready:  # a cordoned one goes on with what it has
        yield Problem("node", f"{worker.name} is on node {name}, which is not ready", name)
    if size > 1 and _unit(work, worker) is None:
        server, number = worker.label(work.key), node_number(worker.node, work.key)
        said = f"label {work.key} is {server or 'missing'}, node id {number or 'missing'}"
        hint = "" if server else "; labels come from the Neuron device plugin"
        yield Problem(
            "node", f"{worker.name} is on node {name}, which is in no working UltraServer: {said}{hint}", name
        )
    mode = worker.label(MODE)
    if mode and not TOKENS.get(size, set()) & set(mode.split("_")):
        yield Problem(
            "node", f"{worker.name} is on node {name}, whose mode {mode} has no node config {size}", name
        )


def _shared(work: Work, unit: str, group: Group) -> Iterator[Problem]:
    """Other jobs in a unit; a unit of one node may be shared by those that need no more."""
    own = {worker.pod.key for worker in work.workers if worker.pod} | {
        (work.namespace, worker.pod.job) for worker in work.workers if worker.pod
    }
    uids = {worker.pod.uid for worker in work.workers if worker.pod}
    seen: dict[str, str] = {}
    for node in group.nodes:
        holders = work.fleet.cluster.holders.get(node.name, {})
        if work.size == 1 and all(size == 1 for key, size in holders.items() if key not in own):
            continue
        for tenant, pods in work.fleet.tenants.get(node.name, {}).items():
            if not any(pod.uid in uids or pod.key in own for pod in pods):
                seen.setdefault(tenant, f"{pods[0].name} on node {node.name}")
    for tenant, where in seen.items():
        yield Problem("shares", f"{unit} is shared with {tenant} ({where})", unit)
