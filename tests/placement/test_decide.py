"""What is decided, as a table: nodes and pods in a few words; who goes where, and why others wait."""

import random
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from contract.keys import SERVER_2, SERVER_4
from contract.place import Place, Placer
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
    admitted,
    bound,
    changed,
    decide,
    deleted,
    foreign,
    job,
    listed,
    name_of,
    node,
    on,
    pinned,
    placed,
    servers,
    waiting,
)

Nodes = Iterable[Node] | Mapping[str, Node]
FOUR = servers(4)
TWO = servers(2)
ONE = servers(1)


def ask(nodes: Nodes, pods: Iterable[Pod], memory: Memory | None = None) -> Decision:
    return decide(Topology(listed(nodes)), pods, NOW, memory=memory)


def first(pods: list[Pod], **changes: Any) -> list[Pod]:
    """Returns the pods, the first of them otherwise."""
    return [replace(pods[0], **changes), *pods[1:]]


@dataclass(frozen=True)
class Case:
    """A state, and what is to come of it: who goes where, and a part of why each of the others waits."""

    sentence: str
    nodes: Nodes
    pods: list[Pod]
    placed: dict[str, str] = field(default_factory=dict)
    waiting: dict[str, str] = field(default_factory=dict)


def held(*names: str) -> list[Pod]:
    return [foreign(f"x{name}", name) for name in names]


