"""Tests that no job is admitted to a unit that required anti-affinity of a Pod or of the job forbids."""

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
    bind_pods,
    decide,
    deleted_pods,
    fault_text,
    foreign_pod,
    job,
    pin_pod,
    placed_jobs,
    select_nodes,
    servers,
    ungate_pod,
    waiting_reasons,
)

ROLE = TRAINING + "job-role"
ALL_PODS_TERM: dict[str, Any] = {"labelSelector": {}, "namespaceSelector": {}, "topologyKey": SERVER_4}
TWO_SERVERS = servers(2)


def anti_affinity(*raw_terms: dict[str, Any]) -> tuple[Apart, ...]:
    required = {"requiredDuringSchedulingIgnoredDuringExecution": list(raw_terms)}
    return read_apart({"affinity": {"podAntiAffinity": required}})


def old_webhook_term(name: str, key: str = SERVER_4) -> dict[str, Any]:
    """Returns the term with which earlier releases kept workers of other MPIJobs off a job's units."""
    selector = {
        "matchLabels": {ROLE: "worker"},
        "matchExpressions": [{"key": JOB, "operator": "NotIn", "values": [name]}],
    }
    return {"labelSelector": selector, "namespaceSelector": {}, "topologyKey": key}


def pod_with_terms(name: str, node_name: str, *raw_terms: dict[str, Any], **changes: Any) -> Pod:
    """Returns a pod without devices and without a job on a node, with anti-affinity terms."""
    return foreign_pod(name, node_name, neuron=False, apart=anti_affinity(*raw_terms), **changes)


def mpi_workers(name: str, count: int, *raw_terms: dict[str, Any]) -> list[Pod]:
    """Returns the workers of a job with the labels that the MPI operator sets."""
    labels = {JOB: f"team.{name}", ROLE: "worker"}
    return [replace(pod, labels=labels, apart=anti_affinity(*raw_terms)) for pod in job(name, count)]


def place_jobs(*pods: Pod | list[Pod], nodes: Mapping[str, Any] = TWO_SERVERS) -> dict[str, str]:
    """Returns the units of the jobs that a decision about the pods admits."""
    all_pods = [pod for item in pods for pod in (item if isinstance(item, list) else [item])]
    decision = decide(Topology(nodes.values()), all_pods, NOW)
    assert not decision.errors
    return placed_jobs(decision)


@pytest.mark.parametrize(
    ("term", "count", "units"),
    [
        (ALL_PODS_TERM, 4, "us-02"),
        (ALL_PODS_TERM | {"topologyKey": SERVER_2}, 2, "us-01-b"),
        (ALL_PODS_TERM | {"topologyKey": HOSTNAME}, 1, "n1-1"),
        (ALL_PODS_TERM | {"topologyKey": "example.com/rack"}, 4, "us-01"),  # the node has no such label
        (old_webhook_term("evil.evil"), 4, "us-02"),
        (old_webhook_term("team.a"), 4, "us-01"),
        (ALL_PODS_TERM | {"labelSelector": None}, 4, "us-01"),  # selects nothing
        (ALL_PODS_TERM | {"namespaceSelector": None}, 4, "us-01"),  # selects only its own namespace
        (ALL_PODS_TERM | {"namespaceSelector": None, "namespaces": ["team"]}, 4, "us-02"),
        (ALL_PODS_TERM | {"namespaces": ["none"]}, 4, "us-02"),
        (
            ALL_PODS_TERM | {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "x"}}},
            4,
            "us-01",
        ),
        # Other labels of a namespace are unknown, so the term may select the job.
        (ALL_PODS_TERM | {"namespaceSelector": {"matchLabels": {"team": "x"}}}, 4, "us-02"),
    ],
)
def test_a_pod_without_devices_keeps_the_jobs_that_its_term_selects_off_its_unit(
    term: dict[str, Any], count: int, units: str
) -> None:
    assert place_jobs(pod_with_terms("sleep", "n1-0", term), mpi_workers("a", count)) == {"a": units}


