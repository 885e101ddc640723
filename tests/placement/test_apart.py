"""Required anti-affinity: a unit counts as kube-scheduler will see it, with any users' Pods there."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any
from unittest import mock

import pytest

from contract.keys import BLOCK, HOSTNAME, JOB, SERVER_2, SERVER_4, TRAINING
from placement.decide import repel
from placement.decide.cluster import Cluster
from placement.decide.fit import selects
from placement.decide.plan import Failure, Memory, Unsettled
from placement.decide.topology import Topology
from placement.limits import MOST_APART, MOST_LABELS, MOST_TEXT
from placement.observe.model import NAMESPACE, Apart, Pod
from placement.observe.read import read_apart, read_pod
from tests.placement.stored import worker
from tests.placement.world import (
    MINUTE,
    NOW,
    admitted,
    bound,
    decide,
    deleted,
    foreign,
    job,
    on,
    pinned,
    placed,
    problem,
    servers,
    waiting,
)

ROLE = TRAINING + "job-role"
EVERYBODY: dict[str, Any] = {"labelSelector": {}, "namespaceSelector": {}, "topologyKey": SERVER_4}
TWO = servers(2)


def terms(*said: dict[str, Any]) -> tuple[Apart, ...]:
    required = {"requiredDuringSchedulingIgnoredDuringExecution": list(said)}
    return read_apart({"affinity": {"podAntiAffinity": required}})


def of_webhook(name: str, key: str = SERVER_4) -> dict[str, Any]:
    """Returns the term by which an MPIJob's workers keep others off, as earlier releases wrote it."""
    selector = {
        "matchLabels": {ROLE: "worker"},
        "matchExpressions": [{"key": JOB, "operator": "NotIn", "values": [name]}],
    }
    return {"labelSelector": selector, "namespaceSelector": {}, "topologyKey": key}


def sitting(name: str, on: str, *said: dict[str, Any], **changes: Any) -> Pod:
    return foreign(name, on, neuron=False, apart=terms(*said), **changes)


def workers(name: str, count: int, *said: dict[str, Any]) -> list[Pod]:
    """Returns a job of an MPI operator's."""
    labels = {JOB: f"team.{name}", ROLE: "worker"}
    return [replace(pod, labels=labels, apart=terms(*said)) for pod in job(name, count)]


def where(*pods: Pod | list[Pod], nodes: Mapping[str, Any] = TWO) -> dict[str, str]:
    flat = [each for one in pods for each in (one if isinstance(one, list) else [one])]
    decision = decide(Topology(nodes.values()), flat, NOW)
    assert not decision.errors
    return placed(decision)


@pytest.mark.parametrize(
    ("term", "count", "to"),
    [
        (EVERYBODY, 4, "us-02"),
        (EVERYBODY | {"topologyKey": SERVER_2}, 2, "us-01-b"),
        (EVERYBODY | {"topologyKey": HOSTNAME}, 1, "n1-1"),
        (EVERYBODY | {"topologyKey": "example.com/rack"}, 4, "us-01"),  # the node has no such label
        (of_webhook("evil.evil"), 4, "us-02"),
        (of_webhook("team.a"), 4, "us-01"),
        (EVERYBODY | {"labelSelector": None}, 4, "us-01"),  # selects nothing
        (EVERYBODY | {"namespaceSelector": None}, 4, "us-01"),  # its own namespace
        (EVERYBODY | {"namespaceSelector": None, "namespaces": ["team"]}, 4, "us-02"),
        (EVERYBODY | {"namespaces": ["none"]}, 4, "us-02"),
        (
            EVERYBODY | {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "x"}}},
            4,
            "us-01",
        ),
        # What a namespace's other labels are is not known: the job goes where it is sure to be bound.
        (EVERYBODY | {"namespaceSelector": {"matchLabels": {"team": "x"}}}, 4, "us-02"),
    ],
)
def test_a_unit_that_a_pod_without_devices_keeps_others_off_is_none_for_them(
    term: dict[str, Any], count: int, to: str
) -> None:
    assert where(sitting("sleep", "n1-0", term), workers("a", count)) == {"a": to}