CASES = [
    Case("no pods, nothing to do", FOUR, []),
    Case("no nodes, all wait", [], job("a", 4), {}, {"a": "needs 1 whole UltraServer; 0 free; at most 0"}),
    # Node configs.
    Case("four workers get an UltraServer", FOUR, job("a", 4), {"a": "us-01"}),
    Case("sixteen get four", FOUR, job("a", 16), {"a": "us-01 us-02 us-03 us-04"}),
    Case("two get a pair", FOUR, job("a", 2), {"a": "us-01-a"}),
    Case("one gets a node", FOUR, job("a", 1), {"a": "n1-0"}),
    Case(
        "six get pairs of as few UltraServers as can be", TWO, job("a", 6), {"a": "us-01-a us-01-b us-02-a"}
    ),
    Case("three of node config 1 get three nodes", TWO, job("a", 3), {"a": "n1-0 n1-1 n1-2"}),
    Case(
        "four of node config 1 need no unit",
        changed(ONE, n1_0=None),
        job("a", 3, config=1),
        {"a": "n1-1 n1-2 n1-3"},
    ),
    Case(
        "a job larger than the cluster waits and says so",
        TWO,
        job("a", 12),
        {},
        {"a": "needs 3 whole UltraServers; 2 free; at most 2 can become free"},
    ),
    # What makes a unit unusable.
    Case("a cordoned node", changed(TWO, n1_3={"cordoned": True}), job("a", 4), {"a": "us-02"}),
    Case(
        "said by name",
        changed(ONE, n1_3={"cordoned": True}),
        job("a", 4),
        {},
        {"a": "us-01: node n1-3 is cordoned"},
    ),
    Case("a node gone", changed(ONE, n1_3=None), job("a", 4), {}, {"a": "us-01: 3 of 4 nodes present"}),
    Case(
        "a taint",
        changed(ONE, n1_3={"taints": (Taint("sick", "", "NoExecute"),)}),
        job("a", 4),
        {},
        {"a": "us-01: node n1-3 has the taint sick"},
    ),
    Case(
        "a taint that the pods tolerate is none",
        changed(ONE, n1_3={"taints": (Taint("sick", "", "NoExecute"),)}),
        job("a", 4, demand=replace(DEMAND, tolerations=(Toleration("sick", "Exists", "", ""),))),
        {"a": "us-01"},
    ),
    Case(
        "a taint that only asks is none",
        changed(ONE, n1_3={"taints": (Taint("sick", "", "PreferNoSchedule"),)}),
        job("a", 4),
        {"a": "us-01"},
    ),
    Case(
        "a pod with devices of any owner",
        ONE,
        [*job("a", 4), *held("n1-3")],
        {},
        {"a": "us-01: held by other/xn1-3"},
    ),
    Case(
        "a pod that says it keeps jobs off its whole UltraServer, and has no such term",
        TWO,
        [*job("a", 2), *job("b", 1), foreign("x", "n1-3", loose=True)],
        {"a": "us-01-a", "b": "n1-2"},
    ),
    Case(
        "a pod without devices is not a tenant",
        ONE,
        [*job("a", 4), foreign("d", "n1-3", neuron=False)],
        {"a": "us-01"},
    ),
    Case(
        "a tenant that is being deleted is one still",
        ONE,
        [*job("a", 4), foreign("x", "n1-3", deleting=True)],
        {},
        {"a": "held by other/x"},
    ),
    Case(
        "too little of another resource",
        ONE,
        [*job("a", 4), replace(foreign("big", "n1-2"), demand=Demand(requests={"cpu": 100_000}))],
        {},
        {"a": "us-01: node n1-2 does not have enough cpu"},
    ),
    Case(
        "a node outside a working UltraServer is in no unit",
        changed(ONE, n1_3={"labels": {**ONE["n1-3"].labels, SERVER_4: "0" * 16, SERVER_2: "0" * 16}}),
        job("a", 4),
        {},
        {"a": "us-01: 3 of 4 nodes present"},
    ),
    Case(
        "but good for a single worker, before all others",
        changed(TWO, n2_3={"labels": {**TWO["n2-3"].labels, SERVER_4: "0" * 16, SERVER_2: "0" * 16}}),
        job("a", 1),
        {"a": "n2-3"},
    ),
    Case(
        "five nodes with one server id are not a unit",
        [*[*ONE.values(), node(1, 2, labels={})][:4], replace(ONE["n1-3"], name="n9")],
        job("a", 4),
        {},
        {"a": "us-01: "},
    ),
    # Best fit.
    Case(
        "a single worker goes where a node is sick",
        changed(FOUR, n3_0={"ready": False}),
        job("a", 1),
        {"a": "n3-1"},
    ),
    Case("a single worker goes where others are", FOUR, [*job("a", 1), *held("n4-2")], {"a": "n4-3"}),
    Case("a pair goes where others are", FOUR, [*job("a", 2), *held("n4-2")], {"a": "us-04-a"}),
    Case(
        "a single worker leaves pairs alone",
        FOUR,
        [*job("a", 1), *held("n3-0", "n4-0", "n4-1")],
        {"a": "n3-1"},
    ),
    Case(
        "jobs decided together break into one UltraServer",
        FOUR,
        job("a", 1) + job("b", 1) + job("c", 2),
        {"a": "n1-0", "b": "n1-1", "c": "us-01-b"},
    ),
    # Order.
    Case(
        "the older first",
        ONE,
        job("young", 4) + job("old", 4, age=HOUR),
        {"old": "us-01"},
        {"young": "held by team/old"},
    ),
    Case(
        "priority before age",
        ONE,
        job("high", 4, priority=1) + job("old", 4, age=HOUR),
        {"high": "us-01"},
        {"old": "held by team/high"},
    ),
    Case("of the same age by name", ONE, job("b", 4) + job("a", 4), {"a": "us-01"}, {"b": "held by team/a"}),
    Case(
        "jobs of other namespaces are other jobs",
        TWO,
        job("a", 4) + job("a", 4, namespace="b-team"),
        {"a": "us-02", "b-team/a": "us-01"},
    ),
    Case(
        "a younger one passes one that does not fit",
        TWO,
        job("old", 12, age=HOUR) + job("a", 4),
        {"a": "us-01"},
        {"old": "at most 2"},
    ),
    Case(
        "while the older one has waited for less than ten minutes",
        TWO,
        bound(job("r", 4), on(TWO, "n2-0", "n2-1", "n2-2", "n2-3"))
        + job("old", 8, age=10 * MINUTE - SECOND)
        + job("a", 4),
        {"a": "us-01"},
        {"old": "needs 2 whole UltraServers; 0 free; us-01: held by team/a; us-02: held by team/r"},
    ),
    Case(
        "then units are reserved for it",
        TWO,
        bound(job("r", 4), on(TWO, "n2-0", "n2-1", "n2-2", "n2-3"))
        + job("old", 8, age=10 * MINUTE)
        + job("a", 4),
        {},
        {
            "old": "1 free; what becomes free is reserved for it; us-02: held by team/r",
            "a": "us-01: reserved for team/old",
        },
    ),
    Case(
        "smaller jobs get no node of what is reserved",
        TWO,
        bound(job("r", 1), on(TWO, "n2-0")) + job("old", 8, age=HOUR) + job("a", 1) + job("b", 2),
        {},
        {"old": "reserved for it", "a": "reserved for team/old", "b": "reserved for team/old"},
    ),
    Case(
        "nothing is reserved that the job does not need",
        FOUR,
        bound(job("r", 4), on(FOUR, "n1-0", "n1-1", "n1-2", "n1-3"))
        + bound(job("s", 8), on(FOUR, *(f"n{s}-{i}" for s in (2, 3) for i in range(4))))
        + job("old", 8, age=HOUR)
        + job("a", 4),
        {},
        {"old": "reserved for it", "a": "us-04: reserved for team/old"},
    ),
    Case(
        "a higher priority may take what is reserved",
        TWO,
        bound(job("r", 1), on(TWO, "n2-0")) + job("old", 8, age=HOUR) + job("a", 4, priority=9),
        {"a": "us-01"},
        {"old": "reserved for it"},
    ),
    Case(
        "nothing is reserved for a job that waiting does not help",
        TWO,
        [*held("n2-0"), *job("old", 8, age=HOUR), *job("a", 4)],
        {"a": "us-01"},
        {"old": "at most 1"},
    ),
    # Jobs that are not all there, or make no sense.
    Case("a worker is missing", ONE, job("a", 4)[:3], {}, {"a": "3 of 4 workers exist"}),
    Case(
        "only the launcher is there",
        ONE,
        job("a", 4, launcher=True)[4:],
        {},
        {"a": messages.NO_WORKERS},
    ),
    Case(
        "a worker that is being deleted is not there",
        ONE,
        first(job("a", 4), deleting=True),
        {},
        {"a": "3 of 4 workers exist"},
    ),
    Case("two of the same number", ONE, first(job("a", 4), number=1), {}, {"a": "have the same number 1"}),
    Case(
        "a number too high",
        ONE,
        [*job("a", 4), replace(job("a", 5, config=4)[4], place=job("a", 4)[0].place)],
        {},
        {"a": "a-worker-4 has number 4, but annotation ultraserver-webhook.io/place has 4 workers"},
    ),
    Case(
        "workers that disagree",
        ONE,
        first(job("a", 4), place=job("a", 8)[0].place),
        {},
        {"a": "its workers have different placement annotations: 4 workers of node config 4 and 8 workers"},
    ),
    Case(
        "units that are not filled",
        TWO,
        job("a", 6, config=4),
        {},
        {"a": "6 workers do not fill units of 4 nodes"},
    ),
    Case(
        "annotations that cannot be read",
        ONE,
        first(job("a", 4), place=None, fault=("place", "annotation x is 'y'")),
        {},
        {"a": "a-worker-0: annotation x is 'y'"},
    ),
    Case(
        "a gate without a job",
        ONE,
        first(job("a", 4), job=""),
        {},
        {"a": "3 of 4 workers exist", "a-worker-0": "no job label"},
    ),
    Case(
        "another gate as well",
        ONE,
        first(job("a", 4), gates=("kueue", *job("a", 4)[0].gates)),
        {},
        {"a": "a-worker-0 waits for another gate as well: kueue"},
    ),
    Case(
        "an unknown topology key",
        ONE,
        [replace(pod, place=Place(Placer.WHOLE_JOB, 4, 4, "rack")) for pod in job("a", 4)],
        {},
        {
            f"a-worker-{index}": "names units of 4 nodes with the label 'rack': the rule table has none"
            for index in range(4)
        },
    ),
    # What is open already.
    Case("a running job is left alone", ONE, bound(job("a", 4), ONE, started=True)),
    Case(
        "a launcher that comes late is admitted",
        ONE,
        bound(job("a", 4), ONE, started=True) + job("a", 4, launcher=True)[4:],
        {"a": ""},
    ),
    Case(
        "a launcher waits while a worker is missing",
        ONE,
        bound(job("a", 4), ONE, started=True)[1:] + job("a", 4, launcher=True)[4:],
        {},
        {"a": "3 of 4 workers exist"},
    ),
    Case(
        "a worker recreated goes back to its block",
        TWO,
        bound(job("a", 8), TWO, started=True)[:7] + job("a", 8)[7:],
        {"a": "us-02"},
    ),
    Case(
        "its node is not given away meanwhile",
        ONE,
        bound(job("a", 4), ONE, started=True)[:3] + job("b", 1),
        {},
        {"b": "held by team/a"},
    ),
    Case(
        "it waits where its node is sick",
        changed(TWO, n1_3={"cordoned": True}),
        bound(job("a", 4), on(TWO, "n1-0", "n1-1", "n1-2", "n2-0"), started=True)[:3] + job("a", 4)[3:],
        {},
        {"a": "a-worker-3 needs a node in us-01, where its block is: node n1-3 is cordoned"},
    ),
    Case(
        "it waits where another stands on its node",
        ONE,
        [*bound(job("a", 4), ONE, started=True)[:3], *job("a", 4)[3:], *held("n1-3")],
        {},
        {"a": "a-worker-3 needs a node in us-01, where its block is: node n1-3 is held by other/xn1-3"},
    ),
    Case(
        "a block that straddles gets its worker back where there is room",
        changed(TWO, n1_2={"cordoned": True}, n1_3={"cordoned": True}),
        bound(job("a", 4), on(TWO, "n1-0", "n1-1", "n2-0", "n2-1"), started=True)[:3] + job("a", 4)[3:],
        {"a": "us-02"},
    ),
    Case(
        "workers bound without pins hold their UltraServer",
        TWO,
        [
            replace(pod, admitted_at=None)
            for pod in bound(job("a", 4), on(TWO, "n1-0", "n1-1", "n1-2", "n1-3"))
        ][:1]
        + job("b", 4),
        {"b": "us-02"},
    ),
    Case(
        "a pod opened by hand is waited for",
        TWO,
        first(job("a", 4), gates=()),
        {},
        {"a": "a-worker-0 was admitted by hand and has no node yet"},
    ),
    Case("the others follow it", TWO, first(job("a", 4), gates=(), node="n2-1"), {"a": "us-02"}),
    Case(
        "but not where no unit is",
        TWO,
        first(job("a", 4), gates=(), node="gone"),
        {},
        {"a": "a-worker-0 was admitted by hand and is on node gone, which is in no unit"},
    ),
    # Jobs opened in part.
    Case(
        "pins that are missing go where the others are",
        TWO,
        [pinned(pod, SERVER_4, "us-02") for pod in job("a", 4)[:2]] + job("a", 4)[2:],
        {"a": "us-02"},
    ),
    Case(
        "a block without pins gets the unit of the plan, before an older job does",
        TWO,
        [pinned(pod, SERVER_4, "us-02", plan="1=us-01") for pod in job("a", 8)[:1]]
        + job("a", 8)[1:]
        + job("old", 4, age=HOUR),
        {"a": "us-02 us-01"},
        {"old": "us-01: held by team/a"},
    ),
    Case(
        "without a plan it has its place in the order",
        TWO,
        [pinned(pod, SERVER_4, "us-02") for pod in job("a", 8)[:1]]
        + job("a", 8)[1:]
        + job("old", 4, age=HOUR),
        {"old": "us-01"},
        {"a": "needs 1 whole UltraServer; 0 free"},
    ),
    Case(
        "gates that are left go",
        ONE,
        [admitted(pinned(pod, SERVER_4, "us-01")) for pod in job("a", 4)[:2]]
        + [pinned(pod, SERVER_4, "us-01") for pod in job("a", 4)[2:]],
        {"a": ""},
    ),
    Case(
        "what was pinned onto a node that is sick now is not admitted",
        changed(TWO, n1_0={"ready": False}),
        [pinned(pod, SERVER_4, "us-01") for pod in job("a", 4)],
        {},
        {"a": "a-worker-0 needs a node in us-01, where its block is: node n1-0 is not ready"},
    ),
    Case(
        "a block that two leaders pinned apart is not admitted",
        TWO,
        [pinned(pod, SERVER_4, f"us-0{1 + number % 2}") for number, pod in enumerate(job("a", 4))],
        {},
        {"a": "block 0 is pinned to several units: us-01, us-02"},
    ),
    Case(
        "nor are two blocks that they pinned to one unit",
        TWO,
        [pinned(pod, SERVER_4, "us-01") for pod in job("a", 8)],
        {},
        {"a": "blocks 0 and 1 are both pinned to us-01"},
    ),
    Case(
        "nor are two jobs",
        TWO,
        [pinned(pod, SERVER_4, "us-01") for pod in job("a", 4) + job("b", 4)],
        {},
        {"a": "node n1-0 is held by team/b", "b": "node n1-0 is held by team/a"},
    ),
    Case(
        "units are reserved for a job that lost one, as for others",
        TWO,
        bound(job("r", 1), on(TWO, "n2-0"))
        + bound(job("a", 8), TWO, started=True)[:4]
        + job("a", 8, age=HOUR)[4:]
        + job("b", 1),
        {},
        {
            "a": "needs 1 whole UltraServer; 0 free; what becomes free is reserved for it",
            "b": "reserved for team/a",
        },
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.sentence)
def test_decided(case: Case) -> None:
    decision = ask(case.nodes, case.pods)
    assert placed(decision) == case.placed
    result = waiting(decision)
    assert result.keys() == case.waiting.keys()
    for name, part in case.waiting.items():
        assert part in result[name]
    assert not decision.deletions


# ---- Jobs that were opened and do not get their nodes -----------------------------------------------------

SICK = changed(TWO, n1_0={"ready": False})
ADRIFT = [admitted(pinned(pod, SERVER_4, "us-01")) for pod in job("a", 4)]
HALF = [*bound(job("a", 4)[:2], on(TWO, "n1-1", "n1-2")), *ADRIFT[2:]]


def remembered(count: int, ago: Any, key: tuple[str, str] = ("team", "team.a")) -> Memory:
    """Returns a memory of as many workers with a node, so long ago."""
    return Memory({key: Unsettled(NOW - ago, count)})


def test_a_job_that_was_opened_has_its_time_to_bind() -> None:
    decision = ask(SICK, HALF, remembered(2, 2 * MINUTE - SECOND))
    assert not decision.deletions
    assert not decision.waiting


def test_after_that_what_has_not_started_is_deleted() -> None:
    decision = ask(SICK, HALF, remembered(2, 2 * MINUTE))
    assert deleted(decision) == ["a-worker-0", "a-worker-1", "a-worker-2", "a-worker-3"]
    why = "admitted, but without all its nodes after 120 s: not every worker got a node"
    assert decision.deletions[0].why == why


def test_what_started_is_never_deleted() -> None:
    pods = [*bound(job("a", 4)[:2], on(TWO, "n1-1", "n1-2"), started=True), *ADRIFT[2:]]
    decision = ask(SICK, pods, remembered(2, HOUR))
    assert deleted(decision) == ["a-worker-2", "a-worker-3"]


def test_the_launcher_is_not_deleted() -> None:
    launcher = admitted(job("a", 4, launcher=True)[4])
    decision = ask(SICK, [*ADRIFT, launcher], remembered(0, HOUR))
    assert deleted(decision) == [pod.name for pod in ADRIFT]


def test_the_time_restarts_with_every_change() -> None:
    decision = ask(SICK, HALF, remembered(0, HOUR))
    assert not decision.deletions
    assert decision.memory.unsettled["team", "team.a"].since == NOW


def test_a_pod_in_place_of_one_that_was_deleted_gives_a_job_no_more_time() -> None:
    """Its author would hold the unit for ever by deleting a Pod a minute: nothing of it is used."""
    again = replace(job("a", 4)[0], uid="again", created=NOW)
    memory = remembered(0, 2 * MINUTE)
    for comes_back in ([], [again], [admitted(pinned(again, SERVER_4, "us-01"))]):
        assert deleted(ask(ONE, [*ADRIFT[1:], *comes_back], memory))[-3:] == [pod.name for pod in ADRIFT[1:]]
    # Nor does one more that is deleted and gets its node again.
    got = bound(job("a", 4)[:2], on(ONE, "n1-0", "n1-1"))
    for there in (got, got[:1]):
        assert deleted(ask(ONE, [*there, *ADRIFT[2:]], remembered(2, 2 * MINUTE)))


def test_a_worker_that_comes_back_late_has_the_time_that_an_admission_takes() -> None:
    """Its node may have been sick for hours: nothing was admitted meanwhile."""
    running = bound(job("a", 4), ONE, started=True)[1:]
    waits = ask(SICK, [*running, job("a", 4)[0]], remembered(3, HOUR))
    assert not waits.admissions
    assert not deleted(ask(ONE, [*running, ADRIFT[0]], waits.memory))


def test_who_is_at_work_holds_nodes_for_others_no_longer_by_deleting_them() -> None:
    """A job of which one Pod works would have all the others' units for ever."""
    at_work = bound(job("a", 8)[:1], on(ONE, "n1-0"), started=True)
    others = [admitted(pinned(pod, SERVER_4, f"us-0{1 + pod.block}")) for pod in job("a", 8)[1:]]
    again = [replace(pod, uid="again", admitted_at=NOW) for pod in others[:1]]
    assert len(deleted(ask(TWO, [*at_work, *again, *others[1:]], remembered(1, 2 * MINUTE)))) == 7


def test_a_job_whose_writes_are_refused_holds_nodes_without_using_them_no_longer_than_others() -> None:
    """A tenant who changes a pod all the time once kept the nodes for half an hour."""
    half = [*ADRIFT[:2], *job("a", 4)[2:]]
    for ago, gone in ((2 * MINUTE, 2), (MINUTE, 0)):
        refused = {("team", "team.a"): Failure(9, NOW - ago, "conflict")}
        memory = replace(remembered(0, 2 * MINUTE), failures=refused)
        assert len(deleted(ask(ONE, half, memory))) == gone


def test_a_leader_that_remembers_nothing_gives_the_whole_time() -> None:
    decision = ask(SICK, HALF)
    assert not decision.deletions
    assert replace(decision.memory, admitted_jobs={}) == replace(
        remembered(2, 0 * SECOND), first_decision=NOW, decided_at=NOW
    )


def test_a_running_job_that_lost_a_worker_loses_no_more() -> None:
    """Not even those that still pull their images: an elastic Job may have become smaller."""
    pinned_ones = [pinned(pod, SERVER_4, "us-01") for pod in job("a", 4)]
    decision = ask(ONE, bound(pinned_ones, ONE)[:3], remembered(3, HOUR))
    assert not decision.deletions


def test_a_worker_that_comes_back_is_let_in_however_late() -> None:
    pods = bound(job("a", 4), ONE, started=True)[:3] + job("a", 4)[3:]
    assert placed(ask(ONE, pods, remembered(3, HOUR))) == {"a": "us-01"}


def test_what_was_deleted_is_opened_elsewhere_at_once() -> None:
    first_try = ask(SICK, ADRIFT, remembered(0, HOUR))
    assert first_try.memory.failures["team", "team.a"] == Failure(1, NOW)
    # Even where the node looks well: something that cannot be seen from here kept the pods off it.
    assert placed(ask(TWO, job("a", 4), first_try.memory)) == {"a": "us-02"}


def test_a_deletion_that_was_refused_is_tried_again_and_no_second_failure() -> None:
    memory = remembered(0, HOUR)
    failed = Failure(1, NOW - SECOND)
    again = ask(SICK, ADRIFT, replace(memory, failures={("team", "team.a"): failed}))
    assert len(deleted(again)) == 4
    assert again.memory.failures == {("team", "team.a"): failed}


def test_units_of_a_failure_are_tried_again_without_others() -> None:
    memory = Memory(failures={("team", "team.a"): Failure(1, NOW)})
    assert placed(ask(ONE, job("a", 4), memory)) == {"a": "us-01"}


@pytest.mark.parametrize(
    ("count", "pause"),
    [(2, 2 * MINUTE), (3, 4 * MINUTE), (5, 16 * MINUTE), (6, 30 * MINUTE), (99, 30 * MINUTE)],
)
def test_a_job_that_fails_again_and_again_is_tried_less_and_less(count: int, pause: Any) -> None:
    def after(passed: Any) -> Decision:
        failure = Failure(count, NOW - passed)
        return ask(TWO, job("a", 4), Memory(failures={("team", "team.a"): failure}))

    assert placed(after(pause)) == {"a": "us-01"}
    early = after(pause - SECOND)
    assert not early.admissions
    assert waiting(early) == {
        "a": f"admitted {count} times without getting its nodes; next attempt at 12:00:01 UTC"
    }


def test_a_job_that_was_evicted_is_no_started_one_though_a_worker_of_it_survived() -> None:
    """It would be tried again before all others, without a pause, for as long as its author likes."""
    survivor, *others = job("a", 4, priority=1)
    evil = [admitted(pinned(survivor, SERVER_4, "us-01")), *others]
    memory = Memory(failures={("team", "team.a"): Failure(2, NOW - SECOND)})
    decision = ask(TWO, [*evil, *job("b", 4)], memory)
    assert placed(decision) == {"b": "us-02"}
    assert "admitted 2 times without getting its nodes" in waiting(decision)["a"]
    once = Memory(failures={("team", "team.a"): Failure(1, NOW - SECOND)})
    order = [name_of(found.job.key) for found in ask(TWO, [*evil, *job("b", 4, priority=2)], once).admissions]
    assert order == ["b", "a"]


def test_a_job_that_was_evicted_loses_its_age() -> None:
    memory = Memory(failures={("team", "team.a"): Failure(1, NOW - SECOND)})
    waits = [*job("a", 4, age=HOUR), *job("b", 4, age=MINUTE)]
    assert placed(ask(ONE, waits, memory)) == {"b": "us-01"}


def test_an_admission_in_vain_costs_all_jobs_of_its_namespace_their_age() -> None:
    """A tenant with a hundred jobs that cannot start would otherwise have a unit for 200 minutes."""
    evil = {"namespace": "evil", "age": HOUR}
    vain = [admitted(pinned(pod, SERVER_4, "us-01")) for pod in job("evil", 4, **evil)]
    memory = remembered(0, 2 * MINUTE, ("evil", "evil.evil"))
    memory = ask(ONE, [*vain, *job("next", 4, **evil)], memory).memory
    waits = [*job("next", 4, **evil), *job("a", 4)]
    assert placed(ask(ONE, waits, memory)) == {"a": "us-01"}
    # Among themselves they keep their order, and come before later jobs.
    later = [*job("b", 4, age=-MINUTE), *job("first", 4, namespace="evil", age=2 * HOUR)]
    assert placed(ask(ONE, [*job("next", 4, **evil), *later], memory)) == {"evil/first": "us-01"}


def test_who_ends_a_job_before_it_is_given_up_pays_as_for_one_that_was() -> None:
    """A hundred jobs that cannot start, each deleted after 119 seconds, had a unit for three hours."""
    evil = ("evil", "evil.evil")
    for ago, costs in ((MINUTE, ["evil"]), (10 * SECOND, [])):
        assert [*ask(ONE, [], remembered(0, ago, evil)).memory.failed_namespaces] == costs
    refused = {evil: Failure(1, NOW - HOUR, "conflict")}
    memory = replace(remembered(0, MINUTE, evil), failures=refused)
    assert ask(ONE, job("evil", 4, namespace="evil"), memory).memory.failed_namespaces
    # What was given up has paid, and who has all nodes now owes nothing.
    memory = replace(remembered(0, HOUR), failures={("team", "team.a"): Failure(0, NOW)})
    assert not ask(ONE, [], memory).memory.failed_namespaces
    assert not ask(ONE, bound(job("a", 4), ONE), remembered(3, HOUR)).memory.failed_namespaces


def test_a_jobs_priority_is_the_lowest_of_its_workers() -> None:
    """A launcher takes no node, and neither a quota on devices nor one on nodes pays for its class."""
    low, *others, launcher = job("a", 4, priority=9, launcher=True)
    for priorities in ([low, *others], [replace(low, priority=0), *others]):
        evil = [*priorities[:1], *(replace(pod, priority=0) for pod in priorities[1:]), launcher]
        assert placed(ask(ONE, [*evil, *job("b", 4, priority=1)])) == {"b": "us-01"}


def test_failures_are_forgotten_when_the_job_is_whole_or_long_gone() -> None:
    failures = {
        ("team", "team.a"): Failure(3, NOW - MINUTE),
        ("team", "team.gone"): Failure(3, NOW - HOUR),
        ("team", "team.c"): Failure(3, NOW - MINUTE),
    }
    decision = ask(ONE, bound(job("a", 4), ONE), Memory(failures=failures))
    assert decision.memory.failures.keys() == {("team", "team.c")}


# ---- What the watch does not show yet ---------------------------------------------------------------------


def test_what_was_written_counts_until_the_watch_shows_it() -> None:
    pods = job("a", 4)
    written = [pinned(pod, SERVER_4, "us-02") for pod in pods]
    assert assume(pods, written) == written
    assert assume(pods, [admitted(pod) for pod in written]) == [admitted(pod) for pod in written]


def test_what_the_watch_shows_later_counts_for_more() -> None:
    pods = job("a", 4)
    written = [pinned(pod, SERVER_4, "us-02") for pod in pods]
    gone_on = bound(pods, ONE)
    assert assume(gone_on, written) == gone_on
    assert assume([], written) == []


def test_a_unit_that_was_given_away_is_not_given_twice() -> None:
    pods = job("a", 4) + job("b", 4)
    decision = ask(ONE, pods)
    written = [
        pinned(member.pod, SERVER_4, "us-01") for member in decision.admissions[0].job.unpinned_workers
    ]
    again = ask(ONE, assume(pods, written))
    assert placed(again) == {"a": ""}
    assert waiting(again) == {"b": "needs 1 whole UltraServer; 0 free; us-01: held by team/a"}


def test_an_ultraserver_that_gave_a_pair_away_has_the_other_pair_left() -> None:
    cluster = ask(ONE, job("a", 2)).cluster
    assert cluster.free_count(SERVER_4, "us-01") == 2
    assert +cluster.count_states(SERVER_4) == {"part": 1}
    assert +cluster.count_states(SERVER_2) == {"free": 1, "used": 1}


@pytest.mark.parametrize("seed", range(6))
def test_what_is_known_of_unchanged_pods_changes_no_decision(seed: int) -> None:
    chance = random.Random(seed)  # noqa: S311 - a world that can be had again
    nodes, memory, units = servers(4), Memory(), UNITS
    pairless = UnitSettings({key: kind for key, kind in UNITS.kinds.items() if key != SERVER_2})
    pods = [
        *bound(job("runs", 4), on(nodes, *(f"n1-{place}" for place in range(4))), started=True),
        *bound(job("pair", 2), on(nodes, "n2-0", "n2-1"), started=True),
        *(pod for number in range(6) for pod in job(f"w{number}", chance.choice([1, 2, 4, 8]))),
    ]
    topology = Topology(nodes.values())
    for step in range(12):
        match chance.randrange(5):
            case 0:
                labels = chance.choice([{}, nodes["n1-0"].labels])
                topology = Topology(changed(nodes, n1_0={"labels": labels}))
            case 1:
                units = chance.choice([UNITS, pairless])
            case 2:
                number = chance.randrange(len(pods))
                pods[number] = replace(
                    pods[number], priority=step, fault=chance.choice([None, ("place", "x")])
                )
            case 3:
                del pods[chance.randrange(len(pods))]
        given = topology, pods, NOW + step * MINUTE, Tuning(units=units)
        decision, afresh = decide(*given, memory), decide(*given, replace(memory, cache=None))
        assert decision.memory == afresh.memory
        assert (placed(decision), waiting(decision)) == (placed(afresh), waiting(afresh))
        assert [each.why for each in decision.untrusted] == [each.why for each in afresh.untrusted]
        assert decision.cluster.holders == afresh.cluster.holders
        memory = decision.memory