def test_a_term_with_a_topology_key_wider_than_a_unit_is_used() -> None:
    nodes = {
        name: replace(server, labels={**server.labels, "zone": "a" if name < "n2" else "b"})
        for name, server in servers(3).items()
    }
    pod = pod_with_terms("sleep", "n2-0", ALL_PODS_TERM | {"topologyKey": "zone"})
    assert place_jobs(pod, mpi_workers("a", 4), mpi_workers("b", 4), nodes=nodes) == {"a": "us-01"}


def test_a_job_that_is_kept_off_all_units_waits_and_the_reason_names_the_pods() -> None:
    decision = decide(
        Topology(TWO_SERVERS.values()),
        [
            pod_with_terms("s1", "n1-0", ALL_PODS_TERM),
            pod_with_terms("s2", "n2-3", ALL_PODS_TERM),
            *mpi_workers("a", 4),
        ],
        NOW,
    )
    assert not decision.admissions
    assert "us-01: kept off by anti-affinity with other/s1" in waiting_reasons(decision)["a"]


def test_a_workers_own_term_keeps_it_off_pods_with_the_labels_of_workers() -> None:
    """The operator also sets these labels on pods of a job that requests no devices."""
    idle = replace(pod_with_terms("idle-worker-0", "n1-2"), labels={ROLE: "worker"})
    assert place_jobs(idle, mpi_workers("a", 4, old_webhook_term("team.a"))) == {"a": "us-02"}
    assert place_jobs(
        replace(idle, labels={ROLE: "launcher"}), mpi_workers("a", 4, old_webhook_term("team.a"))
    ) == {"a": "us-01"}


@pytest.mark.parametrize(
    ("labels", "selector", "units"),
    [
        ({"app": "x"}, {"matchLabels": {"app": "x"}}, "us-02"),
        ({"app": "x"}, {"matchLabels": {"app": "y"}}, "us-01"),
        ({}, {"matchExpressions": [{"key": "app", "operator": "DoesNotExist"}]}, "us-02"),
        ({}, {}, "us-02"),
        # If a pod has too many labels, only `MARKS` are stored, so the pod may have any other label.
        ({f"l{at}": "x" for at in range(MOST_LABELS + 1)}, {"matchLabels": {"app": "x"}}, "us-02"),
        ({f"l{at}": "x" for at in range(MOST_LABELS + 1)}, {"matchLabels": {ROLE: "worker"}}, "us-01"),
    ],
)
def test_a_jobs_own_term_is_compared_with_all_labels_of_other_pods(
    labels: dict[str, str], selector: dict[str, Any], units: str
) -> None:
    metadata = {"name": "p", "namespace": "other", "uid": "p", "labels": labels}
    other_pod = read_pod({"metadata": metadata, "spec": {"nodeName": "n1-2"}})
    assert other_pod
    own_term = {"labelSelector": selector, "namespaces": ["other"], "topologyKey": SERVER_4}
    assert place_jobs(other_pod, mpi_workers("a", 4, own_term)) == {"a": units}


def test_a_jobs_own_term_is_compared_with_workers_on_other_units() -> None:
    nodes = {name: replace(node, labels={**node.labels, "zone": "a"}) for name, node in TWO_SERVERS.items()}
    other_job = [replace(pod, labels={"app": "x"}) for pod in job("b", 4)]
    running_pods = bind_pods(other_job, select_nodes(nodes, *(f"n1-{at}" for at in range(4))), started=True)
    own_term = {"labelSelector": {"matchLabels": {"app": "x"}}, "topologyKey": "zone"}
    assert place_jobs(running_pods, mpi_workers("a", 4, own_term), nodes=nodes) == {}


def test_a_job_whose_own_terms_need_too_many_comparisons_is_not_admitted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(repel, "MOST_COMPARED", 3)
    own_term = {"labelSelector": {"matchLabels": {"app": "x"}}, "topologyKey": SERVER_4}
    other_pods = [replace(pod_with_terms(f"s{at}", "n1-0"), labels={"app": "y"}) for at in range(5)]
    assert place_jobs(other_pods, mpi_workers("a", 8, own_term)) == {}


