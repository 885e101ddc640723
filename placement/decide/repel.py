"""Which pods keep jobs off nodes by required anti-affinity, as kube-scheduler decides it."""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator
from itertools import chain
from typing import Final

from placement.decide.believe import Member
from placement.decide.fit import pair_of, selects
from placement.decide.jobs import Job
from placement.decide.topology import Topology
from placement.observe.model import HIDDEN, POSITIVE, Apart, JobKey, Node, is_pod

# Limits for the pods of one namespace: the terms of anti-affinity that are examined for one value of a node
# label (terms that select by one label or by none are looked up instead), and the comparisons with pods in a
# decision.
MOST_TERMS: Final = 200
MOST_COMPARED: Final = 200_000

Where = tuple[str, str, str]
"""A node label, its value, and the namespace whose pods terms select; empty for several namespaces."""


class Repelling:
    """The pods that have nodes, and their terms of anti-affinity."""

    def __init__(self, topology: Topology) -> None:
        self._topology = topology
        self.there: defaultdict[str, list[Member]] = defaultdict(list)  # by node
        self._keys: set[str] = set()  # the node labels of terms
        self.namespaces: set[str] = set()  # the namespaces of the pods that have terms
        # Terms with their owners, by the namespace of their pods. There may be too many to examine.
        self._terms: defaultdict[Where, defaultdict[str, dict[Apart, JobKey]]]
        self._terms = defaultdict(lambda: defaultdict(dict))
        self._unclear: set[Where] = set()
        # By label, the owners of terms that select pods by this one label: a job, or a pod without a job.
        self._exact: defaultdict[Where, dict[tuple[str, str], dict[bool, JobKey]]] = defaultdict(dict)
        # The results of this decision, and the number of pods with which terms of a namespace were compared.
        self._met: dict[tuple[str, Apart, JobKey], bool] = {}
        self._near: dict[tuple[JobKey, Apart, str], JobKey | None] = {}
        self._compared: Counter[str] = Counter()

    def add_pod(self, member: Member) -> None:
        """Adds the anti-affinity of a pod that has a node."""
        node = self._topology.nodes.get(member.pod.node)
        for term in member.pod.apart if node else ():
            if node and term.labels is not None and (value := node.labels.get(term.key)) is not None:
                self._add(member, term, value)

    def _add(self, member: Member, term: Apart, value: str) -> None:
        own, key = member.pod.namespace, member.key
        several = term.spaces is not None or len(term.namespaces) > 1
        where = term.key, value, "" if several else next(iter(term.namespaces), own)
        self._keys.add(term.key)
        self.namespaces.add(own)
        pair = pair_of(term)
        if pair and (term.spaces == () or not several):
            self._exact[where].setdefault(pair, {}).setdefault(is_pod(key), key)
        elif len(terms := self._terms[where][own]) < MOST_TERMS or term in terms:
            terms[term] = key
        else:
            self._unclear.add(where)

    def off(self, nodes: Collection[Node], job: Job) -> Iterator[JobKey]:
        """Yields the jobs whose pods keep a job off nodes, by their anti-affinity or by the job's own."""
        yield from self.others(nodes, job)
        pairs = ((term, value) for term in job.anti_affinity for value in _values(nodes, term.key))
        yield from filter(None, (self._avoided_job(term, value, job) for term, value in pairs))

    def others(self, nodes: Collection[Node], job: Job) -> Iterator[JobKey]:
        """Yields the jobs whose pods keep a job off the nodes by terms of their own."""
        for key in self._keys:
            for value in _values(nodes, key):
                for where in ((key, value, ""), (key, value, job.key[0])):
                    yield from self._off(where, job)

    def _off(self, where: Where, job: Job) -> Iterator[JobKey]:
        if exact := self._exact.get(where):
            yield from chain(*(exact[pair].values() for pair in exact.keys() & job.label_pairs))
        for own, terms in self._terms.get(where, {}).items():
            for term, whose in terms.items():
                if self._compared[own] >= MOST_COMPARED:
                    self._unclear.add(where)
                if self._meets(own, term, job):
                    yield whose

    def unclear(self, nodes: Iterable[Node], namespace: str) -> bool:
        """Returns whether there are too many terms to know if a namespace's pods are kept off the nodes."""
        return bool(self._unclear) and any(
            (key, node.labels.get(key), about) in self._unclear
            for node in nodes
            for key in self._keys
            for about in ("", namespace)
        )

    def _meets(self, own: str, term: Apart, job: Job) -> bool:
        """Returns whether a term of a namespace's pod selects any worker of a job that has no node yet."""
        key = (own, term, job.key)
        if key not in self._met:
            self._met[key] = self._selected(term, own, job.unbound_workers) is not None
        return self._met[key]

    def _avoided_job(self, term: Apart, value: str, job: Job) -> JobKey | None:
        """Returns the job of a pod that a job's term avoids; of the last pod if there are too many."""
        key, own = (job.key, term, value), job.key[0]
        if key not in self._near:
            near = chain.from_iterable(map(self.there.__getitem__, self._topology.near(term.key, value)))
            has = next((item.key for item in term.labels or () if item.operator in POSITIVE), None)
            pods = [pod for pod in near if has is None or not {has, HIDDEN}.isdisjoint(pod.pod.labels)]
            whose = self._selected(term, own, pods)
            full = self._compared[own] >= MOST_COMPARED
            self._near[key] = whose or (pods[-1].key if pods and full else None)
        return self._near[key]

    def _selected(self, term: Apart, own: str, pods: Iterable[Member]) -> JobKey | None:
        """Returns the job of the first pod that a term of a namespace's pods selects; or None."""
        for member in pods:
            if self._compared[own] >= MOST_COMPARED:
                return None
            self._compared[own] += 1
            if selects(term, own, member.pod.namespace, member.pod.labels):
                return member.key
        return None


def _values(nodes: Collection[Node], key: str) -> set[str]:
    """Returns the values of a label of nodes; an empty text for nodes without it."""
    return {node.labels.get(key, "") for node in nodes}
