"""Tests that missing fields of nodes and pods have defaults, and that all existing fields are read."""

from datetime import UTC, datetime
from typing import Any

import pytest

from contract import keys
from contract.keys import SERVER_4
from placement.limits import MOST_CONDITIONS
from placement.observe.model import Expression, Node, Pod, Taint, Term, Toleration
from placement.observe.read import read_demand, read_node, read_pod
from tests.placement.world import fault_text

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
ABSENT: list[dict[str, Any]] = [{}, {"metadata": None, "spec": None, "status": None}]
PLACE_ANNOTATION = {keys.PLACEMENT: f"placer=gate workers=4 size=4 unit={SERVER_4} index=name"}


def node_affinity(*terms: dict[str, Any]) -> dict[str, Any]:
    affinity = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}}
    return {"affinity": {"nodeAffinity": affinity}}


@pytest.mark.parametrize("raw", ABSENT)
def test_a_node_without_optional_fields_has_defaults(raw: dict[str, Any]) -> None:
    assert read_node(raw) == Node("", {}, ready=False)


@pytest.mark.parametrize("raw", ABSENT)
def test_a_pod_without_optional_fields_has_defaults(raw: dict[str, Any]) -> None:
    pod = read_pod(raw)
    assert pod
    assert pod == Pod("", "", "", demand=pod.demand, created=EPOCH)
    demand = pod.demand
    assert (demand.selector, demand.terms, demand.tolerations, demand.requests) == ({}, None, (), {})


def test_the_names_labels_and_gates_of_a_pod_are_read() -> None:
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


def test_all_fields_of_taints_and_tolerations_are_read() -> None:
    raw_taint = {"key": "k", "operator": "Equal", "value": "v", "effect": "NoExecute"}
    node = read_node({"spec": {"taints": [raw_taint, {}]}})
    assert node.taints == (Taint("k", "v", "NoExecute"), Taint("", "", ""))
    assert read_demand({"tolerations": [raw_taint, {}]}).tolerations == (
        Toleration("k", "Equal", "v", "NoExecute"),
        Toleration("", "", "", ""),
    )


def test_all_fields_of_node_affinity_are_read_and_an_empty_list_matches_no_node() -> None:
    raw_expression = {"key": "k", "operator": "In", "values": ["a", "b"]}
    terms = read_demand(
        node_affinity({"matchExpressions": [raw_expression, {}], "matchFields": [raw_expression]}, {})
    ).terms
    expression = Expression("k", "In", ("a", "b"))
    assert terms == (Term((expression, Expression("", "", ())), (expression,)), Term())
    # An empty list of required terms matches no node, unlike a missing one.
    empty_affinity: dict[str, Any] = {"requiredDuringSchedulingIgnoredDuringExecution": {}}
    assert read_demand({"affinity": {"nodeAffinity": empty_affinity}}).terms == ()
    assert read_demand({"affinity": {"nodeAffinity": None}}).terms is None


@pytest.mark.parametrize("kind", ["initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses"])
@pytest.mark.parametrize("state", ["state", "lastState"])
@pytest.mark.parametrize("value", ["running", "terminated"])
def test_a_pod_has_started_if_any_container_runs_or_ran(kind: str, state: str, value: str) -> None:
    for statuses, started in (([{}, {state: {value: {}}}], True), ([{}, {state: None}], False)):
        pod = read_pod({"status": {kind: statuses}})
        assert pod
        assert pod.started is started


def test_a_time_without_a_zone_is_utc_and_an_invalid_time_is_the_epoch() -> None:
    for text, created in (
        ("2026-11-21T10:00:00", datetime(2026, 11, 21, 10, tzinfo=UTC)),
        ("2026-11-21T10:00:00+02:00", datetime(2026, 11, 21, 8, tzinfo=UTC)),
        ("yesterday", EPOCH),
    ):
        pod = read_pod({"metadata": {"creationTimestamp": text}})
        assert pod
        assert pod.created == created


@pytest.mark.parametrize(
    ("conditions", "count"),
    [
        ({"tolerations": [{}] * 50}, 200),
        ({"tolerations": [{}] * 51}, 204),
        ({"nodeSelector": {str(number): "" for number in range(51)}}, 204),
        (
            {"tolerations": [{}] * 45} | node_affinity({"matchExpressions": [{"values": ["a"] * 4}, {}]}, {}),
            200,
        ),
        (
            {"tolerations": [{}] * 45} | node_affinity({"matchExpressions": [{"values": ["a"] * 5}, {}]}, {}),
            201,
        ),
    ],
)
def test_terms_expressions_values_and_tolerations_count_as_parts(
    conditions: dict[str, Any], count: int
) -> None:
    pod = read_pod({"metadata": {"name": "w-0", "annotations": PLACE_ANNOTATION}, "spec": conditions})
    assert pod
    message = f"its node selector, node affinity and tolerations have {count} parts of "
    assert fault_text(pod).startswith(message) if count > MOST_CONDITIONS else not fault_text(pod)