def test_a_recreated_worker_waits_while_anti_affinity_keeps_it_off_its_unit() -> None:
    pods = mpi_workers("a", 4)
    running_pods = bind_pods(pods[:3], select_nodes(TWO_SERVERS, "n1-0", "n1-1", "n1-2"), started=True)
    decision = decide(
        Topology(TWO_SERVERS.values()),
        [*running_pods, pods[3], pod_with_terms("s", "n1-1", ALL_PODS_TERM)],
        NOW,
    )
    assert not decision.admissions
    assert "by anti-affinity with other/s" in waiting_reasons(decision)["a"]


def test_terms_of_running_jobs_keep_no_job_off_other_units() -> None:
    running_pods = bind_pods(
        mpi_workers("b", 2, old_webhook_term("team.b", SERVER_2)),
        select_nodes(TWO_SERVERS, "n1-0", "n1-1"),
        started=True,
    )
    assert place_jobs(running_pods, mpi_workers("a", 2, old_webhook_term("team.a", SERVER_2))) == {
        "a": "us-01-b"
    }


def test_the_terms_of_a_worker_that_is_being_deleted_keep_jobs_off_its_unit() -> None:
    """The pod holds only its node, but kube-scheduler uses its terms until it is gone."""
    (deleting_worker, *_) = bind_pods(
        mpi_workers("b", 4, old_webhook_term("team.b")),
        select_nodes(TWO_SERVERS, *(f"n1-{at}" for at in range(4))),
    )
    deleting_worker = replace(deleting_worker, deleting=True)
    assert place_jobs(deleting_worker, mpi_workers("a", 2)) == {"a": "us-02-a"}


def test_no_unit_is_reserved_if_a_pod_without_a_job_keeps_all_jobs_off_it() -> None:
    running_pods = bind_pods(
        mpi_workers("b", 4),
        select_nodes(TWO_SERVERS, *(f"n2-{number}" for number in range(4))),
        started=True,
    )
    old_pods = [replace(pod, created=pod.created.replace(year=2025)) for pod in mpi_workers("a", 12)]
    decision = decide(
        Topology(servers(3).values()),
        [*running_pods, pod_with_terms("s", "n1-0", ALL_PODS_TERM), *old_pods, *mpi_workers("c", 4)],
        NOW,
    )
    assert placed_jobs(decision) == {"c": "us-03"}
    assert not decision.cluster.reservations


# ---- Cost --------------------------------------------------------------------------------------------------


def application_terms(number: int, **namespace_fields: Any) -> list[dict[str, Any]]:
    """Returns as many terms as the guard accepts in a Pod. Each ``number`` gives different terms."""
    return [
        {
            "labelSelector": {
                "matchExpressions": [{"key": "app", "operator": "In", "values": [f"{number}-{at}", "x"]}]
            },
            "topologyKey": SERVER_4,
        }
        | namespace_fields
        for at in range(MOST_APART)
    ]


def count_comparisons(*pods: Pod | list[Pod]) -> int:
    """Returns how often a term is compared with a pod in a decision that admits two jobs."""
    with mock.patch.object(repel, "selects", side_effect=selects) as calls:
        assert place_jobs(*pods, mpi_workers("a", 4), mpi_workers("b", 4)).keys() == {"a", "b"}
    return calls.call_count


def test_terms_about_their_own_namespace_need_no_comparisons_for_other_namespaces() -> None:
    """Ten thousand Pods may have sixteen terms each. With 8,000 such Pods, a decision once took 40 s."""
    assert (
        count_comparisons([pod_with_terms(f"s{at}", "n1-0", *application_terms(at)) for at in range(50)]) == 0
    )