def test_a_wider_key_than_the_units_counts() -> None:
    nodes = {
        name: replace(server, labels={**server.labels, "zone": "a" if name < "n2" else "b"})
        for name, server in servers(3).items()
    }
    pod = sitting("sleep", "n2-0", EVERYBODY | {"topologyKey": "zone"})
    assert where(pod, workers("a", 4), workers("b", 4), nodes=nodes) == {"a": "us-01"}


def test_if_all_units_are_held_the_job_waits_with_the_holders() -> None:
    decision = decide(
        Topology(TWO.values()),
        [sitting("s1", "n1-0", EVERYBODY), sitting("s2", "n2-3", EVERYBODY), *workers("a", 4)],
        NOW,
    )
    assert not decision.admissions
    assert "us-01: kept off by anti-affinity with other/s1" in waiting(decision)["a"]


def test_a_workers_own_term_keeps_it_off_pods_that_pass_for_workers() -> None:
    """Such as those of a job that asks for no devices: an operator labels them like any other's."""
    idle = replace(sitting("idle-worker-0", "n1-2"), labels={ROLE: "worker"})
    assert where(idle, workers("a", 4, of_webhook("team.a"))) == {"a": "us-02"}
    assert where(replace(idle, labels={ROLE: "launcher"}), workers("a", 4, of_webhook("team.a"))) == {
        "a": "us-01"
    }


@pytest.mark.parametrize(
    ("labels", "selector", "to"),
    [
        ({"app": "x"}, {"matchLabels": {"app": "x"}}, "us-02"),
        ({"app": "x"}, {"matchLabels": {"app": "y"}}, "us-01"),
        ({}, {"matchExpressions": [{"key": "app", "operator": "DoesNotExist"}]}, "us-02"),
        ({}, {}, "us-02"),
        # So many that they are not kept, so that it may have any.
        ({f"l{at}": "x" for at in range(MOST_LABELS + 1)}, {"matchLabels": {"app": "x"}}, "us-02"),
        ({f"l{at}": "x" for at in range(MOST_LABELS + 1)}, {"matchLabels": {ROLE: "worker"}}, "us-01"),
    ],
)
def test_a_jobs_own_term_counts_for_any_label_of_others(
    labels: dict[str, str], selector: dict[str, Any], to: str
) -> None:
    metadata = {"name": "p", "namespace": "other", "uid": "p", "labels": labels}
    there = read_pod({"metadata": metadata, "spec": {"nodeName": "n1-2"}})
    assert there
    own = {"labelSelector": selector, "namespaces": ["other"], "topologyKey": SERVER_4}
    assert where(there, workers("a", 4, own)) == {"a": to}


def test_a_jobs_own_term_counts_against_workers_that_have_other_units_to_themselves() -> None:
    nodes = {name: replace(each, labels={**each.labels, "zone": "a"}) for name, each in TWO.items()}
    beside = [replace(pod, labels={"app": "x"}) for pod in job("b", 4)]
    there = bound(beside, on(nodes, *(f"n1-{at}" for at in range(4))), started=True)
    own = {"labelSelector": {"matchLabels": {"app": "x"}}, "topologyKey": "zone"}
    assert where(there, workers("a", 4, own), nodes=nodes) == {}


