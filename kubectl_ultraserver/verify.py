"""Checks whether a job is placed whole: "Confirm your work" of the AWS document, with a verdict."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from contract.keys import HOSTNAME
from contract.place import Place
from kubectl_ultraserver import messages
from kubectl_ultraserver.findings import Case
from kubectl_ultraserver.fleet import MODE, node_number
from placement.decide.topology import Unit
from placement.messages import units
from placement.observe.model import Pod

TOKENS: Final = {4: {"4", "1"}, 2: {"2", "3"}, 1: {"1", "4"}}
"""Words of the mode label for a node config: the config itself, or the driver's enum
(1 = X4, 2 = X2H, 3 = X2V, 4 = X1). ``1_2_4`` in the document can be read as both, so a node lacks a config
only if it does in both readings."""


@dataclass(frozen=True, slots=True)
class Row:
    """A worker. Rows have the order of the ranks that the init script gives: by server, node and number.

    Attributes:
        rank: Its ``NEURON_GLOBAL_TOPOID``; None while it has no node or no placement annotation.
        worker: The pod.
        node: Its node; empty while it has none.
        labels: The node's labels of units, the smallest first, and of modes.
        claims: The templates of its device claims, or these.
    """

    rank: int | None
    worker: str
    node: str
    labels: dict[str, str]
    claims: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Fault:
    """Something that keeps a job from being placed whole.

    Attributes:
        kind: One of `messages.VERDICTS`.
        text: A sentence with names.
        name: The name of the job, pod, UltraServer or node.
    """

    kind: str
    text: str
    name: str


@dataclass(frozen=True)
class Verification:
    """The result of a verification.

    Attributes:
        title: The job.
        text: The verdict in a sentence.
        problems: What keeps the job from being placed whole.
        rows: Its workers.
        unseen: What could not be read.
    """

    title: str
    text: str
    problems: tuple[Fault, ...]
    rows: tuple[Row, ...]
    unseen: str = ""

    @property
    def whole(self) -> bool:
        """Whether the job is placed as its node config needs."""
        return not self.problems

    @property
    def known(self) -> bool:
        """Whether the verdict is certain."""
        return all(problem.kind != "place" for problem in self.problems)


def verify(case: Case) -> Verification:
    """Returns whether a job is placed whole, with its workers and problems."""
    problems = (*unknown(case), *waiting(case), *misplaced(case))
    place = case.place
    if place is None:
        text = messages.UNKNOWN
    elif problems:
        text = messages.not_whole(dict.fromkeys(problem.kind for problem in problems))
    else:
        count = len({_unit(case, worker, place) for worker in case.workers})
        parts = case.fleet.table.units.of(place.unit).divides
        what = units(count, place.size, parts=parts).replace("free ", "").replace("whole ", "")
        text = messages.whole(len(case.workers), what, place.size)
    return Verification(case.title, text, problems, tuple(rows(case)), case.fleet.unseen)


def rows(case: Case) -> Iterator[Row]:
    """Yields the workers in the order of their ranks, those without a node last."""

    def order(worker: Pod) -> tuple[bool, str, int, int]:
        node = case.node(worker)
        if worker.place is None or worker.place.size == 1 or node is None:
            return not worker.node, "", 0, worker.number  # single nodes keep the order of the hostfile
        number, server = node_number(node, worker.place.unit), node.labels.get(worker.place.unit, "")
        return False, server, int(number) if number.isdecimal() else -1, worker.number

    for workers in case.jobs.values():
        for rank, worker in enumerate(sorted(workers, key=order)):
            ranked = rank if worker.node and worker.place else None
            node = case.node(worker)
            labels = {key: node.labels.get(key, "") if node else "" for key in case.fleet.shown}
            yield Row(ranked, worker.name, worker.node, labels, tuple(case.fleet.claimed_configs(worker)))


def unknown(case: Case) -> Iterator[Fault]:
    """Yields problems of workers without a placement annotation, which the webhook did not change."""
    lacking = [worker.name for worker in case.workers if worker.place is None and not case.problem(worker)]
    if case.place is None or lacking:
        text = messages.unmarked(lacking if case.place else ())
        yield Fault("place", text, lacking[0] if lacking else case.called.name)
    for worker in case.workers:
        if problem := case.problem(worker):
            kind = "claim" if worker.place else "place"
            yield Fault(kind, messages.of_pods([worker.name], problem), worker.name)


def waiting(case: Case) -> Iterator[Fault]:
    """Yields problems of workers without a node, and of those that do not exist."""
    lacking = [worker.name for worker in case.workers if not worker.node]
    if lacking:
        yield Fault("waiting", messages.without_node(lacking, case.wanted), lacking[0])
    if len(case.workers) < case.wanted or not case.wanted:
        text = messages.exist(len(case.workers), case.wanted) if case.wanted else messages.NO_WORKERS
        yield Fault("waiting", text, case.called.name)


def misplaced(case: Case) -> Iterator[Fault]:
    """Yields problems of the nodes that workers have."""
    for workers in case.jobs.values():
        place = next((worker.place for worker in workers if worker.place), None)
        for worker in workers:
            if worker.node:
                yield from _bad_node(case, worker, place)
                yield from _bad_claim(case, worker, place)
        if place:
            yield from _straddles(case, workers, place)


def _straddles(case: Case, workers: Sequence[Pod], place: Place) -> Iterator[Fault]:
    homes: defaultdict[str, list[Pod]] = defaultdict(list)
    for worker in workers:
        if home := _unit(case, worker, place):
            homes[home].append(worker)
    for node, count in Counter(worker.node for worker in workers if worker.node).items():
        if count > 1 and place.size > 1:
            yield Fault("straddles", messages.crowded_node(node, count), node)
    # A job that still waits may have incomplete blocks, but not more blocks than it needs.
    complete = sum(map(len, homes.values())) == place.workers
    spread = place.size > 1 and (complete or len(homes) > -(-place.workers // place.size))
    for home, there in sorted(homes.items()):
        if spread and len(there) != place.size:
            names = [worker.name for worker in there]
            yield Fault("straddles", messages.partial_block(home, names, place.size), home)
        unit = case.fleet.topology.unit(place.unit, home)
        if unit and not case.fleet.table.units.of(place.unit).shared:
            yield from _shared(case, workers, unit, place.size)


def _unit(case: Case, worker: Pod, place: Place) -> str | None:
    node = case.node(worker)
    return node.unit(place.unit) if node else None


def _bad_node(case: Case, worker: Pod, place: Place | None) -> Iterator[Fault]:
    node, where = case.node(worker), partial(messages.on_node, worker.name, worker.node)
    if node is None:
        yield Fault("node", where(messages.NODE_GONE), worker.node)
        return
    if not node.ready:  # on a cordoned node its pods still run
        yield Fault("node", where(messages.NODE_NOT_READY), node.name)
    if place is None:
        return
    if place.unit != HOSTNAME and node.unit(place.unit) is None:
        server, number = node.labels.get(place.unit), node_number(node, place.unit)
        yield Fault("node", where(messages.no_unit(place.unit, server, number)), node.name)
    mode = node.labels.get(MODE)
    if mode and place.size in TOKENS and not TOKENS[place.size] & set(mode.split("_")):
        yield Fault("node", where(messages.other_mode(mode, place.size)), node.name)


def _bad_claim(case: Case, worker: Pod, place: Place | None) -> Iterator[Fault]:
    for name, mode in case.fleet.claimed_configs(worker).items():
        if place and mode not in (0, place.size):
            yield Fault("claim", messages.other_claim(worker.name, name, mode, place.size), worker.name)


def _shared(case: Case, workers: Sequence[Pod], unit: Unit, size: int) -> Iterator[Fault]:
    """Yields problems of other jobs in a unit; jobs that need a part of a node may share one."""
    own, uids = {worker.key for worker in workers}, {worker.uid for worker in workers}
    others: dict[str, tuple[str, str]] = {}
    for node in unit.nodes:
        for holder, pods in case.fleet.holders.get(node.name, {}).items():
            whole = size > 1 or any(one.pod.loose or (one.place and one.place.size > 1) for one in pods)
            if whole and not any(one.pod.uid in uids or one.key in own for one in pods):
                others.setdefault(holder, (pods[0].pod.name if pods else "devices", node.name))
    for holder, where in others.items():
        yield Fault("shares", messages.shared(unit.id, holder, *where), unit.id)