@pytest.mark.parametrize("limit", ["MOST_TERMS", "MOST_COMPARED"])
def test_comparisons_with_terms_about_all_namespaces_are_limited(
    limit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pods = [
        pod_with_terms(f"s{at}", "n1-0", *application_terms(at, namespaceSelector={})) for at in range(10)
    ]
    assert count_comparisons(pods) == 4 * 10 * MOST_APART
    monkeypatch.setattr(repel, limit, 20)
    assert count_comparisons(pods) == {"MOST_TERMS": 2 * 4 * 20, "MOST_COMPARED": 20}[limit]


def test_all_terms_that_select_by_one_label_are_found() -> None:
    """The 208 terms of thirteen Pods, more than `MOST_TERMS`, must not hide a term of another Pod."""
    filler_terms = [
        {"labelSelector": {"matchLabels": {"app": str(at)}}, "namespaceSelector": {}, "topologyKey": SERVER_4}
        for at in range(13 * MOST_APART)
    ]
    fillers = [pod_with_terms(f"s{at}", "n1-0", *filler_terms[16 * at : 16 * at + 16]) for at in range(13)]
    assert count_comparisons(fillers) == 0
    for selector in ({"matchLabels": {ROLE: "worker"}}, {}):
        for namespace_fields in ({"namespaceSelector": {}}, {"namespaces": ["team"]}):
            term = {"labelSelector": selector, "topologyKey": SERVER_4} | namespace_fields
            assert place_jobs(*fillers, pod_with_terms("real", "n1-1", term), mpi_workers("a", 4)) == {
                "a": "us-02"
            }
    # Terms about their own namespace do not hide a term about all namespaces.
    own_namespace_pods = [pod_with_terms(f"s{at}", "n1-0", *application_terms(at)) for at in range(13)]
    term = old_webhook_term("none") | {"topologyKey": SERVER_4}
    assert place_jobs(own_namespace_pods, pod_with_terms("real", "n1-1", term), mpi_workers("a", 4)) == {
        "a": "us-02"
    }


PODS_WITH_MANY_TERMS = [
    pod_with_terms(f"s{at}", "n1-0", *application_terms(at, namespaceSelector={})) for at in range(13)
]


def test_a_unit_with_too_many_terms_to_examine_is_used_last() -> None:
    assert place_jobs(PODS_WITH_MANY_TERMS, mpi_workers("a", 4)) == {"a": "us-02"}
    assert place_jobs(PODS_WITH_MANY_TERMS, mpi_workers("a", 8)) == {"a": "us-02 us-01"}
    # The unit is last only for jobs of the namespace that the terms name.
    team_term_pods = [
        pod_with_terms(f"s{at}", "n1-0", *application_terms(at, namespaces=["team"])) for at in range(13)
    ]
    assert place_jobs(team_term_pods, mpi_workers("a", 4)) == {"a": "us-02"}
    assert place_jobs(team_term_pods, job("b", 4, namespace="third")) == {"third/b": "us-01"}


def test_a_unit_whose_terms_need_too_many_comparisons_is_used_last(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repel, "MOST_COMPARED", 20)
    pods_with_terms = PODS_WITH_MANY_TERMS[:2]  # 32 terms and four workers need too many comparisons
    assert place_jobs(pods_with_terms, mpi_workers("a", 4), mpi_workers("b", 4)) == {
        "a": "us-02",
        "b": "us-01",
    }


def test_the_first_failure_on_a_unit_with_too_many_terms_costs_a_job_no_age() -> None:
    """Otherwise a user with many terms could make jobs of other namespaces lose their age."""
    stuck_pods = [ungate_pod(pin_pod(pod, SERVER_4, "us-01")) for pod in mpi_workers("a", 4)]
    memory = Memory({("team", "team.a"): Unsettled(NOW - 2 * MINUTE, 0)})
    for names, count, failed_namespaces in (((), 0, []), (("n1-0", "n1-1", "n1-2", "n1-3"), 1, ["team"])):
        memory_before = replace(memory, doubtful_nodes=dict.fromkeys(names, NOW))
        first_decision = decide(
            Topology(TWO_SERVERS.values()), [*PODS_WITH_MANY_TERMS, *stuck_pods], NOW, memory=memory_before
        )
        assert len(deleted_pods(first_decision)) == 4
        assert first_decision.memory.failures["team", "team.a"] == Failure(count, NOW)
        assert [*first_decision.memory.failed_namespaces] == failed_namespaces
        assert "n1-0" in first_decision.memory.doubtful_nodes
        # A repeated deletion is not a second failure.
        retry_memory = replace(first_decision.memory, unsettled=memory.unsettled)
        assert (
            decide(
                Topology(TWO_SERVERS.values()), [*PODS_WITH_MANY_TERMS, *stuck_pods], NOW, memory=retry_memory
            ).memory
            == retry_memory
        )
    # The job keeps its age.
    memory = Memory(failures={("team", "team.a"): Failure(0, NOW)})
    older_job = [replace(pod, created=NOW - 2 * MINUTE) for pod in mpi_workers("a", 8)]
    decision = decide(Topology(TWO_SERVERS.values()), [*older_job, *mpi_workers("b", 4)], NOW, memory=memory)
    assert placed_jobs(decision) == {"a": "us-01 us-02"}


# ---- A job's own terms about itself ------------------------------------------------------------------------


@pytest.mark.parametrize("key", [SERVER_4, SERVER_2, "topology.kubernetes.io/zone"])
def test_a_job_whose_workers_keep_each_other_off_is_not_admitted(key: str) -> None:
    """Such a job can never start, but would hold a unit for two minutes again and again."""
    own_term = {"labelSelector": {"matchLabels": {ROLE: "worker"}}, "topologyKey": key}
    decision = decide(Topology(TWO_SERVERS.values()), mpi_workers("a", 4, own_term), NOW)
    assert not decision.admissions
    assert f"anti-affinity on {key} selects these workers" in waiting_reasons(decision)["a"]


def test_terms_that_give_each_worker_a_node_or_each_block_a_unit_are_permitted() -> None:
    one_per_node = {"labelSelector": {"matchLabels": {ROLE: "worker"}}, "topologyKey": HOSTNAME}
    pods = mpi_workers("a", 8, one_per_node)
    for block, other_block in ((0, 1), (1, 0)):
        selector = {"matchLabels": {BLOCK: str(other_block)}}
        term = anti_affinity({"labelSelector": selector, "topologyKey": SERVER_4})
        pods[4 * block : 4 * block + 4] = [
            replace(pod, apart=pod.apart + term, labels={**pod.labels, BLOCK: str(block)})
            for pod in pods[4 * block : 4 * block + 4]
        ]
    assert place_jobs(pods) == {"a": "us-01 us-02"}
    single_worker = mpi_workers("a", 1, ALL_PODS_TERM)
    assert place_jobs(single_worker) == {"a": "n1-0"}


def test_a_job_whose_term_selects_one_worker_of_each_block_is_not_admitted() -> None:
    """Operators give each worker its own index label."""
    index = TRAINING + "replica-index"
    term = {"labelSelector": {"matchLabels": {index: "1"}}, "topologyKey": SERVER_4}
    pods = [replace(pod, labels={index: str(pod.number)}) for pod in mpi_workers("a", 4, term)]
    assert place_jobs(pods) == {}


def test_a_job_with_more_anti_affinity_terms_than_supported_waits() -> None:
    raw_terms = [{"labelSelector": {"matchLabels": {"x": str(at)}}, "topologyKey": "k"} for at in range(17)]
    pods = mpi_workers("a", 4, *raw_terms[:16])
    assert place_jobs(pods) == {"a": "us-01"}
    last_pod = replace(pods[3], apart=anti_affinity(raw_terms[16]))
    decision = decide(Topology(TWO_SERVERS.values()), [*pods[:3], last_pod], NOW)
    assert "17 anti-affinity terms" in waiting_reasons(decision)["a"]


# ---- Reading -----------------------------------------------------------------------------------------------


def test_equal_terms_are_one_object() -> None:
    assert anti_affinity(ALL_PODS_TERM)[0] is anti_affinity(dict(ALL_PODS_TERM))[0]


def test_too_many_terms_are_replaced_by_terms_that_select_all_pods() -> None:
    [term] = anti_affinity(*(old_webhook_term(f"team.{number}") for number in range(MOST_APART + 1)))
    assert term.key == SERVER_4
    assert selects(term, "other", "team", {})


LONG_SELECTOR = {"matchExpressions": [{"key": "app", "operator": "In", "values": ["x" * MOST_TEXT]}]}
OWN_NAMESPACE = {"matchLabels": {NAMESPACE: "other"}}


@pytest.mark.parametrize(
    ("term", "namespace", "labels", "is_selected"),
    [
        ({"labelSelector": LONG_SELECTOR}, "other", {"app": "y"}, True),
        ({"labelSelector": LONG_SELECTOR}, "team", {"app": "y"}, False),
        ({"labelSelector": LONG_SELECTOR, "namespaceSelector": OWN_NAMESPACE}, "team", {"app": "y"}, False),
        ({"labelSelector": LONG_SELECTOR, "namespaces": ["other"]}, "team", {"app": "y"}, False),
        ({"labelSelector": LONG_SELECTOR, "namespaces": ["other", "team"]}, "team", {"app": "y"}, True),
        ({"labelSelector": LONG_SELECTOR, "namespaceSelector": {}}, "team", {}, False),
        ({"labelSelector": {}, "namespaceSelector": LONG_SELECTOR}, "team", {}, True),
    ],
)
def test_a_long_term_is_reduced_to_one_label_and_one_condition_on_namespaces(
    term: dict[str, Any], namespace: str, labels: dict[str, str], *, is_selected: bool
) -> None:
    """The guard accepts a Pod with a long term about its own namespace from every user."""
    [result] = anti_affinity(term | {"topologyKey": SERVER_4})
    assert selects(result, "other", namespace, labels) == is_selected


def test_terms_of_a_pod_without_a_node_are_not_stored() -> None:
    """A user can create ten thousand of these pods, because they need no node."""
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [ALL_PODS_TERM]}}
    raw: dict[str, Any] = {"metadata": {"name": "p"}, "spec": {"affinity": affinity}}
    pending_pod = read_pod(raw)
    assert pending_pod
    assert pending_pod.apart == ()
    raw["spec"]["nodeName"] = "n1-0"
    bound_pod = read_pod(raw)
    assert bound_pod
    assert bound_pod.apart == anti_affinity(ALL_PODS_TERM)