def test_where_a_jobs_own_terms_are_too_many_to_compare_it_goes_nowhere(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(repel, "MOST_COMPARED", 3)
    own = {"labelSelector": {"matchLabels": {"app": "x"}}, "topologyKey": SERVER_4}
    others = [replace(sitting(f"s{at}", "n1-0"), labels={"app": "y"}) for at in range(5)]
    assert where(others, workers("a", 8, own)) == {}


def test_a_worker_that_comes_back_waits_while_its_place_is_closed() -> None:
    pods = workers("a", 4)
    running = bound(pods[:3], on(TWO, "n1-0", "n1-1", "n1-2"), started=True)
    decision = decide(Topology(TWO.values()), [*running, pods[3], sitting("s", "n1-1", EVERYBODY)], NOW)
    assert not decision.admissions
    assert "by anti-affinity with other/s" in waiting(decision)["a"]


def test_terms_of_running_jobs_cost_their_neighbours_nothing() -> None:
    running = bound(workers("b", 2, of_webhook("team.b", SERVER_2)), on(TWO, "n1-0", "n1-1"), started=True)
    assert where(running, workers("a", 2, of_webhook("team.a", SERVER_2))) == {"a": "us-01-b"}


def test_a_worker_that_is_being_deleted_keeps_others_off_as_long_as_it_has_its_node() -> None:
    """It holds its node only, and the scheduler looks at its terms until it is gone."""
    (leaves, *_) = bound(workers("b", 4, of_webhook("team.b")), on(TWO, *(f"n1-{at}" for at in range(4))))
    leaves = replace(leaves, deleting=True)
    assert where(leaves, workers("a", 2)) == {"a": "us-02-a"}


def test_nothing_is_reserved_where_a_pod_of_no_job_keeps_all_off() -> None:
    busy = bound(workers("b", 4), on(TWO, *(f"n2-{place}" for place in range(4))), started=True)
    old = [replace(pod, created=pod.created.replace(year=2025)) for pod in workers("a", 12)]
    decision = decide(
        Topology(servers(3).values()), [*busy, sitting("s", "n1-0", EVERYBODY), *old, *workers("c", 4)], NOW
    )
    assert placed(decision) == {"c": "us-03"}
    assert not decision.cluster.reservations


# ---- Cost --------------------------------------------------------------------------------------------------


def of_application(number: int, **reach: Any) -> list[dict[str, Any]]:
    """Returns as many terms as the guard accepts, unlike those of another number."""
    return [
        {
            "labelSelector": {
                "matchExpressions": [{"key": "app", "operator": "In", "values": [f"{number}-{at}", "x"]}]
            },
            "topologyKey": SERVER_4,
        }
        | reach
        for at in range(MOST_APART)
    ]


def compared(*pods: Pod | list[Pod]) -> int:
    """Returns how many pods are compared with terms until jobs are placed, which these do not hinder."""
    with mock.patch.object(repel, "selects", side_effect=selects) as requests:
        assert where(*pods, workers("a", 4), workers("b", 4)).keys() == {"a", "b"}
    return requests.call_count


def test_terms_about_their_own_namespace_cost_others_nothing() -> None:
    """Ten thousand Pods without devices may have sixteen each; a decision took 40 s with eight thousand."""
    assert compared([sitting(f"s{at}", "n1-0", *of_application(at)) for at in range(50)]) == 0


@pytest.mark.parametrize("bound", ["MOST_TERMS", "MOST_COMPARED"])
def test_terms_about_all_namespaces_cost_no_more_than_is_looked_at(
    bound: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pods = [sitting(f"s{at}", "n1-0", *of_application(at, namespaceSelector={})) for at in range(10)]
    assert compared(pods) == 4 * 10 * MOST_APART
    monkeypatch.setattr(repel, bound, 20)
    assert compared(pods) == {"MOST_TERMS": 2 * 4 * 20, "MOST_COMPARED": 20}[bound]


def test_any_number_of_terms_about_one_label_is_looked_up() -> None:
    """Thirteen Pods with sixteen each hid a fourteenth's from us, and not from the scheduler."""
    many = [
        {"labelSelector": {"matchLabels": {"app": str(at)}}, "namespaceSelector": {}, "topologyKey": SERVER_4}
        for at in range(13 * MOST_APART)
    ]
    fillers = [sitting(f"s{at}", "n1-0", *many[16 * at : 16 * at + 16]) for at in range(13)]
    assert compared(fillers) == 0
    for selector in ({"matchLabels": {ROLE: "worker"}}, {}):
        for reach in ({"namespaceSelector": {}}, {"namespaces": ["team"]}):
            real = {"labelSelector": selector, "topologyKey": SERVER_4} | reach
            assert where(*fillers, sitting("real", "n1-1", real), workers("a", 4)) == {"a": "us-02"}
    # Those about their own namespace hide none that reach others.
    own = [sitting(f"s{at}", "n1-0", *of_application(at)) for at in range(13)]
    real = of_webhook("none") | {"topologyKey": SERVER_4}
    assert where(own, sitting("real", "n1-1", real), workers("a", 4)) == {"a": "us-02"}


HIDING = [sitting(f"s{at}", "n1-0", *of_application(at, namespaceSelector={})) for at in range(13)]


def test_where_terms_are_too_many_to_look_at_a_unit_comes_last() -> None:
    assert where(HIDING, workers("a", 4)) == {"a": "us-02"}
    assert where(HIDING, workers("a", 8)) == {"a": "us-02 us-01"}
    # For those that the terms may be about.
    about = [sitting(f"s{at}", "n1-0", *of_application(at, namespaces=["team"])) for at in range(13)]
    assert where(about, workers("a", 4)) == {"a": "us-02"}
    assert where(about, job("b", 4, namespace="third")) == {"third/b": "us-01"}


def test_where_there_was_no_time_to_look_at_terms_a_unit_comes_last(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repel, "MOST_COMPARED", 20)
    theirs = HIDING[:2]  # 32 terms, four workers: more than may be compared
    assert where(theirs, workers("a", 4), workers("b", 4)) == {"a": "us-02", "b": "us-01"}


def test_a_failure_where_terms_are_too_many_costs_nothing_the_first_time() -> None:
    """Who has such Pods would have others lose their age; or lose none for jobs that never start."""
    vain = [admitted(pinned(pod, SERVER_4, "us-01")) for pod in workers("a", 4)]
    memory = Memory({("team", "team.a"): Unsettled(NOW - 2 * MINUTE, 0)})
    for names, count, costs in (((), 0, []), (("n1-0", "n1-1", "n1-2", "n1-3"), 1, ["team"])):
        before = replace(memory, doubtful_nodes=dict.fromkeys(names, NOW))
        after = decide(Topology(TWO.values()), [*HIDING, *vain], NOW, memory=before)
        assert len(deleted(after)) == 4
        assert after.memory.failures["team", "team.a"] == Failure(count, NOW)
        assert [*after.memory.failed_namespaces] == costs
        assert "n1-0" in after.memory.doubtful_nodes
        # A deletion that is tried again is not a second failure.
        again = replace(after.memory, unsettled=memory.unsettled)
        assert decide(Topology(TWO.values()), [*HIDING, *vain], NOW, memory=again).memory == again
    # It keeps its age.
    memory = Memory(failures={("team", "team.a"): Failure(0, NOW)})
    older = [replace(pod, created=NOW - 2 * MINUTE) for pod in workers("a", 8)]
    decision = decide(Topology(TWO.values()), [*older, *workers("b", 4)], NOW, memory=memory)
    assert placed(decision) == {"a": "us-01 us-02"}


# ---- A job's own terms about itself ------------------------------------------------------------------------


@pytest.mark.parametrize("key", [SERVER_4, SERVER_2, "topology.kubernetes.io/zone"])
def test_a_job_whose_workers_keep_each_other_off_is_not_admitted(key: str) -> None:
    """It never runs whole, and had a unit for two minutes again and again."""
    own = {"labelSelector": {"matchLabels": {ROLE: "worker"}}, "topologyKey": key}
    decision = decide(Topology(TWO.values()), workers("a", 4, own), NOW)
    assert not decision.admissions
    assert f"anti-affinity on {key} selects these workers" in waiting(decision)["a"]


def test_terms_by_which_each_worker_has_a_node_or_each_block_a_unit_are_none_of_these() -> None:
    alone = {"labelSelector": {"matchLabels": {ROLE: "worker"}}, "topologyKey": HOSTNAME}
    pods = workers("a", 8, alone)
    for block, index in ((0, 1), (1, 0)):
        apart = {"matchLabels": {BLOCK: str(index)}}
        term = terms({"labelSelector": apart, "topologyKey": SERVER_4})
        pods[4 * block : 4 * block + 4] = [
            replace(pod, apart=pod.apart + term, labels={**pod.labels, BLOCK: str(block)})
            for pod in pods[4 * block : 4 * block + 4]
        ]
    assert where(pods) == {"a": "us-01 us-02"}
    one = workers("a", 1, EVERYBODY)
    assert where(one) == {"a": "n1-0"}


def test_a_worker_that_selects_only_another_one_of_its_block_counts() -> None:
    """Workers differ in the labels that their operator gives them."""
    index = TRAINING + "replica-index"
    term = {"labelSelector": {"matchLabels": {index: "1"}}, "topologyKey": SERVER_4}
    pods = [replace(pod, labels={index: str(pod.number)}) for pod in workers("a", 4, term)]
    assert where(pods) == {}


def test_a_job_with_more_terms_than_are_looked_at_waits() -> None:
    texts = [{"labelSelector": {"matchLabels": {"x": str(at)}}, "topologyKey": "k"} for at in range(17)]
    pods = workers("a", 4, *texts[:16])
    assert where(pods) == {"a": "us-01"}
    more = replace(pods[3], apart=terms(texts[16]))
    decision = decide(Topology(TWO.values()), [*pods[:3], more], NOW)
    assert "17 anti-affinity terms" in waiting(decision)["a"]


# ---- Reading -----------------------------------------------------------------------------------------------


def test_equal_terms_are_one_object() -> None:
    assert terms(EVERYBODY)[0] is terms(dict(EVERYBODY))[0]


def test_of_more_terms_than_are_looked_at_each_is_about_all_pods() -> None:
    [term] = terms(*(of_webhook(f"team.{number}") for number in range(MOST_APART + 1)))
    assert term.key == SERVER_4
    assert selects(term, "other", "team", {})


LONG = {"matchExpressions": [{"key": "app", "operator": "In", "values": ["x" * MOST_TEXT]}]}
OWN_NAME = {"matchLabels": {NAMESPACE: "other"}}


@pytest.mark.parametrize(
    ("term", "namespace", "labels", "counts"),
    [
        ({"labelSelector": LONG}, "other", {"app": "y"}, True),
        ({"labelSelector": LONG}, "team", {"app": "y"}, False),
        ({"labelSelector": LONG, "namespaceSelector": OWN_NAME}, "team", {"app": "y"}, False),
        ({"labelSelector": LONG, "namespaces": ["other"]}, "team", {"app": "y"}, False),
        ({"labelSelector": LONG, "namespaces": ["other", "team"]}, "team", {"app": "y"}, True),
        ({"labelSelector": LONG, "namespaceSelector": {}}, "team", {}, False),
        ({"labelSelector": {}, "namespaceSelector": LONG}, "team", {}, True),
    ],
)
def test_a_long_term_keeps_off_no_namespace_and_no_label_that_it_does_not_name(
    term: dict[str, Any], namespace: str, labels: dict[str, str], *, counts: bool
) -> None:
    """The guard accepts such a Pod from every user, because its term is about its own namespace."""
    [result] = terms(term | {"topologyKey": SERVER_4})
    assert selects(result, "other", namespace, labels) == counts


def test_terms_of_a_pod_that_repels_no_pod_yet_are_not_kept() -> None:
    """A user can have ten thousand of them, because they need no node."""
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [EVERYBODY]}}
    raw: dict[str, Any] = {"metadata": {"name": "p"}, "spec": {"affinity": affinity}}
    pending = read_pod(raw)
    assert pending
    assert pending.apart == ()
    raw["spec"]["nodeName"] = "n1-0"
    there = read_pod(raw)
    assert there
    assert there.apart == terms(EVERYBODY)


