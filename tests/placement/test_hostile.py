"""Tests with pods of random content: decisions cause no error and assign no node twice."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from contract import keys
from contract.keys import DEVICES, GATE, HOSTNAME, SERVER_2, SERVER_4
from contract.placement import Placer, job_id
from placement.decide.plan import Failure, Memory
from placement.decide.topology import Topology
from placement.observe.model import is_jobless
from placement.observe.read import read_pod
from tests.placement.world import CAPACITY, HOUR, MINUTE, NOW, decide, job, node, placed_jobs, servers

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from placement.observe.model import Pod

    CheckTenants = Callable[[Callable[["Tenant"], None]], None]

ZONE = "topology.kubernetes.io/zone"
OFFERED = CAPACITY | {"aws.amazon.com/neuroncore": 64_000}
NODES = [
    replace(node(int(name[1]), int(name[3]), labels={ZONE: "a"}), allocatable=OFFERED) for name in servers(3)
]
TOPOLOGY = Topology([*NODES, node(9, 0, labels={SERVER_4: "", SERVER_2: ""})])
NAMESPACES = ("team", "evil")
NUMBERS = ("1", "2", "4", "16", "0", "-1", "99999", "4.0", "\u0664", "", "x")
PLACEMENT_FIELDS = {
    "placer": (*Placer, *Placer, "", "me"),
    "workers": ("2", "4", "4", *NUMBERS),
    "size": ("4", "4", "4", *NUMBERS),
    "unit": (SERVER_4, SERVER_4, SERVER_4, SERVER_2, HOSTNAME, ZONE, "", "none", "\x1b[31m"),
    "index": ("name", "name*2+labels/i+1", "labels/i", "labels/", "annotations/i", ""),
    "group": ("labels/i", "i", None, None, None, None),
}
POD_TEXTS = {
    keys.JOB: ("team.a", "evil.b", "", "x" * 64, "pod/a-worker-0"),
    keys.OPENED: ("2026-11-21T11:59:00Z", "2026-11-21T11:00:00", "soon", ""),
}
KEYS = (HOSTNAME, ZONE, "metadata.name", "")
OPERATORS = ("In", "NotIn", "Exists", "Gt", "Lt", "Near", None)
PORTS = ({"hostPort": 22}, {"hostPort": 22, "protocol": "UDP"}, {"hostPort": 0}, {"containerPort": 1})
WITHOUT_DEVICES = ({}, {"cpu": "1"}, {"aws.amazon.com/neuron": "0"}, {"cpu": "-1"})
WITH_DEVICES = ({"aws.amazon.com/neuron": "1"}, {"aws.amazon.com/neuroncore": "2", "cpu": "-1"})

VICTIM_JOB = job("victim", 4)
VICTIM_JOBS = [*job("x", 8, namespace="victim"), *job("y", 2, namespace="victim")]


class Tenant:
    """A user who creates random Pods, which depend only on the number."""

    def __init__(self, number: int) -> None:
        self._random = Random(number)  # noqa: S311 - no secret

    def some(self, values: Sequence[Any], most: int = 3) -> list[Any]:
        """Returns a few of the values, or none."""
        return self._random.choices(values, k=self._random.randint(0, most))

    def one(self, *values: Any) -> Any:
        """Returns one of the values."""
        return self._random.choice(values)

    def part(self, choices: Mapping[str, Sequence[Any]]) -> dict[str, Any]:
        """Returns a random part of the keys, each with one of its values."""
        return {key: self.one(*values) for key, values in choices.items() if self._random.random() < 0.8}

    def placement(self) -> dict[str, str]:
        """Returns a placement annotation with random fields, or no annotation."""
        fields = {
            key: value for key, values in PLACEMENT_FIELDS.items() if (value := self.one(*values)) is not None
        }
        return self.one(
            {}, *[{keys.PLACEMENT: " ".join(f"{key}={value}" for key, value in fields.items())}] * 4
        )

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

    def pod(self, requests: Sequence[dict[str, str]]) -> dict[str, Any]:
        """Returns a Pod with random content, which the API server may accept or refuse."""
        terms = {"nodeSelectorTerms": [self.term() for _ in range(self.one(0, 1, 2))]}
        affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
        return {
            "metadata": {
                "namespace": self.one(*NAMESPACES),
                "name": f"{self.one('a-worker', 'b', 'sleep')}-{self.one(0, 1, 2, 3, 4)}",
                "uid": str(self._random.random()),
                "labels": self.part({keys.JOB: POD_TEXTS[keys.JOB], "i": NUMBERS, keys.LOOSE: ("", None)}),
                "annotations": self.part(POD_TEXTS) | self.placement(),
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
                "containers": [{"resources": {"requests": self.one(*requests)}, "ports": self.some(PORTS)}],
            },
            "status": {"phase": self.one("Pending", "Running")},
        }

    def pods(self, requests: Sequence[dict[str, str]]) -> list[Pod]:
        """Returns some pods as the program reads them."""
        raw_pods = [self.pod(requests) for _ in range(self._random.randint(0, 12))]
        unique = {(raw["metadata"]["namespace"], raw["metadata"]["name"]): raw for raw in raw_pods}
        return [pod for raw in unique.values() if (pod := read_pod(raw)) is not None]

    def memory(self) -> Memory:
        """Returns a memory that an earlier decision may have left."""
        keys = (("team", "team.a"), ("evil", "evil.b"), ("evil", "/pod/b-0"))
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
def check_tenants(request: pytest.FixtureRequest, seed: int) -> CheckTenants:
    """Returns a function that checks 300 tenants. In the soak, it checks a million in 17 minutes."""

    def check_all(check: Callable[[Tenant], None]) -> None:
        for number in range(seed, seed + request.param):
            try:
                check(Tenant(number))
            except Exception as error:
                error.add_note(f"Tenant({number})")
                raise

    return check_all


def test_random_pods_cause_no_error_and_no_node_is_assigned_twice(check_tenants: CheckTenants) -> None:
    def check(tenant: Tenant) -> None:
        hostile = tenant.pods(WITHOUT_DEVICES + WITH_DEVICES)
        decision = decide(TOPOLOGY, [*hostile, *VICTIM_JOB], NOW, memory=tenant.memory())
        assert decision.errors == ()
        used_nodes = {pod.node for pod in hostile if pod.demand.uses(DEVICES) and pod.node}
        assigned_nodes: list[str] = []
        for admission in decision.admissions:
            size = admission.job.placement.size
            units = {*admission.blocks.values()}
            was_admitted = any(member.pod.node or member.pod.admitted_at for member in admission.job.workers)
            for value in units if size > 1 and not was_admitted else ():
                names = TOPOLOGY.units_of_label(admission.job.placement.unit)[value].names
                assert used_nodes.isdisjoint(names)
                assigned_nodes += names
        assert len(assigned_nodes) == len(set(assigned_nodes))
        for (member,) in (waiting.job.pods for waiting in decision.untrusted):
            held_nodes = {name for name, holders in decision.cluster.holders.items() if member.key in holders}
            assert held_nodes <= {member.pod.node} or not is_jobless(member.key)
        assert all(not pod.started for deletion in decision.deletions for pod in deletion.pods)

    check_tenants(check)


def test_random_pods_without_devices_do_not_change_the_units_of_other_jobs(
    check_tenants: CheckTenants,
) -> None:
    expected = placed_jobs(decide(TOPOLOGY, VICTIM_JOBS, NOW))

    def check(tenant: Tenant) -> None:
        units_by_job = placed_jobs(decide(TOPOLOGY, [*tenant.pods(WITHOUT_DEVICES), *VICTIM_JOBS], NOW))
        assert {name: units for name, units in units_by_job.items() if name in expected} == expected

    check_tenants(check)


@pytest.mark.parametrize("label", ["pod", "claim"])
def test_a_forged_job_label_does_not_give_the_key_of_a_pod_or_claim_without_a_job(label: str) -> None:
    metadata = {"labels": {keys.JOB: label, "group": "b-0"}}
    assert not is_jobless(("team", job_id(metadata, "group")))