def test_only_the_labels_in_marks_are_stored_for_a_pod_without_a_job_and_without_a_node() -> None:
    pod = read_pod({"metadata": {"name": "p", "labels": {ROLE: "worker", "app": "x"}}, "spec": {}})
    assert pod
    assert pod.labels == {ROLE: "worker"}


def test_a_worker_with_too_many_labels_has_a_fault_and_they_are_not_stored() -> None:
    """Protects the program's memory, which 300 workers, each with a megabyte of labels, once filled."""
    raw_pod = worker("train", 0, 4)
    raw_pod["metadata"]["labels"] |= {ROLE: "worker", **{f"l{number}": "x" * 63 for number in range(100)}}
    pod = read_pod(raw_pod)
    assert pod
    assert f"at most {MOST_TEXT} are supported" in fault_text(pod)
    assert not {key for key in pod.labels if key.startswith("l")}


# ---- Failed admissions -------------------------------------------------------------------------------------


def test_other_jobs_get_the_unit_of_a_failed_admission_last() -> None:
    """Otherwise a broken pair would be the first choice for each job of two workers."""
    other_pod = foreign_pod("x", "n1-0")
    failed_job = [ungate_pod(pin_pod(pod, SERVER_2, "us-01-b")) for pod in job("a", 2)]
    first_decision = decide(Topology(TWO_SERVERS.values()), [other_pod, *failed_job], NOW)
    later = NOW + 2 * MINUTE
    eviction = decide(
        Topology(TWO_SERVERS.values()), [other_pod, *failed_job], later, memory=first_decision.memory
    )
    assert len(deleted_pods(eviction)) == 2
    decision = decide(
        Topology(TWO_SERVERS.values()), [other_pod, *job("b", 2)], later, memory=eviction.memory
    )
    assert placed_jobs(decision) == {"b": "us-02-a"}
    running_job = bind_pods(
        job("c", 4), select_nodes(TWO_SERVERS, *(f"n2-{number}" for number in range(4))), started=True
    )
    decision = decide(
        Topology(TWO_SERVERS.values()), [other_pod, *running_job, *job("b", 2)], later, memory=eviction.memory
    )
    assert placed_jobs(decision) == {"b": "us-01-b"}


