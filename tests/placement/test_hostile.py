"""Pods of tenants with any content that can be stored: decisions succeed, and assign nothing twice."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from contract import keys
from contract.keys import DEVICES, GATE, HOSTNAME, SERVER_2, SERVER_4
from contract.place import Placer
from placement.decide.plan import Failure, Memory
from placement.decide.topology import Topology
from placement.observe.model import is_jobless
from placement.observe.read import read_pod
from tests.placement.world import CAPACITY, HOUR, MINUTE, NOW, decide, job, node, placed, servers

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from placement.observe.model import Pod

    Each = Callable[[Callable[["Tenant"], None]], None]

ZONE = "topology.kubernetes.io/zone"
OFFERED = CAPACITY | {"aws.amazon.com/neuroncore": 64_000}
NODES = [
    replace(node(int(name[1]), int(name[3]), labels={ZONE: "a"}), allocatable=OFFERED) for name in servers(3)
]
TOPOLOGY = Topology([*NODES, node(9, 0, labels={SERVER_4: "", SERVER_2: ""})])
NAMESPACES = ("team", "evil")
NUMBERS = ("1", "2", "4", "16", "0", "-1", "99999", "4.0", "\u0664", "", "x")
PLACE = {
    "placer": (*Placer, *Placer, "", "me"),
    "workers": ("2", "4", "4", *NUMBERS),
    "size": ("4", "4", "4", *NUMBERS),
    "unit": (SERVER_4, SERVER_4, SERVER_4, SERVER_2, HOSTNAME, ZONE, "", "none", "\x1b[31m"),
    "index": ("name", "name*2+labels/i+1", "labels/i", "labels/", "annotations/i", ""),
    "group": ("labels/i", "i", None, None, None, None),
}
SAID = {
    keys.JOB: ("team.a", "evil.b", "", "x" * 64, "pod/a-worker-0"),
    keys.OPENED: ("2026-11-21T11:59:00Z", "2026-11-21T11:00:00", "soon", ""),
}
KEYS = (HOSTNAME, ZONE, "metadata.name", "")
OPERATORS = ("In", "NotIn", "Exists", "Gt", "Lt", "Near", None)
PORTS = ({"hostPort": 22}, {"hostPort": 22, "protocol": "UDP"}, {"hostPort": 0}, {"containerPort": 1})
WITHOUT_DEVICES = ({}, {"cpu": "1"}, {"aws.amazon.com/neuron": "0"}, {"cpu": "-1"})
WITH_DEVICES = ({"aws.amazon.com/neuron": "1"}, {"aws.amazon.com/neuroncore": "2", "cpu": "-1"})

VICTIM = job("victim", 4)
VICTIMS = [*job("x", 8, namespace="victim"), *job("y", 2, namespace="victim")]


class Tenant:
    """Writes Pods by chance; the same number gives the same."""

    def __init__(self, number: int) -> None:
        self._random = Random(number)  # noqa: S311 - no secret

    def some(self, values: Sequence[Any], most: int = 3) -> list[Any]:
        """Returns a few of the values, or none."""
        return self._random.choices(values, k=self._random.randint(0, most))

    def one(self, *values: Any) -> Any:
        """Returns one of the values."""
        return self._random.choice(values)

    def part(self, values: Mapping[str, Sequence[Any]]) -> dict[str, Any]:
        """Returns some of the keys, more often than not, each with one of its values."""
        return {key: self.one(*among) for key, among in values.items() if self._random.random() < 0.8}

    def place(self) -> dict[str, str]:
        """Returns what it says about its place."""
        fields = {key: found for key, among in PLACE.items() if (found := self.one(*among)) is not None}
        return self.one({}, *[{keys.PLACE: " ".join(f"{key}={value}" for key, value in fields.items())}] * 4)

    def term(self) -> dict[str, Any]:
        """Returns a node selector term."""
        expressions = [
            {
                "key": self.one(*KEYS),
                "operator": self.one(*OPERATORS),
                "values": self.some(("n1-0", "a", "7")),
            }
            for _ in range(self.one(0, 1, 2))
        ]
        return self.part({"matchExpressions": (expressions, None), "matchFields": (expressions, None)})

    def pod(self, value: Sequence[dict[str, str]]) -> dict[str, Any]:
        """Returns a Pod as the API server could have it, and some that it would refuse."""
        terms = {"nodeSelectorTerms": [self.term() for _ in range(self.one(0, 1, 2))]}
        affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
        return {
            "metadata": {
                "namespace": self.one(*NAMESPACES),
                "name": f"{self.one('a-worker', 'b', 'sleep')}-{self.one(0, 1, 2, 3, 4)}",
                "uid": str(self._random.random()),
                "labels": self.part({keys.JOB: SAID[keys.JOB], "i": NUMBERS, keys.LOOSE: ("", None)}),
                "annotations": self.part(SAID) | self.place(),
                "creationTimestamp": "2026-11-20T11:00:00Z",
                "deletionTimestamp": self.one(None, None, None, "2026-11-21T11:00:00Z"),
            },
            "spec": {
                "schedulingGates": self.some(({"name": GATE}, {"name": "other"}, {}), 2),
                "nodeName": self.one("", "", "n1-0", "n2-1", "n9-0", "gone"),
                "nodeSelector": self.part({SERVER_4: ("us-01", "us-02"), SERVER_2: ("us-01-a",)}),
                "affinity": self.one(affinity, None, {}),
                "priority": self.one(0, -(10**9), 2 * 10**9),
                "tolerations": self.some(({}, {"key": None, "operator": "Exists"}, {"key": "k"})),
                "containers": [{"resources": {"requests": self.one(*value)}, "ports": self.some(PORTS)}],
            },
            "status": {"phase": self.one("Pending", "Running")},
        }

    def pods(self, terms: Sequence[dict[str, str]]) -> list[Pod]:
        """Returns some, as they are read."""
        matching = [self.pod(terms) for _ in range(self._random.randint(0, 12))]
        unique = {(raw["metadata"]["namespace"], raw["metadata"]["name"]): raw for raw in matching}
        return [pod for raw in unique.values() if (pod := read_pod(raw)) is not None]

    def memory(self) -> Memory:
        """Returns what the decision before may have left."""
        keys = (("team", "team.a"), ("evil", "evil.b"), ("evil", "pod/b-0"))
        ats = (NOW, NOW - MINUTE, NOW - HOUR, NOW - 2 * HOUR)
        failures = {
            key: Failure(self.one(1, 2, 50), self.one(*ats), self.one("", "no")) for key in self.some(keys)
        }
        reserved = {key: self.one(*ats) for key in self.some(keys)}
        return Memory(
            failures=failures,
            reserved_since=reserved,
            exceeded_limits={self.one(*NAMESPACES): self.one(*ats)},
        )


@pytest.fixture(params=[300, pytest.param(1_000_000, marks=pytest.mark.soak)])
def tenants(request: pytest.FixtureRequest, seed: int) -> Each:
    """Has something hold of this many: 300, in the soak a million others, that take 17 minutes."""

    def each(holds: Callable[[Tenant], None]) -> None:
        for number in range(seed, seed + request.param):
            try:
                holds(Tenant(number))
            except Exception as error:
                error.add_note(f"Tenant({number})")
                raise

    return each


def test_with_any_annotations_a_decision_is_made_and_no_node_given_twice(tenants: Each) -> None:
    def holds(tenant: Tenant) -> None:
        hostile = tenant.pods(WITHOUT_DEVICES + WITH_DEVICES)
        decision = decide(TOPOLOGY, [*hostile, *VICTIM], NOW, memory=tenant.memory())
        assert decision.errors == ()
        busy = {pod.node for pod in hostile if pod.demand.uses(DEVICES) and pod.node}
        given_away: list[str] = []
        for admission in decision.admissions:
            size = admission.job.place.size
            new = {*admission.blocks.values()}
            stands = any(member.pod.node or member.pod.admitted_at for member in admission.job.workers)
            for value in new if size > 1 and not stands else ():
                names = TOPOLOGY.units_of_label(admission.job.place.unit)[value].names
                assert busy.isdisjoint(names)
                given_away += names
        assert len(given_away) == len(set(given_away))
        for (member,) in (doubted.job.pods for doubted in decision.untrusted):
            held = {name for name, holders in decision.cluster.holders.items() if member.key in holders}
            assert held <= {member.pod.node} or not is_jobless(member.key)
        assert all(not pod.started for deletion in decision.deletions for pod in deletion.pods)

    tenants(holds)


def test_pods_without_devices_change_nothing_for_those_who_have_them(tenants: Each) -> None:
    alone = placed(decide(TOPOLOGY, VICTIMS, NOW))

    def holds(tenant: Tenant) -> None:
        beside = placed(decide(TOPOLOGY, [*tenant.pods(WITHOUT_DEVICES), *VICTIMS], NOW))
        assert {name: units for name, units in beside.items() if name in alone} == alone

    tenants(holds)