def test_of_a_pod_of_no_job_only_labels_that_the_table_selects_by_are_kept() -> None:
    read = read_pod({"metadata": {"name": "p", "labels": {ROLE: "worker", "app": "x"}}, "spec": {}})
    assert read
    assert read.labels == {ROLE: "worker"}


def test_of_a_worker_with_too_many_labels_no_more_are_kept() -> None:
    """Protects the program's memory: 300 workers with a megabyte of labels took all that it may have."""
    made = worker("train", 0, 4)
    made["metadata"]["labels"] |= {ROLE: "worker", **{f"l{number}": "x" * 63 for number in range(100)}}
    read = read_pod(made)
    assert read
    assert f"at most {MOST_TEXT} are supported" in problem(read)
    assert not {key for key in read.labels if key.startswith("l")}


# ---- Failed admissions -------------------------------------------------------------------------------------


def test_where_one_job_was_admitted_in_vain_no_other_goes_before_what_is_free() -> None:
    """A broken pair would else be the first choice of every job of two, one after the other."""
    broken = foreign("x", "n1-0")
    vain = [admitted(pinned(pod, SERVER_2, "us-01-b")) for pod in job("a", 2)]
    first = decide(Topology(TWO.values()), [broken, *vain], NOW)
    later = NOW + 2 * MINUTE
    gave_up = decide(Topology(TWO.values()), [broken, *vain], later, memory=first.memory)
    assert len(deleted(gave_up)) == 2
    after = decide(Topology(TWO.values()), [broken, *job("b", 2)], later, memory=gave_up.memory)
    assert placed(after) == {"b": "us-02-a"}
    full = bound(job("c", 4), on(TWO, *(f"n2-{place}" for place in range(4))), started=True)
    after = decide(Topology(TWO.values()), [broken, *full, *job("b", 2)], later, memory=gave_up.memory)
    assert placed(after) == {"b": "us-01-b"}


