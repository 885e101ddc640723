"""Required anti-affinity: a unit counts as kube-scheduler will see it, whoever's Pods are there."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from contract.keys import HOSTNAME, JOB, SERVER_2, SERVER_4, TRAINING
from placement.decide import decide
from placement.fit import selects
from placement.model import Apart
from placement.read import MOST_APART, MOST_TEXT, read_apart, read_pod
from placement.topology import Topology
from tests.placement.world import (
    MINUTE,
    NOW,
    bound,
    deleted,
    foreign,
    job,
    on,
    opened,
    pinned,
    placed,
    servers,
    waiting,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from placement.model import Pod

ROLE = TRAINING + "job-role"
EVERYBODY: dict[str, Any] = {"labelSelector": {}, "namespaceSelector": {}, "topologyKey": SERVER_4}
TWO = servers(2)


def terms(*said: dict[str, Any]) -> tuple[Apart, ...]:
    required = {"requiredDuringSchedulingIgnoredDuringExecution": list(said)}
    return read_apart({"affinity": {"podAntiAffinity": required}})


def of_webhook(name: str, key: str = SERVER_4) -> dict[str, Any]:
    """The term by which an MPIJob's workers keep off those of others, as releases before this wrote it."""
    selector = {
        "matchLabels": {ROLE: "worker"},
        "matchExpressions": [{"key": JOB, "operator": "NotIn", "values": [name]}],
    }
    return {"labelSelector": selector, "namespaceSelector": {}, "topologyKey": key}


def sitting(name: str, on: str, *said: dict[str, Any], **changes: Any) -> Pod:
    return foreign(name, on, neuron=False, apart=terms(*said), **changes)


def workers(name: str, count: int, *said: dict[str, Any]) -> list[Pod]:
    """A job of an MPI operator's."""
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
        name: replace(found, labels={**found.labels, "zone": "a" if name < "n2" else "b"})
        for name, found in servers(3).items()
    }
    pod = sitting("sleep", "n2-0", EVERYBODY | {"topologyKey": "zone"})
    assert where(pod, workers("a", 4), workers("b", 4), nodes=nodes) == {"a": "us-01"}


def test_where_all_units_are_closed_the_job_waits_and_is_told_by_whom() -> None:
    decision = decide(
        Topology(TWO.values()),
        [sitting("s1", "n1-0", EVERYBODY), sitting("s2", "n2-3", EVERYBODY), *workers("a", 4)],
        NOW,
    )
    assert not decision.openings
    assert "us-01: kept off by anti-affinity and other/s1" in waiting(decision)["a"]


def test_a_workers_own_term_keeps_it_off_pods_that_pass_for_workers() -> None:
    """Such as those of a job that asks for no devices: an operator labels them like any other's."""
    idle = replace(sitting("idle-worker-0", "n1-2"), labels={ROLE: "worker"})
    assert where(idle, workers("a", 4, of_webhook("team.a"))) == {"a": "us-02"}
    assert where(replace(idle, labels={ROLE: "launcher"}), workers("a", 4, of_webhook("team.a"))) == {
        "a": "us-01"
    }
    # What its author wrote beside is the author's business: such labels of others are not kept.
    of_author = EVERYBODY | {
        "labelSelector": {"matchExpressions": [{"key": "app", "operator": "DoesNotExist"}]}
    }
    assert where(idle, workers("a", 4, of_author)) == {"a": "us-01"}


def test_a_worker_that_comes_back_waits_while_its_place_is_closed() -> None:
    pods = workers("a", 4)
    running = bound(pods[:3], on(TWO, "n1-0", "n1-1", "n1-2"), started=True)
    decision = decide(Topology(TWO.values()), [*running, pods[3], sitting("s", "n1-1", EVERYBODY)], NOW)
    assert not decision.openings
    assert "by anti-affinity and other/s" in waiting(decision)["a"]


def test_terms_of_running_jobs_cost_their_neighbours_nothing() -> None:
    running = bound(workers("b", 2, of_webhook("team.b", SERVER_2)), on(TWO, "n1-0", "n1-1"), started=True)
    assert where(running, workers("a", 2, of_webhook("team.a", SERVER_2))) == {"a": "us-01-b"}


def test_a_worker_that_is_being_deleted_keeps_others_off_as_long_as_it_has_its_node() -> None:
    """It holds its node only, and the scheduler looks at its terms until it is gone."""
    (leaves, *_) = bound(workers("b", 4, of_webhook("team.b")), on(TWO, *(f"n1-{at}" for at in range(4))))
    leaves = replace(leaves, deleting=True)
    assert where(leaves, workers("a", 2)) == {"a": "us-02-a"}


def test_nothing_is_kept_where_a_pod_of_no_job_keeps_all_off() -> None:
    busy = bound(workers("b", 4), on(TWO, *(f"n2-{place}" for place in range(4))), started=True)
    old = [replace(pod, created=pod.created.replace(year=2025)) for pod in workers("a", 12)]
    decision = decide(
        Topology(servers(3).values()), [*busy, sitting("s", "n1-0", EVERYBODY), *old, *workers("c", 4)], NOW
    )
    assert placed(decision) == {"c": "us-03"}
    assert decision.cluster.kept == {}


# ---- Reading -----------------------------------------------------------------------------------------------


def test_equal_terms_are_one_object() -> None:
    assert terms(EVERYBODY)[0] is terms(dict(EVERYBODY))[0]


@pytest.mark.parametrize(
    "said",
    [
        [of_webhook(f"team.{number}") for number in range(MOST_APART + 1)],
        [of_webhook("x" * MOST_TEXT)],
    ],
)
def test_of_more_terms_than_are_looked_at_each_is_about_all_pods(said: list[dict[str, Any]]) -> None:
    [term] = terms(*said)
    assert term.key == SERVER_4
    assert selects(term, "other", "team", {})


def test_of_a_pod_of_no_job_only_labels_that_the_table_selects_by_are_kept() -> None:
    found = read_pod({"metadata": {"name": "p", "labels": {ROLE: "worker", "app": "x"}}, "spec": {}})
    assert found
    assert found.labels == {ROLE: "worker"}


# ---- Admitted in vain --------------------------------------------------------------------------------------


def test_where_one_job_was_admitted_in_vain_no_other_goes_before_what_is_free() -> None:
    """A broken pair would else be the first choice of every job of two, one after the other."""
    broken = foreign("x", "n1-0")
    vain = [opened(pinned(pod, SERVER_2, "us-01-b")) for pod in job("a", 2)]
    first = decide(Topology(TWO.values()), [broken, *vain], NOW)
    later = NOW + 2 * MINUTE
    gave_up = decide(Topology(TWO.values()), [broken, *vain], later, memory=first.memory)
    assert len(deleted(gave_up)) == 2
    after = decide(Topology(TWO.values()), [broken, *job("b", 2)], later, memory=gave_up.memory)
    assert placed(after) == {"b": "us-02-a"}
    full = bound(job("c", 4), on(TWO, *(f"n2-{place}" for place in range(4))), started=True)
    after = decide(Topology(TWO.values()), [broken, *full, *job("b", 2)], later, memory=gave_up.memory)
    assert placed(after) == {"b": "us-01-b"}