ZONED_NODES = {name: replace(node, labels={**node.labels, "zone": "z"}) for name, node in servers(4).items()}
ZONE_TERM: dict[str, Any] = {"labelSelector": {"matchLabels": {"app": "big"}}, "topologyKey": "zone"}


def evil_job(name: str, count: int, age: timedelta) -> list[Pod]:
    """Returns a job of the namespace evil with the label that `ZONE_TERM` selects."""
    labels = {"app": "big", ROLE: "worker", JOB: f"evil.{name}"}
    return [replace(pod, labels=labels) for pod in job(name, count, age=age, namespace="evil")]


def test_no_unit_is_reserved_for_a_job_that_its_own_namespace_keeps_off_units() -> None:
    """Protects other users from a namespace whose small job keeps its own large job off all units."""
    small_job = [replace(pod, apart=anti_affinity(ZONE_TERM)) for pod in job("small", 1, namespace="evil")]
    running_pods = bind_pods(small_job, select_nodes(ZONED_NODES, "n1-0"), started=True)
    pods = [*running_pods, *evil_job("big", 12, 60 * MINUTE), *job("a", 12)]
    decision = decide(Topology(ZONED_NODES.values()), pods, NOW)
    assert placed_jobs(decision)["a"] == "us-02 us-03 us-04"
    assert not decision.cluster.reservations


