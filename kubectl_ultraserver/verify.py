"""Checks whether a job is placed whole, as in "Confirm your work" of the AWS document."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from common.texts import join_names
from contract.keys import HOSTNAME
from contract.placement import Placement
from kubectl_ultraserver import messages
from kubectl_ultraserver.findings import Case
from kubectl_ultraserver.fleet import MODE, node_number
from placement.decide.topology import Unit
from placement.messages import units
from placement.observe.model import Pod

MODE_TOKENS: Final = {4: {"4", "1"}, 2: {"2", "3"}, 1: {"1", "4"}}
"""For each node config, the tokens in the mode label that can mean it: the node config itself, and numbers of
the driver's enum (1 = X4, 2 = X2H, 3 = X2V, 4 = X1). The label ``1_2_4`` in the AWS document fits both
meanings. So a node lacks a node config only if its label has none of these tokens."""


@dataclass(frozen=True, slots=True)
class Row:
    """A worker in the output. The rows are in the order of the ranks, which the init script assigns."""

    rank: int | None  # the worker's NEURON_GLOBAL_TOPOID; None without a node or a placement annotation
    worker: str  # the pod's name
    node: str  # the name of the pod's node; empty while the pod has no node
    labels: dict[str, str]  # the values of the node labels in `Fleet.shown_labels`; empty for a missing label
    claims: tuple[str, ...] = ()  # the template of each device claim; the name of a claim without a template


@dataclass(frozen=True, slots=True)
class Problem:
    """A reason why a job is not placed whole."""

    kind: messages.ProblemCode  # the code of the problem
    text: str  # the problem in a sentence
    name: str  # the name of the job, pod, UltraServer or node that has the problem


@dataclass(frozen=True)
class Verification:
    """The result of a verification."""

    title: str  # the job's kind, namespace and name
    text: str  # the result in a sentence
    problems: tuple[Problem, ...]  # the reasons why the job is not placed whole
    rows: tuple[Row, ...]  # the job's workers
    unseen: str = ""  # what could not be listed, as in `Fleet.unseen`

    @property
    def is_whole(self) -> bool:
        """Whether the job is placed as its node config needs."""
        return not self.problems

    @property
    def is_certain(self) -> bool:
        """Whether the result is certain: no placement annotation is missing or unreadable."""
        return all(problem.kind != "placement" for problem in self.problems)


def verify(case: Case) -> Verification:
    """Returns whether a job is placed whole, with its workers and problems."""
    problems = (*unmarked_workers(case), *waiting_workers(case), *misplaced_workers(case))
    placement = case.placement
    if placement is None:
        text = messages.UNKNOWN
    elif problems:
        kinds = dict.fromkeys(messages.PROBLEMS[problem.kind] for problem in problems)
        text = messages.not_whole(", ".join(kinds))
    else:
        count = len({_unit_of(case, worker, placement) for worker in case.workers})
        is_divisible = case.fleet.table.units.kind_of_label(placement.unit).is_divisible
        units_text = units(count, placement.size, parts=is_divisible)
        units_text = units_text.replace("free ", "").replace("whole ", "")
        text = messages.whole(len(case.workers), units_text, placement.size)
    return Verification(case.title, text, problems, tuple(rows(case)), case.fleet.unseen)


def rows(case: Case) -> Iterator[Row]:
    """Yields the workers in the order of their ranks, then the workers without a node."""

    def sort_key(worker: Pod) -> tuple[bool, str, int, int]:
        node = case.node(worker)
        if worker.placement is None or worker.placement.size == 1 or node is None:
            # On single nodes, ranks have the order of the hostfile: by number.
            return not worker.node, "", 0, worker.number
        number, server = node_number(node, worker.placement.unit), node.labels.get(worker.placement.unit, "")
        return False, server, int(number) if number.isdecimal() else -1, worker.number

    for workers in case.workers_by_job.values():
        for rank, worker in enumerate(sorted(workers, key=sort_key)):
            shown_rank = rank if worker.node and worker.placement else None
            node = case.node(worker)
            labels = {key: node.labels.get(key, "") if node else "" for key in case.fleet.shown_labels}
            yield Row(shown_rank, worker.name, worker.node, labels, tuple(case.fleet.claimed_configs(worker)))


def unmarked_workers(case: Case) -> Iterator[Problem]:
    """Yields the problems of workers that the webhook did not change, or that cannot be placed."""
    names = [worker.name for worker in case.workers if worker.placement is None and not case.problem(worker)]
    if case.placement is None or names:
        subject = f"{join_names(names)}: " if case.placement else ""
        yield Problem("placement", subject + messages.UNMARKED, names[0] if names else case.reference.name)
    for worker in case.workers:
        if problem := case.problem(worker):
            text = f"{worker.name}: {problem}"
            yield Problem("claim" if worker.placement else "placement", text, worker.name)


def waiting_workers(case: Case) -> Iterator[Problem]:
    """Yields the problems of workers that have no node, or do not exist."""
    names = [worker.name for worker in case.workers if not worker.node]
    if names:
        text = messages.without_node(len(names), case.worker_count, join_names(names))
        yield Problem("waiting", text, names[0])
    if len(case.workers) < case.worker_count or not case.worker_count:
        count = case.worker_count
        text = messages.workers_exist(len(case.workers), count) if count else messages.NO_WORKERS
        yield Problem("waiting", text, case.reference.name)


def misplaced_workers(case: Case) -> Iterator[Problem]:
    """Yields problems with nodes, device claims and blocks, for workers that have a node."""
    for workers in case.workers_by_job.values():
        placement = next((worker.placement for worker in workers if worker.placement), None)
        for worker in workers:
            if worker.node:
                yield from _check_node(case, worker, placement)
                for name, mode in case.fleet.claimed_configs(worker).items():
                    if placement and mode not in (0, placement.size):
                        text = messages.other_claim(worker.name, name, mode, placement.size)
                        yield Problem("claim", text, worker.name)
        if placement:
            yield from _check_blocks(case, workers, placement)


def _check_blocks(case: Case, workers: Sequence[Pod], placement: Placement) -> Iterator[Problem]:
    workers_by_unit: defaultdict[str, list[Pod]] = defaultdict(list)
    for worker in workers:
        if unit_id := _unit_of(case, worker, placement):
            workers_by_unit[unit_id].append(worker)
    for node, count in Counter(worker.node for worker in workers if worker.node).items():
        if count > 1 and placement.size > 1:
            yield Problem("straddles", messages.crowded_node(node, count), node)
    # A job that still waits may have incomplete blocks, but not more blocks than it needs.
    is_complete = sum(map(len, workers_by_unit.values())) == placement.workers
    must_be_whole = placement.size > 1 and (
        is_complete or len(workers_by_unit) > -(-placement.workers // placement.size)
    )
    for unit_id, unit_workers in sorted(workers_by_unit.items()):
        if must_be_whole and len(unit_workers) != placement.size:
            names = [worker.name for worker in unit_workers]
            text = messages.partial_block(unit_id, len(names), placement.size, join_names(names))
            yield Problem("straddles", text, unit_id)
        unit = case.fleet.topology.unit(placement.unit, unit_id)
        if unit and not case.fleet.table.units.kind_of_label(placement.unit).shared:
            yield from _check_sharing(case, workers, unit, placement.size)


def _unit_of(case: Case, worker: Pod, placement: Placement) -> str | None:
    node = case.node(worker)
    return node.unit(placement.unit) if node else None


def _check_node(case: Case, worker: Pod, placement: Placement | None) -> Iterator[Problem]:
    node, on_node = case.node(worker), partial(messages.on_node, worker.name, worker.node)
    if node is None:
        yield Problem("node", on_node(messages.NODE_GONE), worker.node)
        return
    if not node.ready:  # the pods of a cordoned node still run
        yield Problem("node", on_node(messages.NODE_NOT_READY), node.name)
    if placement is None:
        return
    if placement.unit != HOSTNAME and node.unit(placement.unit) is None:
        server, number = node.labels.get(placement.unit), node_number(node, placement.unit)
        yield Problem("node", on_node(messages.no_unit(placement.unit, server, number)), node.name)
    mode = node.labels.get(MODE)
    if mode and placement.size in MODE_TOKENS and not MODE_TOKENS[placement.size] & set(mode.split("_")):
        yield Problem("node", on_node(messages.other_mode(mode, placement.size)), node.name)


def _check_sharing(case: Case, workers: Sequence[Pod], unit: Unit, size: int) -> Iterator[Problem]:
    """Yields problems for other holders of a unit; if ``size`` is 1, only for loose Pods or larger blocks."""
    keys, uids = {worker.key for worker in workers}, {worker.uid for worker in workers}
    other_holders: dict[str, tuple[str, str]] = {}
    for node in unit.nodes:
        for holder, pods in case.fleet.holders_by_node.get(node.name, {}).items():
            must_not_share = size > 1 or any(
                member.pod.loose or (member.placement and member.placement.size > 1) for member in pods
            )
            if must_not_share and not any(member.pod.uid in uids or member.key in keys for member in pods):
                other_holders.setdefault(holder, (pods[0].pod.name if pods else "devices", node.name))
    for holder, pod_and_node in other_holders.items():
        yield Problem("shares", messages.shared(unit.id, holder, *pod_and_node), unit.id)
