"""Missing fields of nodes and pods have their defaults, and existing ones are read whole."""

from datetime import UTC, datetime
from typing import Any

import pytest

from contract import keys
from contract.keys import SERVER_4
from placement.limits import MOST_CONDITIONS
from placement.observe.model import Expression, Node, Pod, Taint, Term, Toleration
from placement.observe.read import read_demand, read_node, read_pod
from tests.placement.world import problem

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
ABSENT: list[dict[str, Any]] = [{}, {"metadata": None, "spec": None, "status": None}]
PLACED = {keys.PLACE: f"placer=gate workers=4 size=4 unit={SERVER_4} index=name"}


def required(*terms: dict[str, Any]) -> dict[str, Any]:
    affinity = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}}
    return {"affinity": {"nodeAffinity": affinity}}


@pytest.mark.parametrize("raw", ABSENT)
def test_a_node_without_optional_fields(raw: dict[str, Any]) -> None:
    assert read_node(raw) == Node("", {}, ready=False)


@pytest.mark.parametrize("raw", ABSENT)
def test_a_pod_without_optional_fields(raw: dict[str, Any]) -> None:
    pod = read_pod(raw)
    assert pod
    assert pod == Pod("", "", "", demand=pod.demand, created=EPOCH)
    demand = pod.demand
    assert (demand.selector, demand.terms, demand.tolerations, demand.requests) == ({}, None, (), {})


def test_a_pod_arrives_with_all_that_identifies_it() -> None:
    metadata = {
        "namespace": "team",
        "name": "p",
        "uid": "u",
        "resourceVersion": "7",
        "labels": {keys.LOOSE: ""},
    }
    spec = {"schedulingGates": [{"name": "others"}, {}]}
    pod = read_pod({"metadata": metadata | {"annotations": {keys.JOB: "team.train"}}, "spec": spec})
    assert pod
    assert (pod.namespace, pod.name, pod.uid) == ("team", "p", "u")
    assert (pod.job, pod.loose, pod.gates) == ("team.train", True, ("others", ""))


def test_taints_and_tolerations_arrive_with_each_of_their_parts() -> None:
    whole = {"key": "k", "operator": "Equal", "value": "v", "effect": "NoExecute"}
    node = read_node({"spec": {"taints": [whole, {}]}})
    assert node.taints == (Taint("k", "v", "NoExecute"), Taint("", "", ""))
    assert read_demand({"tolerations": [whole, {}]}).tolerations == (
        Toleration("k", "Equal", "v", "NoExecute"),
        Toleration("", "", "", ""),
    )


def test_terms_arrive_with_each_of_their_parts_and_none_selects_nothing() -> None:
    whole = {"key": "k", "operator": "In", "values": ["a", "b"]}
    terms = read_demand(required({"matchExpressions": [whole, {}], "matchFields": [whole]}, {})).terms
    expression = Expression("k", "In", ("a", "b"))
    assert terms == (Term((expression, Expression("", "", ())), (expression,)), Term())
    # An empty list of required terms matches no node, unlike a missing one.
    nothing: dict[str, Any] = {"requiredDuringSchedulingIgnoredDuringExecution": {}}
    assert read_demand({"affinity": {"nodeAffinity": nothing}}).terms == ()
    assert read_demand({"affinity": {"nodeAffinity": None}}).terms is None


@pytest.mark.parametrize("kind", ["initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses"])
@pytest.mark.parametrize("state", ["state", "lastState"])
@pytest.mark.parametrize("value", ["running", "terminated"])
def test_any_container_that_runs_or_ran_is_a_start(kind: str, state: str, value: str) -> None:
    for statuses, started in (([{}, {state: {value: {}}}], True), ([{}, {state: None}], False)):
        pod = read_pod({"status": {kind: statuses}})
        assert pod
        assert pod.started is started


def test_a_time_without_a_zone_is_utc_and_no_time_is_none() -> None:
    for text, created in (
        ("2026-11-21T10:00:00", datetime(2026, 11, 21, 10, tzinfo=UTC)),
        ("2026-11-21T10:00:00+02:00", datetime(2026, 11, 21, 8, tzinfo=UTC)),
        ("yesterday", EPOCH),
    ):
        pod = read_pod({"metadata": {"creationTimestamp": text}})
        assert pod
        assert pod.created == created


@pytest.mark.parametrize(
    ("more", "count"),
    [
        ({"tolerations": [{}] * 50}, 200),
        ({"tolerations": [{}] * 51}, 204),
        ({"nodeSelector": {str(number): "" for number in range(51)}}, 204),
        ({"tolerations": [{}] * 45} | required({"matchExpressions": [{"values": ["a"] * 4}, {}]}, {}), 200),
        ({"tolerations": [{}] * 45} | required({"matchExpressions": [{"values": ["a"] * 5}, {}]}, {}), 201),
    ],
)
def test_terms_expressions_values_and_tolerations_count_as_parts(more: dict[str, Any], count: int) -> None:
    pod = read_pod({"metadata": {"name": "w-0", "annotations": PLACED}, "spec": more})
    assert pod
    message = f"its node selector, node affinity and tolerations have {count} parts of "
    assert problem(pod).startswith(message) if count > MOST_CONDITIONS else not problem(pod)