ZONED = {name: replace(node, labels={**node.labels, "zone": "z"}) for name, node in servers(4).items()}
OF_EVIL: dict[str, Any] = {"labelSelector": {"matchLabels": {"app": "big"}}, "topologyKey": "zone"}


def big(name: str, count: int, age: timedelta) -> list[Pod]:
    """Returns a job of the namespace evil with the label that `OF_EVIL` is about."""
    labels = {"app": "big", ROLE: "worker", JOB: f"evil.{name}"}
    return [replace(pod, labels=labels) for pod in job(name, count, age=age, namespace="evil")]


def test_nothing_is_reserved_for_a_job_that_its_own_namespace_keeps_off() -> None:
    """Protects others from a small job whose term closes all units to a large one of its author."""
    small = [replace(pod, apart=terms(OF_EVIL)) for pod in job("small", 1, namespace="evil")]
    there = bound(small, on(ZONED, "n1-0"), started=True)
    pods = [*there, *big("big", 12, 60 * MINUTE), *job("a", 12)]
    decision = decide(Topology(ZONED.values()), pods, NOW)
    assert placed(decision)["a"] == "us-02 us-03 us-04"
    assert not decision.cluster.reservations


def test_nothing_is_reserved_for_a_job_that_a_launcher_of_another_namespace_keeps_off() -> None:
    """Two namespaces of one tenant would keep a free fleet from all others, for ever."""
    *_, launcher = job("small", 1, namespace="friend", launcher=True)
    term = {**OF_EVIL, "namespaces": ["evil"]}
    there = replace(admitted(launcher), node="n1-0", started=True, apart=terms(term))
    whole_fleet = big("big", len(ZONED), 60 * MINUTE)
    decision = decide(Topology(ZONED.values()), [there, *whole_fleet, *job("a", 12)], NOW)
    assert set(placed(decision)) == {"a"}
    assert not decision.cluster.reservations


