"""Tests of decisions: which jobs are admitted to which units, why jobs wait, and which pods are deleted."""

import random
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from contract.keys import SERVER_2, SERVER_4
from contract.placement import Placement, Placer
from placement import messages
from placement.decide.decide import assume
from placement.decide.plan import Decision, Failure, Memory, Tuning, Unsettled
from placement.decide.topology import Topology
from placement.observe.model import UNITS, Demand, Node, Pod, Taint, Toleration, UnitSettings
from tests.placement.world import (
    DEMAND,
    HOUR,
    MINUTE,
    NOW,
    SECOND,
    bind_pods,
    changed_nodes,
    decide,
    deleted_pods,
    foreign_pod,
    job,
    node,
    node_list,
    pin_pod,
    placed_jobs,
    select_nodes,
    servers,
    short_name,
    ungate_pod,
    waiting_reasons,
)

Nodes = Iterable[Node] | Mapping[str, Node]
FOUR_SERVERS = servers(4)
TWO_SERVERS = servers(2)
ONE_SERVER = servers(1)


def decision_about(nodes: Nodes, pods: Iterable[Pod], memory: Memory | None = None) -> Decision:
    return decide(Topology(node_list(nodes)), pods, NOW, memory=memory)


def with_first_pod(pods: list[Pod], **changes: Any) -> list[Pod]:
    """Returns the pods, with changed fields of the first pod."""
    return [replace(pods[0], **changes), *pods[1:]]


@dataclass(frozen=True)
class Case:
    """Nodes and pods, the units of the jobs that must be admitted, and parts of the other jobs' reasons."""

    name: str
    nodes: Nodes
    pods: list[Pod]
    placed: dict[str, str] = field(default_factory=dict)
    waiting: dict[str, str] = field(default_factory=dict)


def pods_without_job(*names: str) -> list[Pod]:
    """Returns a pod without a job on each of the nodes."""
    return [foreign_pod(f"x{name}", name) for name in names]