def test_no_unit_is_reserved_for_a_job_that_a_launcher_of_another_namespace_keeps_off_units() -> None:
    """Otherwise a user with two namespaces could keep a free cluster reserved for ever."""
    *_, launcher = job("small", 1, namespace="friend", launcher=True)
    term = {**ZONE_TERM, "namespaces": ["evil"]}
    running_launcher = replace(ungate_pod(launcher), node="n1-0", started=True, apart=anti_affinity(term))
    large_job = evil_job("big", len(ZONED_NODES), 60 * MINUTE)
    decision = decide(Topology(ZONED_NODES.values()), [running_launcher, *large_job, *job("a", 12)], NOW)
    assert set(placed_jobs(decision)) == {"a"}
    assert not decision.cluster.reservations


def test_terms_of_a_namespace_are_not_examined_for_jobs_of_other_namespaces() -> None:
    """To examine each unit for each waiting job would make a decision about 1,000 nodes 2.7 times longer."""
    repelling_pod = replace(
        foreign_pod("lock", "n1-0", neuron=False), namespace="evil", apart=anti_affinity(ZONE_TERM)
    )
    with mock.patch.object(Cluster, "is_repelled_by_own_namespace", return_value=False) as calls:
        decide(
            Topology(ZONED_NODES.values()),
            [repelling_pod, *(pod for at in range(9) for pod in job(f"w{at}", 20))],
            NOW,
        )
        assert not calls.called
        decide(Topology(ZONED_NODES.values()), [repelling_pod, *evil_job("big", 20, MINUTE)], NOW)
        assert calls.called


def test_a_job_that_its_own_namespace_keeps_off_a_free_unit_does_not_age() -> None:
    """Protects other jobs from a job that ages behind a Pod of its own author, who then deletes the Pod."""
    repelling_pod = replace(
        foreign_pod("lock", "n1-0", neuron=False), namespace="evil", apart=anti_affinity(ZONE_TERM)
    )
    waiting_pods, nodes, memory = evil_job("big", 16, 540 * MINUTE), Topology(ZONED_NODES.values()), Memory()
    for minutes in range(0, 60, 10):
        memory = decide(nodes, [repelling_pod, *waiting_pods], NOW + minutes * MINUTE, memory=memory).memory
    pods = [*waiting_pods, *job("a", 16, age=480 * MINUTE)]
    assert "a" in placed_jobs(decide(nodes, pods, NOW + 60 * MINUTE, memory=memory))