def test_a_term_of_one_namespace_costs_waiting_jobs_of_others_nothing() -> None:
    """A decision about 1,000 nodes took 2.7 times as long for looking at each unit for each waiting job."""
    lock = replace(foreign("lock", "n1-0", neuron=False), namespace="evil", apart=terms(OF_EVIL))
    with mock.patch.object(Cluster, "is_repelled_by_own_namespace", return_value=False) as requests:
        decide(Topology(ZONED.values()), [lock, *(pod for at in range(9) for pod in job(f"w{at}", 20))], NOW)
        assert not requests.called
        decide(Topology(ZONED.values()), [lock, *big("big", 20, MINUTE)], NOW)
        assert requests.called


def test_a_job_that_its_own_namespace_keeps_off_a_free_unit_gets_no_older() -> None:
    """Protects those who wait from a job that ages behind a Pod of its author, who then deletes it."""
    lock = replace(foreign("lock", "n1-0", neuron=False), namespace="evil", apart=terms(OF_EVIL))
    waits, nodes, memory = big("big", 16, 540 * MINUTE), Topology(ZONED.values()), Memory()
    for minutes in range(0, 60, 10):
        memory = decide(nodes, [lock, *waits], NOW + minutes * MINUTE, memory=memory).memory
    pods = [*waits, *job("a", 16, age=480 * MINUTE)]
    assert "a" in placed(decide(nodes, pods, NOW + 60 * MINUTE, memory=memory))