CASES = [
    Case("without pods nothing is decided", FOUR_SERVERS, []),
    Case(
        "without nodes all jobs wait",
        [],
        job("a", 4),
        {},
        {"a": "needs 1 whole UltraServer; 0 free; at most 0"},
    ),
    # Node configs.
    Case("four workers get an UltraServer", FOUR_SERVERS, job("a", 4), {"a": "us-01"}),
    Case(
        "sixteen workers get four UltraServers", FOUR_SERVERS, job("a", 16), {"a": "us-01 us-02 us-03 us-04"}
    ),
    Case("two workers get a pair", FOUR_SERVERS, job("a", 2), {"a": "us-01-a"}),
    Case("one worker gets a node", FOUR_SERVERS, job("a", 1), {"a": "n1-0"}),
    Case(
        "six workers get pairs in as few UltraServers as possible",
        TWO_SERVERS,
        job("a", 6),
        {"a": "us-01-a us-01-b us-02-a"},
    ),
    Case("three workers of node config 1 get three nodes", TWO_SERVERS, job("a", 3), {"a": "n1-0 n1-1 n1-2"}),
    Case(
        "three workers of node config 1 need no whole unit",
        changed_nodes(ONE_SERVER, n1_0=None),
        job("a", 3, config=1),
        {"a": "n1-1 n1-2 n1-3"},
    ),
    Case(
        "a job that is larger than the cluster waits with this reason",
        TWO_SERVERS,
        job("a", 12),
        {},
        {"a": "needs 3 whole UltraServers; 2 free; at most 2 can become free"},
    ),
    # What makes a unit unusable.
    Case(
        "a unit with a cordoned node is not used",
        changed_nodes(TWO_SERVERS, n1_3={"cordoned": True}),
        job("a", 4),
        {"a": "us-02"},
    ),
    Case(
        "the reason names the cordoned node",
        changed_nodes(ONE_SERVER, n1_3={"cordoned": True}),
        job("a", 4),
        {},
        {"a": "us-01: node n1-3 is cordoned"},
    ),
    Case(
        "a unit with a missing node is not used",
        changed_nodes(ONE_SERVER, n1_3=None),
        job("a", 4),
        {},
        {"a": "us-01: 3 of 4 nodes present"},
    ),
    Case(
        "a unit with a tainted node is not used",
        changed_nodes(ONE_SERVER, n1_3={"taints": (Taint("sick", "", "NoExecute"),)}),
        job("a", 4),
        {},
        {"a": "us-01: node n1-3 has the taint sick"},
    ),
    Case(
        "a taint that the pods tolerate is ignored",
        changed_nodes(ONE_SERVER, n1_3={"taints": (Taint("sick", "", "NoExecute"),)}),
        job("a", 4, demand=replace(DEMAND, tolerations=(Toleration("sick", "Exists", "", ""),))),
        {"a": "us-01"},
    ),
    Case(
        "a taint with the effect PreferNoSchedule is ignored",
        changed_nodes(ONE_SERVER, n1_3={"taints": (Taint("sick", "", "PreferNoSchedule"),)}),
        job("a", 4),
        {"a": "us-01"},
    ),
    Case(
        "a pod without a job that has devices holds its node",
        ONE_SERVER,
        [*job("a", 4), *pods_without_job("n1-3")],
        {},
        {"a": "us-01: held by other/xn1-3"},
    ),
    Case(
        "a loose pod without anti-affinity holds only its node",
        TWO_SERVERS,
        [*job("a", 2), *job("b", 1), foreign_pod("x", "n1-3", loose=True)],
        {"a": "us-01-a", "b": "n1-2"},
    ),
    Case(
        "a pod without devices is not a holder",
        ONE_SERVER,
        [*job("a", 4), foreign_pod("d", "n1-3", neuron=False)],
        {"a": "us-01"},
    ),
    Case(
        "a holder that is being deleted is still a holder",
        ONE_SERVER,
        [*job("a", 4), foreign_pod("x", "n1-3", deleting=True)],
        {},
        {"a": "held by other/x"},
    ),
    Case(
        "a node must have enough of each resource",
        ONE_SERVER,
        [*job("a", 4), replace(foreign_pod("big", "n1-2"), demand=Demand(requests={"cpu": 100_000}))],
        {},
        {"a": "us-01: node n1-2 does not have enough cpu"},
    ),
    Case(
        "a node outside a working UltraServer is in no unit",
        changed_nodes(
            ONE_SERVER, n1_3={"labels": {**ONE_SERVER["n1-3"].labels, SERVER_4: "0" * 16, SERVER_2: "0" * 16}}
        ),
        job("a", 4),
        {},
        {"a": "us-01: 3 of 4 nodes present"},
    ),
    Case(
        "a node outside a working UltraServer is the first choice for a single worker",
        changed_nodes(
            TWO_SERVERS,
            n2_3={"labels": {**TWO_SERVERS["n2-3"].labels, SERVER_4: "0" * 16, SERVER_2: "0" * 16}},
        ),
        job("a", 1),
        {"a": "n2-3"},
    ),
    Case(
        "five nodes with one server id are not a unit",
        [*[*ONE_SERVER.values(), node(1, 2, labels={})][:4], replace(ONE_SERVER["n1-3"], name="n9")],
        job("a", 4),
        {},
        {"a": "us-01: "},
    ),
    # Best fit.
    Case(
        "a single worker gets a node of a unit with a sick node",
        changed_nodes(FOUR_SERVERS, n3_0={"ready": False}),
        job("a", 1),
        {"a": "n3-1"},
    ),
    Case(
        "a single worker gets a node of a unit in use",
        FOUR_SERVERS,
        [*job("a", 1), *pods_without_job("n4-2")],
        {"a": "n4-3"},
    ),
    Case(
        "two workers get a pair of an UltraServer in use",
        FOUR_SERVERS,
        [*job("a", 2), *pods_without_job("n4-2")],
        {"a": "us-04-a"},
    ),
    Case(
        "a single worker does not use a node of a free pair",
        FOUR_SERVERS,
        [*job("a", 1), *pods_without_job("n3-0", "n4-0", "n4-1")],
        {"a": "n3-1"},
    ),
    Case(
        "small jobs of one decision share one UltraServer",
        FOUR_SERVERS,
        job("a", 1) + job("b", 1) + job("c", 2),
        {"a": "n1-0", "b": "n1-1", "c": "us-01-b"},
    ),
    # Order.
    Case(
        "the older job comes first",
        ONE_SERVER,
        job("young", 4) + job("old", 4, age=HOUR),
        {"old": "us-01"},
        {"young": "held by team/old"},
    ),
    Case(
        "priority comes before age",
        ONE_SERVER,
        job("high", 4, priority=1) + job("old", 4, age=HOUR),
        {"high": "us-01"},
        {"old": "held by team/high"},
    ),
    Case(
        "jobs of the same age are in the order of their names",
        ONE_SERVER,
        job("b", 4) + job("a", 4),
        {"a": "us-01"},
        {"b": "held by team/a"},
    ),
    Case(
        "jobs of the same name in two namespaces are two jobs",
        TWO_SERVERS,
        job("a", 4) + job("a", 4, namespace="b-team"),
        {"a": "us-02", "b-team/a": "us-01"},
    ),
    Case(
        "a younger job is admitted if an older job does not fit",
        TWO_SERVERS,
        job("old", 12, age=HOUR) + job("a", 4),
        {"a": "us-01"},
        {"old": "at most 2"},
    ),
    Case(
        "no unit is reserved for a job that has waited for less than ten minutes",
        TWO_SERVERS,
        bind_pods(job("r", 4), select_nodes(TWO_SERVERS, "n2-0", "n2-1", "n2-2", "n2-3"))
        + job("old", 8, age=10 * MINUTE - SECOND)
        + job("a", 4),
        {"a": "us-01"},
        {"old": "needs 2 whole UltraServers; 0 free; us-01: held by team/a; us-02: held by team/r"},
    ),
    Case(
        "units are reserved for a job that has waited for ten minutes",
        TWO_SERVERS,
        bind_pods(job("r", 4), select_nodes(TWO_SERVERS, "n2-0", "n2-1", "n2-2", "n2-3"))
        + job("old", 8, age=10 * MINUTE)
        + job("a", 4),
        {},
        {
            "old": "1 free; what becomes free is reserved for it; us-02: held by team/r",
            "a": "us-01: reserved for team/old",
        },
    ),
    Case(
        "smaller jobs get no node of reserved units",
        TWO_SERVERS,
        bind_pods(job("r", 1), select_nodes(TWO_SERVERS, "n2-0"))
        + job("old", 8, age=HOUR)
        + job("a", 1)
        + job("b", 2),
        {},
        {"old": "reserved for it", "a": "reserved for team/old", "b": "reserved for team/old"},
    ),
    Case(
        "only as many units are reserved as the job needs",
        FOUR_SERVERS,
        bind_pods(job("r", 4), select_nodes(FOUR_SERVERS, "n1-0", "n1-1", "n1-2", "n1-3"))
        + bind_pods(job("s", 8), select_nodes(FOUR_SERVERS, *(f"n{s}-{i}" for s in (2, 3) for i in range(4))))
        + job("old", 8, age=HOUR)
        + job("a", 4),
        {},
        {"old": "reserved for it", "a": "us-04: reserved for team/old"},
    ),
    Case(
        "a job of higher priority may use reserved units",
        TWO_SERVERS,
        bind_pods(job("r", 1), select_nodes(TWO_SERVERS, "n2-0"))
        + job("old", 8, age=HOUR)
        + job("a", 4, priority=9),
        {"a": "us-01"},
        {"old": "reserved for it"},
    ),
    Case(
        "no unit is reserved for a job that would never fit",
        TWO_SERVERS,
        [*pods_without_job("n2-0"), *job("old", 8, age=HOUR), *job("a", 4)],
        {"a": "us-01"},
        {"old": "at most 1"},
    ),
    # Incomplete and invalid jobs.
    Case("a job with a missing worker waits", ONE_SERVER, job("a", 4)[:3], {}, {"a": "3 of 4 workers exist"}),
    Case(
        "a job with only a launcher waits",
        ONE_SERVER,
        job("a", 4, launcher=True)[4:],
        {},
        {"a": messages.NO_WORKERS},
    ),
    Case(
        "a worker that is being deleted is missing",
        ONE_SERVER,
        with_first_pod(job("a", 4), deleting=True),
        {},
        {"a": "3 of 4 workers exist"},
    ),
    Case(
        "a job with two workers of the same number waits",
        ONE_SERVER,
        with_first_pod(job("a", 4), number=1),
        {},
        {"a": "have the same number 1"},
    ),
    Case(
        "a job with a worker number that is too high waits",
        ONE_SERVER,
        [*job("a", 4), replace(job("a", 5, config=4)[4], placement=job("a", 4)[0].placement)],
        {},
        {"a": "a-worker-4 has number 4, but annotation ultraserver-webhook.io/place has 4 workers"},
    ),
    Case(
        "a job whose workers have different annotations waits",
        ONE_SERVER,
        with_first_pod(job("a", 4), placement=job("a", 8)[0].placement),
        {},
        {"a": "its workers have different placement annotations: 4 workers of node config 4 and 8 workers"},
    ),
    Case(
        "a job whose workers do not fill units waits",
        TWO_SERVERS,
        job("a", 6, config=4),
        {},
        {"a": "6 workers do not fill units of 4 nodes"},
    ),
    Case(
        "a job with an invalid annotation waits",
        ONE_SERVER,
        with_first_pod(job("a", 4), placement=None, fault=("placement", "annotation x is 'y'")),
        {},
        {"a": "a-worker-0: annotation x is 'y'"},
    ),
    Case(
        "a gated pod without a job label waits",
        ONE_SERVER,
        with_first_pod(job("a", 4), job=""),
        {},
        {"a": "3 of 4 workers exist", "a-worker-0": "no job label"},
    ),
    Case(
        "a job with another gate waits",
        ONE_SERVER,
        with_first_pod(job("a", 4), gates=("kueue", *job("a", 4)[0].gates)),
        {},
        {"a": "a-worker-0 waits for another gate as well: kueue"},
    ),
    Case(
        "pods with an unknown label of units wait",
        ONE_SERVER,
        [replace(pod, placement=Placement(Placer.WHOLE_JOB, 4, 4, "rack")) for pod in job("a", 4)],
        {},
        {
            f"a-worker-{index}": "names units of 4 nodes with label 'rack': the rule table has none"
            for index in range(4)
        },
    ),
    # Admitted jobs.
    Case("a running job is left alone", ONE_SERVER, bind_pods(job("a", 4), ONE_SERVER, started=True)),
    Case(
        "a launcher that comes late is admitted",
        ONE_SERVER,
        bind_pods(job("a", 4), ONE_SERVER, started=True) + job("a", 4, launcher=True)[4:],
        {"a": ""},
    ),
    Case(
        "a launcher waits while a worker is missing",
        ONE_SERVER,
        bind_pods(job("a", 4), ONE_SERVER, started=True)[1:] + job("a", 4, launcher=True)[4:],
        {},
        {"a": "3 of 4 workers exist"},
    ),
    Case(
        "a recreated worker gets the unit of its block",
        TWO_SERVERS,
        bind_pods(job("a", 8), TWO_SERVERS, started=True)[:7] + job("a", 8)[7:],
        {"a": "us-02"},
    ),
    Case(
        "the node of a missing worker stays held",
        ONE_SERVER,
        bind_pods(job("a", 4), ONE_SERVER, started=True)[:3] + job("b", 1),
        {},
        {"b": "held by team/a"},
    ),
    Case(
        "a recreated worker waits if its node is sick",
        changed_nodes(TWO_SERVERS, n1_3={"cordoned": True}),
        bind_pods(job("a", 4), select_nodes(TWO_SERVERS, "n1-0", "n1-1", "n1-2", "n2-0"), started=True)[:3]
        + job("a", 4)[3:],
        {},
        {"a": "a-worker-3 needs a node in us-01, where its block is: node n1-3 is cordoned"},
    ),
    Case(
        "a recreated worker waits if its node has another holder",
        ONE_SERVER,
        [*bind_pods(job("a", 4), ONE_SERVER, started=True)[:3], *job("a", 4)[3:], *pods_without_job("n1-3")],
        {},
        {"a": "a-worker-3 needs a node in us-01, where its block is: node n1-3 is held by other/xn1-3"},
    ),
    Case(
        "a recreated worker of a block that straddles gets a unit with a free node",
        changed_nodes(TWO_SERVERS, n1_2={"cordoned": True}, n1_3={"cordoned": True}),
        bind_pods(job("a", 4), select_nodes(TWO_SERVERS, "n1-0", "n1-1", "n2-0", "n2-1"), started=True)[:3]
        + job("a", 4)[3:],
        {"a": "us-02"},
    ),
    Case(
        "workers bound without pins hold their UltraServer",
        TWO_SERVERS,
        [
            replace(pod, admitted_at=None)
            for pod in bind_pods(job("a", 4), select_nodes(TWO_SERVERS, "n1-0", "n1-1", "n1-2", "n1-3"))
        ][:1]
        + job("b", 4),
        {"b": "us-02"},
    ),
    Case(
        "a job waits for a pod that was admitted by hand and has no node",
        TWO_SERVERS,
        with_first_pod(job("a", 4), gates=()),
        {},
        {"a": "a-worker-0 was admitted by hand and has no node yet"},
    ),
    Case(
        "the other workers get the unit of a pod that was admitted by hand",
        TWO_SERVERS,
        with_first_pod(job("a", 4), gates=(), node="n2-1"),
        {"a": "us-02"},
    ),
    Case(
        "a job waits if a pod that was admitted by hand is in no unit",
        TWO_SERVERS,
        with_first_pod(job("a", 4), gates=(), node="gone"),
        {},
        {"a": "a-worker-0 was admitted by hand and is on node gone, which is in no unit"},
    ),
    # Jobs that are admitted in part.
    Case(
        "workers without pins get the unit of their block",
        TWO_SERVERS,
        [pin_pod(pod, SERVER_4, "us-02") for pod in job("a", 4)[:2]] + job("a", 4)[2:],
        {"a": "us-02"},
    ),
    Case(
        "a block without pins gets its planned unit before an older job",
        TWO_SERVERS,
        [pin_pod(pod, SERVER_4, "us-02", plan="1=us-01") for pod in job("a", 8)[:1]]
        + job("a", 8)[1:]
        + job("old", 4, age=HOUR),
        {"a": "us-02 us-01"},
        {"old": "us-01: held by team/a"},
    ),
    Case(
        "a block without pins and without a plan comes after an older job",
        TWO_SERVERS,
        [pin_pod(pod, SERVER_4, "us-02") for pod in job("a", 8)[:1]]
        + job("a", 8)[1:]
        + job("old", 4, age=HOUR),
        {"old": "us-01"},
        {"a": "needs 1 whole UltraServer; 0 free"},
    ),
    Case(
        "the remaining gates of an admitted job are removed",
        ONE_SERVER,
        [ungate_pod(pin_pod(pod, SERVER_4, "us-01")) for pod in job("a", 4)[:2]]
        + [pin_pod(pod, SERVER_4, "us-01") for pod in job("a", 4)[2:]],
        {"a": ""},
    ),
    Case(
        "a job with a pin to a unit with a sick node is not admitted",
        changed_nodes(TWO_SERVERS, n1_0={"ready": False}),
        [pin_pod(pod, SERVER_4, "us-01") for pod in job("a", 4)],
        {},
        {"a": "a-worker-0 needs a node in us-01, where its block is: node n1-0 is not ready"},
    ),
    Case(
        "a block with pins to two units is not admitted",
        TWO_SERVERS,
        [pin_pod(pod, SERVER_4, f"us-0{1 + number % 2}") for number, pod in enumerate(job("a", 4))],
        {},
        {"a": "block 0 is pinned to several units: us-01, us-02"},
    ),
    Case(
        "two blocks with pins to one unit are not admitted",
        TWO_SERVERS,
        [pin_pod(pod, SERVER_4, "us-01") for pod in job("a", 8)],
        {},
        {"a": "blocks 0 and 1 are both pinned to us-01"},
    ),
    Case(
        "two jobs with pins to one unit are not admitted",
        TWO_SERVERS,
        [pin_pod(pod, SERVER_4, "us-01") for pod in job("a", 4) + job("b", 4)],
        {},
        {"a": "node n1-0 is held by team/b", "b": "node n1-0 is held by team/a"},
    ),
    Case(
        "units are reserved for a job that lost one of its units",
        TWO_SERVERS,
        bind_pods(job("r", 1), select_nodes(TWO_SERVERS, "n2-0"))
        + bind_pods(job("a", 8), TWO_SERVERS, started=True)[:4]
        + job("a", 8, age=HOUR)[4:]
        + job("b", 1),
        {},
        {
            "a": "needs 1 whole UltraServer; 0 free; what becomes free is reserved for it",
            "b": "reserved for team/a",
        },
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_each_case_has_its_admissions_and_reasons(case: Case) -> None:
    decision = decision_about(case.nodes, case.pods)
    assert placed_jobs(decision) == case.placed
    result = waiting_reasons(decision)
    assert result.keys() == case.waiting.keys()
    for name, part in case.waiting.items():
        assert part in result[name]
    assert not decision.deletions


# ---- Admitted jobs that do not get their nodes -------------------------------------------------------------

NODES_WITH_A_SICK_NODE = changed_nodes(TWO_SERVERS, n1_0={"ready": False})
WORKERS_WITHOUT_NODES = [ungate_pod(pin_pod(pod, SERVER_4, "us-01")) for pod in job("a", 4)]
HALF_BOUND = [
    *bind_pods(job("a", 4)[:2], select_nodes(TWO_SERVERS, "n1-1", "n1-2")),
    *WORKERS_WITHOUT_NODES[2:],
]


def unsettled_memory(count: int, ago: Any, key: tuple[str, str] = ("team", "team.a")) -> Memory:
    """Returns a memory of a job that has lacked nodes for ``ago``; ``count`` of its workers have nodes."""
    return Memory({key: Unsettled(NOW - ago, count)})


def test_an_admitted_job_has_two_minutes_to_get_its_nodes() -> None:
    decision = decision_about(NODES_WITH_A_SICK_NODE, HALF_BOUND, unsettled_memory(2, 2 * MINUTE - SECOND))
    assert not decision.deletions
    assert not decision.waiting


def test_after_two_minutes_workers_that_have_not_started_are_deleted() -> None:
    decision = decision_about(NODES_WITH_A_SICK_NODE, HALF_BOUND, unsettled_memory(2, 2 * MINUTE))
    assert deleted_pods(decision) == ["a-worker-0", "a-worker-1", "a-worker-2", "a-worker-3"]
    why = "admitted, but without all its nodes after 120 s: not every worker got a node"
    assert decision.deletions[0].why == why


def test_started_workers_are_not_deleted() -> None:
    pods = [
        *bind_pods(job("a", 4)[:2], select_nodes(TWO_SERVERS, "n1-1", "n1-2"), started=True),
        *WORKERS_WITHOUT_NODES[2:],
    ]
    decision = decision_about(NODES_WITH_A_SICK_NODE, pods, unsettled_memory(2, HOUR))
    assert deleted_pods(decision) == ["a-worker-2", "a-worker-3"]


def test_the_launcher_is_not_deleted() -> None:
    launcher = ungate_pod(job("a", 4, launcher=True)[4])
    decision = decision_about(
        NODES_WITH_A_SICK_NODE, [*WORKERS_WITHOUT_NODES, launcher], unsettled_memory(0, HOUR)
    )
    assert deleted_pods(decision) == [pod.name for pod in WORKERS_WITHOUT_NODES]


def test_the_time_begins_again_when_more_workers_have_nodes() -> None:
    decision = decision_about(NODES_WITH_A_SICK_NODE, HALF_BOUND, unsettled_memory(0, HOUR))
    assert not decision.deletions
    assert decision.memory.unsettled["team", "team.a"].since == NOW


def test_a_new_pod_in_place_of_a_deleted_pod_gives_a_job_no_more_time() -> None:
    """Otherwise an author could hold an unused unit for ever by deleting a Pod each minute."""
    new_pod = replace(job("a", 4)[0], uid="again", created=NOW)
    memory = unsettled_memory(0, 2 * MINUTE)
    for new_pods in ([], [new_pod], [ungate_pod(pin_pod(new_pod, SERVER_4, "us-01"))]):
        assert deleted_pods(decision_about(ONE_SERVER, [*WORKERS_WITHOUT_NODES[1:], *new_pods], memory))[
            -3:
        ] == [pod.name for pod in WORKERS_WITHOUT_NODES[1:]]
    # A worker that is deleted, and gets its node again as a new pod, gives no more time, either.
    bound_pods = bind_pods(job("a", 4)[:2], select_nodes(ONE_SERVER, "n1-0", "n1-1"))
    for existing_pods in (bound_pods, bound_pods[:1]):
        assert deleted_pods(
            decision_about(
                ONE_SERVER, [*existing_pods, *WORKERS_WITHOUT_NODES[2:]], unsettled_memory(2, 2 * MINUTE)
            )
        )


def test_a_worker_that_is_recreated_late_has_the_whole_time_to_get_its_node() -> None:
    """The worker may have waited for hours because its node was sick."""
    running_pods = bind_pods(job("a", 4), ONE_SERVER, started=True)[1:]
    decision = decision_about(
        NODES_WITH_A_SICK_NODE, [*running_pods, job("a", 4)[0]], unsettled_memory(3, HOUR)
    )
    assert not decision.admissions
    assert not deleted_pods(
        decision_about(ONE_SERVER, [*running_pods, WORKERS_WITHOUT_NODES[0]], decision.memory)
    )


def test_a_job_with_a_running_worker_gets_no_more_time_by_deleting_other_workers() -> None:
    """Otherwise a job with one running Pod could hold all its units for ever."""
    running_worker = bind_pods(job("a", 8)[:1], select_nodes(ONE_SERVER, "n1-0"), started=True)
    other_workers = [ungate_pod(pin_pod(pod, SERVER_4, f"us-0{1 + pod.block}")) for pod in job("a", 8)[1:]]
    new_workers = [replace(pod, uid="again", admitted_at=NOW) for pod in other_workers[:1]]
    assert (
        len(
            deleted_pods(
                decision_about(
                    TWO_SERVERS,
                    [*running_worker, *new_workers, *other_workers[1:]],
                    unsettled_memory(1, 2 * MINUTE),
                )
            )
        )
        == 7
    )


def test_a_job_with_refused_writes_is_evicted_after_the_same_time_as_other_jobs() -> None:
    """A user who changes a Pod all the time must not hold nodes without using them."""
    half_admitted = [*WORKERS_WITHOUT_NODES[:2], *job("a", 4)[2:]]
    for ago, deleted_count in ((2 * MINUTE, 2), (MINUTE, 0)):
        failures = {("team", "team.a"): Failure(9, NOW - ago, "conflict")}
        memory = replace(unsettled_memory(0, 2 * MINUTE), failures=failures)
        assert len(deleted_pods(decision_about(ONE_SERVER, half_admitted, memory))) == deleted_count


def test_a_leader_with_an_empty_memory_gives_the_whole_time() -> None:
    decision = decision_about(NODES_WITH_A_SICK_NODE, HALF_BOUND)
    assert not decision.deletions
    assert replace(decision.memory, admitted_jobs={}) == replace(
        unsettled_memory(2, 0 * SECOND), first_decision=NOW, decided_at=NOW
    )


def test_no_pod_of_a_running_job_with_a_missing_worker_is_deleted() -> None:
    """Workers that still pull images are not deleted, either: an elastic job may have become smaller."""
    pinned_pods = [pin_pod(pod, SERVER_4, "us-01") for pod in job("a", 4)]
    decision = decision_about(ONE_SERVER, bind_pods(pinned_pods, ONE_SERVER)[:3], unsettled_memory(3, HOUR))
    assert not decision.deletions


def test_a_recreated_worker_is_admitted_after_any_time() -> None:
    pods = bind_pods(job("a", 4), ONE_SERVER, started=True)[:3] + job("a", 4)[3:]
    assert placed_jobs(decision_about(ONE_SERVER, pods, unsettled_memory(3, HOUR))) == {"a": "us-01"}


def test_an_evicted_job_is_admitted_to_another_unit_at_once() -> None:
    first_decision = decision_about(NODES_WITH_A_SICK_NODE, WORKERS_WITHOUT_NODES, unsettled_memory(0, HOUR))
    assert first_decision.memory.failures["team", "team.a"] == Failure(1, NOW)
    # The failed unit is avoided even if its nodes are Ready: something unknown kept the pods off it.
    assert placed_jobs(decision_about(TWO_SERVERS, job("a", 4), first_decision.memory)) == {"a": "us-02"}


def test_a_repeated_deletion_is_not_a_second_failure() -> None:
    memory = unsettled_memory(0, HOUR)
    failure = Failure(1, NOW - SECOND)
    decision = decision_about(
        NODES_WITH_A_SICK_NODE, WORKERS_WITHOUT_NODES, replace(memory, failures={("team", "team.a"): failure})
    )
    assert len(deleted_pods(decision)) == 4
    assert decision.memory.failures == {("team", "team.a"): failure}


def test_the_units_of_a_failed_admission_are_used_if_no_other_unit_is_free() -> None:
    memory = Memory(failures={("team", "team.a"): Failure(1, NOW)})
    assert placed_jobs(decision_about(ONE_SERVER, job("a", 4), memory)) == {"a": "us-01"}


@pytest.mark.parametrize(
    ("count", "pause"),
    [(2, 2 * MINUTE), (3, 4 * MINUTE), (5, 16 * MINUTE), (6, 30 * MINUTE), (99, 30 * MINUTE)],
)
def test_a_job_backs_off_longer_after_each_failure(count: int, pause: Any) -> None:
    def decision_after(time: Any) -> Decision:
        failure = Failure(count, NOW - time)
        return decision_about(TWO_SERVERS, job("a", 4), Memory(failures={("team", "team.a"): failure}))

    assert placed_jobs(decision_after(pause)) == {"a": "us-01"}
    early_decision = decision_after(pause - SECOND)
    assert not early_decision.admissions
    assert waiting_reasons(early_decision) == {
        "a": f"admitted {count} times without getting its nodes; next attempt at 12:00:01 UTC"
    }


def test_an_evicted_job_with_a_remaining_worker_does_not_come_first() -> None:
    """Otherwise it would be tried again before all other jobs, without a backoff."""
    survivor, *other_workers = job("a", 4, priority=1)
    pods = [ungate_pod(pin_pod(survivor, SERVER_4, "us-01")), *other_workers]
    memory = Memory(failures={("team", "team.a"): Failure(2, NOW - SECOND)})
    decision = decision_about(TWO_SERVERS, [*pods, *job("b", 4)], memory)
    assert placed_jobs(decision) == {"b": "us-02"}
    assert "admitted 2 times without getting its nodes" in waiting_reasons(decision)["a"]
    memory_with_one_failure = Memory(failures={("team", "team.a"): Failure(1, NOW - SECOND)})
    order = [
        short_name(admission.job.key)
        for admission in decision_about(
            TWO_SERVERS, [*pods, *job("b", 4, priority=2)], memory_with_one_failure
        ).admissions
    ]
    assert order == ["b", "a"]


def test_a_job_that_was_evicted_loses_its_age() -> None:
    memory = Memory(failures={("team", "team.a"): Failure(1, NOW - SECOND)})
    waiting_pods = [*job("a", 4, age=HOUR), *job("b", 4, age=MINUTE)]
    assert placed_jobs(decision_about(ONE_SERVER, waiting_pods, memory)) == {"b": "us-01"}


def test_after_a_failed_admission_all_jobs_of_the_namespace_lose_their_age() -> None:
    """Otherwise a user with a hundred jobs that cannot start could hold a unit for 200 minutes."""
    evil_fields = {"namespace": "evil", "age": HOUR}
    stuck_pods = [ungate_pod(pin_pod(pod, SERVER_4, "us-01")) for pod in job("evil", 4, **evil_fields)]
    memory = unsettled_memory(0, 2 * MINUTE, ("evil", "evil.evil"))
    memory = decision_about(ONE_SERVER, [*stuck_pods, *job("next", 4, **evil_fields)], memory).memory
    waiting_pods = [*job("next", 4, **evil_fields), *job("a", 4)]
    assert placed_jobs(decision_about(ONE_SERVER, waiting_pods, memory)) == {"a": "us-01"}
    # Jobs of the namespace keep their order, and come before later jobs.
    later_jobs = [*job("b", 4, age=-MINUTE), *job("first", 4, namespace="evil", age=2 * HOUR)]
    assert placed_jobs(decision_about(ONE_SERVER, [*job("next", 4, **evil_fields), *later_jobs], memory)) == {
        "evil/first": "us-01"
    }


def test_a_job_that_is_deleted_before_its_eviction_counts_as_a_failed_admission() -> None:
    """Otherwise a hundred jobs, each deleted after 119 seconds, could hold a unit for three hours."""
    evil_key = ("evil", "evil.evil")
    for ago, failed_namespaces in ((MINUTE, ["evil"]), (10 * SECOND, [])):
        assert [
            *decision_about(ONE_SERVER, [], unsettled_memory(0, ago, evil_key)).memory.failed_namespaces
        ] == failed_namespaces
    failures = {evil_key: Failure(1, NOW - HOUR, "conflict")}
    memory = replace(unsettled_memory(0, MINUTE, evil_key), failures=failures)
    assert decision_about(ONE_SERVER, job("evil", 4, namespace="evil"), memory).memory.failed_namespaces
    # An evicted job has already failed, and a job with all its nodes has not failed.
    memory = replace(unsettled_memory(0, HOUR), failures={("team", "team.a"): Failure(0, NOW)})
    assert not decision_about(ONE_SERVER, [], memory).memory.failed_namespaces
    assert not decision_about(
        ONE_SERVER, bind_pods(job("a", 4), ONE_SERVER), unsettled_memory(3, HOUR)
    ).memory.failed_namespaces


def test_a_jobs_priority_is_the_lowest_of_its_workers() -> None:
    """A launcher uses no node, so no quota limits its priority class."""
    first_worker, *other_workers, launcher = job("a", 4, priority=9, launcher=True)
    for workers in ([first_worker, *other_workers], [replace(first_worker, priority=0), *other_workers]):
        waiting_job = [*workers[:1], *(replace(pod, priority=0) for pod in workers[1:]), launcher]
        assert placed_jobs(decision_about(ONE_SERVER, [*waiting_job, *job("b", 4, priority=1)])) == {
            "b": "us-01"
        }


def test_failures_are_forgotten_if_the_job_has_its_nodes_or_after_an_hour() -> None:
    failures = {
        ("team", "team.a"): Failure(3, NOW - MINUTE),
        ("team", "team.gone"): Failure(3, NOW - HOUR),
        ("team", "team.c"): Failure(3, NOW - MINUTE),
    }
    decision = decision_about(ONE_SERVER, bind_pods(job("a", 4), ONE_SERVER), Memory(failures=failures))
    assert decision.memory.failures.keys() == {("team", "team.c")}


# ---- Writes that the watch does not show yet ---------------------------------------------------------------


def test_written_pods_are_used_until_the_watch_shows_them() -> None:
    pods = job("a", 4)
    written_pods = [pin_pod(pod, SERVER_4, "us-02") for pod in pods]
    assert assume(pods, written_pods) == written_pods
    assert assume(pods, [ungate_pod(pod) for pod in written_pods]) == [
        ungate_pod(pod) for pod in written_pods
    ]


def test_pods_of_the_watch_are_used_if_they_are_later_than_written_pods() -> None:
    pods = job("a", 4)
    written_pods = [pin_pod(pod, SERVER_4, "us-02") for pod in pods]
    bound_pods = bind_pods(pods, ONE_SERVER)
    assert assume(bound_pods, written_pods) == bound_pods
    assert assume([], written_pods) == []


def test_a_unit_whose_pins_the_watch_does_not_show_yet_is_held() -> None:
    pods = job("a", 4) + job("b", 4)
    decision = decision_about(ONE_SERVER, pods)
    written_pods = [
        pin_pod(member.pod, SERVER_4, "us-01") for member in decision.admissions[0].job.unpinned_workers
    ]
    next_decision = decision_about(ONE_SERVER, assume(pods, written_pods))
    assert placed_jobs(next_decision) == {"a": ""}
    assert waiting_reasons(next_decision) == {"b": "needs 1 whole UltraServer; 0 free; us-01: held by team/a"}


def test_an_ultraserver_with_one_used_pair_has_one_free_pair() -> None:
    cluster = decision_about(ONE_SERVER, job("a", 2)).cluster
    assert cluster.free_count(SERVER_4, "us-01") == 2
    assert +cluster.count_states(SERVER_4) == {"part": 1}
    assert +cluster.count_states(SERVER_2) == {"free": 1, "used": 1}


@pytest.mark.parametrize("seed", range(6))
def test_the_cache_of_the_last_decision_does_not_change_a_decision(seed: int) -> None:
    random_source = random.Random(seed)  # noqa: S311 - reproducible
    nodes, memory, units = servers(4), Memory(), UNITS
    pairless = UnitSettings({key: kind for key, kind in UNITS.kinds.items() if key != SERVER_2})
    pods = [
        *bind_pods(
            job("runs", 4), select_nodes(nodes, *(f"n1-{number}" for number in range(4))), started=True
        ),
        *bind_pods(job("pair", 2), select_nodes(nodes, "n2-0", "n2-1"), started=True),
        *(pod for number in range(6) for pod in job(f"w{number}", random_source.choice([1, 2, 4, 8]))),
    ]
    topology = Topology(nodes.values())
    for step in range(12):
        match random_source.randrange(5):
            case 0:
                labels = random_source.choice([{}, nodes["n1-0"].labels])
                topology = Topology(changed_nodes(nodes, n1_0={"labels": labels}))
            case 1:
                units = random_source.choice([UNITS, pairless])
            case 2:
                number = random_source.randrange(len(pods))
                pods[number] = replace(
                    pods[number], priority=step, fault=random_source.choice([None, ("placement", "x")])
                )
            case 3:
                del pods[random_source.randrange(len(pods))]
        inputs = topology, pods, NOW + step * MINUTE, Tuning(units=units)
        decision, decision_without_cache = (
            decide(*inputs, memory),
            decide(*inputs, replace(memory, cache=None)),
        )
        assert decision.memory == decision_without_cache.memory
        assert (placed_jobs(decision), waiting_reasons(decision)) == (
            placed_jobs(decision_without_cache),
            waiting_reasons(decision_without_cache),
        )
        assert [waiting_job.why for waiting_job in decision.untrusted] == [
            waiting_job.why for waiting_job in decision_without_cache.untrusted
        ]
        assert decision.cluster.holders == decision_without_cache.cluster.holders
        memory = decision.memory
