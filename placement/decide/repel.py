"""Finds pods that keep jobs off nodes, by anti-affinity of pods or jobs, as kube-scheduler does."""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator
from itertools import chain
from typing import Final

from placement.decide.fit import label_pair, selects
from placement.decide.jobs import Job
from placement.decide.members import Member
from placement.decide.topology import Topology
from placement.observe.model import HIDDEN, POSITIVE, Apart, JobKey, Node, is_jobless

# Maximum number of anti-affinity terms of one namespace's pods for one value of a node label. Terms that
# select by at most one label value, in one or in all namespaces, are not counted: they need no comparison.
MOST_TERMS: Final = 200
# Maximum number of comparisons in a decision between pods and the terms of one namespace's pods.
MOST_COMPARED: Final = 200_000

Domain = tuple[str, str, str]
"""A node label, its value, and the namespace whose pods a term selects; empty for several namespaces."""


class Repelling:
    """The pods that have nodes, and their terms of anti-affinity."""

    def __init__(self, topology: Topology) -> None:
        self._topology = topology
        self.pods_by_node: defaultdict[str, list[Member]] = defaultdict(list)
        self._labels: set[str] = set()  # the topology keys of all terms
        self.namespaces: set[str] = set()  # the namespaces of the pods that have terms
        # By domain and by the namespace of the pods that have the terms: the terms, each with its owner. The
        # owner is a job, or a pod without a job.
        self._terms: defaultdict[Domain, defaultdict[str, dict[Apart, JobKey]]]
        self._terms = defaultdict(lambda: defaultdict(dict))
        self._unclear: set[Domain] = set()  # the domains with too many terms or comparisons
        # By domain and by pair (a pod label and its value): the owners of terms that select pods only by this
        # pair. At most one job (key False) and one pod without a job (key True) are stored.
        self._by_pair: defaultdict[Domain, dict[tuple[str, str], dict[bool, JobKey]]] = defaultdict(dict)
        # The results of comparisons in this decision, and the number of comparisons by namespace.
        self._selects_cache: dict[tuple[str, Apart, JobKey], bool] = {}
        self._avoided_cache: dict[tuple[JobKey, Apart, str], JobKey | None] = {}
        self._comparisons: Counter[str] = Counter()

    def add_pod(self, member: Member) -> None:
        """Adds the anti-affinity of a pod that has a node."""
        node = self._topology.nodes.get(member.pod.node)
        for term in member.pod.apart if node else ():
            if node and term.labels is not None and (value := node.labels.get(term.key)) is not None:
                self._add_term(member, term, value)

    def _add_term(self, member: Member, term: Apart, value: str) -> None:
        namespace, key = member.pod.namespace, member.key
        selects_several = term.spaces is not None or len(term.namespaces) > 1
        domain = term.key, value, "" if selects_several else next(iter(term.namespaces), namespace)
        self._labels.add(term.key)
        self.namespaces.add(namespace)
        pair = label_pair(term)
        if pair and (term.spaces == () or not selects_several):
            self._by_pair[domain].setdefault(pair, {}).setdefault(is_jobless(key), key)
        elif len(terms := self._terms[domain][namespace]) < MOST_TERMS or term in terms:
            terms[term] = key
        else:
            self._unclear.add(domain)

    def repelling_jobs(self, nodes: Collection[Node], job: Job) -> Iterator[JobKey]:
        """Yields the jobs whose pods keep a job off nodes, by anti-affinity of the pods or of the job."""
        yield from self.term_owners(nodes, job)
        pairs = ((term, value) for term in job.anti_affinity for value in _values(nodes, term.key))
        yield from filter(None, (self._avoided_job(term, value, job) for term, value in pairs))

    def term_owners(self, nodes: Collection[Node], job: Job) -> Iterator[JobKey]:
        """Yields the jobs, and pods without a job, whose anti-affinity keeps the given job off the nodes."""
        for label in self._labels:
            for value in _values(nodes, label):
                for domain in ((label, value, ""), (label, value, job.key[0])):
                    yield from self._owners_in(domain, job)

    def _owners_in(self, domain: Domain, job: Job) -> Iterator[JobKey]:
        if by_pair := self._by_pair.get(domain):
            yield from chain(*(by_pair[pair].values() for pair in by_pair.keys() & job.label_pairs))
        for namespace, terms in self._terms.get(domain, {}).items():
            for term, owner in terms.items():
                if self._comparisons[namespace] >= MOST_COMPARED:
                    self._unclear.add(domain)
                if self._selects_worker(namespace, term, job):
                    yield owner

    def is_unclear(self, nodes: Iterable[Node], namespace: str) -> bool:
        """Returns whether nodes have too many terms to find out if any term keeps off pods of a namespace."""
        return bool(self._unclear) and any(
            (key, node.labels.get(key), selected) in self._unclear
            for node in nodes
            for key in self._labels
            for selected in ("", namespace)
        )

    def _selects_worker(self, namespace: str, term: Apart, job: Job) -> bool:
        """Returns whether a term of a namespace's pods selects any of the job's workers without nodes."""
        key = (namespace, term, job.key)
        if key not in self._selects_cache:
            self._selects_cache[key] = self._first_selected(term, namespace, job.unbound_workers) is not None
        return self._selects_cache[key]

    def _avoided_job(self, term: Apart, value: str, job: Job) -> JobKey | None:
        """Returns the job of the first pod that a job's term selects on nodes with the label value; or None.

        After too many comparisons, the term is assumed to select the last pod.
        """
        key, namespace = (job.key, term, value), job.key[0]
        if key not in self._avoided_cache:
            nodes = self._topology.nodes_with(term.key, value)
            near = chain.from_iterable(map(self.pods_by_node.__getitem__, nodes))
            label = next((item.key for item in term.labels or () if item.operator in POSITIVE), None)
            keys = {label, HIDDEN}
            members = [member for member in near if label is None or not keys.isdisjoint(member.pod.labels)]
            owner = self._first_selected(term, namespace, members)
            is_exhausted = self._comparisons[namespace] >= MOST_COMPARED
            self._avoided_cache[key] = owner or (members[-1].key if members and is_exhausted else None)
        return self._avoided_cache[key]

    def _first_selected(self, term: Apart, namespace: str, members: Iterable[Member]) -> JobKey | None:
        """Returns the job of the first pod that a term selects; or None, also after too many comparisons."""
        for member in members:
            if self._comparisons[namespace] >= MOST_COMPARED:
                return None
            self._comparisons[namespace] += 1
            if selects(term, namespace, member.pod.namespace, member.pod.labels):
                return member.key
        return None


def _values(nodes: Collection[Node], key: str) -> set[str]:
    """Returns the values of a label on the nodes; for a node without the label, an empty text."""
    return {node.labels.get(key, "") for node in nodes}
