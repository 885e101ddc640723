"""Tests of reading nodes and pods from the API server, with any labels and annotations."""

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contract import keys
from contract.keys import DEVICES, HOSTNAME, SERVER_4
from contract.placement import Index, Placement, Placer, Summand
from placement.limits import (
    MOST_ANNOTATIONS,
    MOST_CONDITIONS,
    MOST_GATES,
    MOST_PORTS,
    MOST_RESOURCES,
    MOST_TEXT,
)
from placement.observe.model import Demand, Taint
from placement.observe.read import (
    read_ended,
    read_node,
    read_pod,
)
from tests.helpers import examples
from tests.placement.world import fault_text

INDEX = "training.kubeflow.org/replica-index"
PLACEMENT = Placement(Placer.WHOLE_JOB, 16, 4, SERVER_4, Index((Summand(f"labels/{INDEX}"),)))
PLACE_ANNOTATION = {keys.PLACEMENT: str(PLACEMENT)}


def pod(**changes: Any) -> dict[str, Any]:
    metadata = {
        "namespace": "team",
        "name": "train-worker-7",
        "uid": "u7",
        "creationTimestamp": "2026-11-21T10:00:00Z",
        "labels": {keys.JOB: "team.train", INDEX: "7"},
        "annotations": PLACE_ANNOTATION,
    } | changes.pop("metadata", {})
    spec = {"containers": [{}], "schedulingGates": [{"name": keys.GATE}]} | changes.pop("spec", {})
    return {"metadata": metadata, "spec": spec, "status": changes.pop("status", {})}


def node_affinity(*terms: dict[str, Any]) -> dict[str, Any]:
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}}
    return {"affinity": {"nodeAffinity": required}}


def test_a_worker_is_read_as_its_operator_creates_it() -> None:
    worker = read_pod(pod())
    assert worker
    assert (worker.placement, worker.number, worker.block) == (PLACEMENT, 7, 1)
    assert (worker.key, worker.gated, fault_text(worker)) == (("team", "team.train"), True, "")
    assert worker.created == datetime(2026, 11, 21, 10, tzinfo=UTC)
    assert not any((worker.node, worker.admitted_at, worker.started, worker.deleting, worker.priority))


def test_the_node_pin_and_deletion_of_a_worker_are_read() -> None:
    worker = read_pod(
        pod(
            metadata={
                "annotations": PLACE_ANNOTATION | {keys.OPENED: "2026-11-21T10:00:05Z"},
                "deletionTimestamp": "2026-11-21T11:00:00Z",
            },
            spec={"schedulingGates": [], "nodeName": "n1", "nodeSelector": {SERVER_4: "us-1"}, "priority": 7},
        )
    )
    assert worker
    assert (worker.node, worker.pin, worker.deleting, worker.priority) == ("n1", "us-1", True, 7)
    assert (worker.gated, worker.admitted_at) == (False, datetime(2026, 11, 21, 10, 0, 5, tzinfo=UTC))


def test_a_node_selector_that_the_program_did_not_write_is_not_a_pin() -> None:
    worker = read_pod(pod(spec={"nodeSelector": {SERVER_4: "us-1"}}))
    assert worker
    assert worker.pin is None


def test_an_admission_time_without_a_pin_is_ignored() -> None:
    opened_annotation = {keys.OPENED: "2026-11-21T12:00:00Z"}
    for metadata in (
        {"annotations": PLACE_ANNOTATION | opened_annotation, "labels": {INDEX: "3"}},
        {"annotations": opened_annotation},
    ):
        worker = read_pod(pod(metadata=metadata, spec={"nodeSelector": {keys.SERVER_2: "us-1-a"}}))
        assert worker
        assert worker.admitted_at is None


@pytest.mark.parametrize(
    ("status", "started"),
    [
        ({"phase": "Pending"}, False),
        ({"phase": "Running"}, True),
        ({"phase": "Pending", "containerStatuses": [{"state": {"waiting": {"reason": "Pulling"}}}]}, False),
    ],
)
def test_a_pod_has_started_when_it_runs(status: dict[str, Any], started: bool) -> None:  # noqa: FBT001
    worker = read_pod(pod(status=status))
    assert worker
    assert worker.started is started


def test_a_pod_without_a_job_has_its_nominated_node() -> None:
    """kube-scheduler keeps this node for the pod, which preempted other Pods there."""
    status = {"nominatedNodeName": "n1-0"}
    worker = read_pod({"metadata": {"name": "p"}, "spec": {}, "status": status})
    assert worker
    assert worker.node == "n1-0"
    worker = read_pod(pod(status=status))  # a worker has a node only when it is bound
    assert worker
    assert not worker.node


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_for_an_ended_worker_only_its_job_and_number_are_stored(phase: str) -> None:
    assert read_pod(pod(status={"phase": phase})) is None
    live_pod = read_pod(pod())
    assert live_pod
    assert read_ended(pod(status={"phase": phase})) == (live_pod.key, live_pod.number)
    assert read_ended(pod()) is None
    metadata = {"deletionTimestamp": "2026-11-21T12:00:00Z"}
    assert read_ended(pod(status={"phase": phase}, metadata=metadata)) is None
    assert (
        read_ended(pod(status={"phase": phase}, metadata={"annotations": {keys.PLACEMENT: "placer=gate"}}))
        is None
    )


@examples(15)
@given(
    st.dictionaries(st.sampled_from([*PLACE_ANNOTATION, keys.OPENED, keys.JOB, INDEX]), st.text(max_size=80))
)
def test_a_pod_with_any_content_can_be_read(texts: dict[str, str]) -> None:
    worker = read_pod(pod(metadata={"annotations": PLACE_ANNOTATION | texts, "labels": {INDEX: "3"} | texts}))
    assert worker
    assert (worker.placement is None) is (worker.fault is not None)


@pytest.mark.parametrize(
    "spec",
    [
        {"tolerations": [{"key": f"k{number}"} for number in range(MOST_CONDITIONS + 1)]},
        node_affinity(*({} for _ in range(MOST_CONDITIONS + 1))),
        node_affinity({"matchFields": [{"key": "metadata.name"}] * MOST_CONDITIONS}),
        node_affinity({"matchExpressions": [{"values": [str(number) for number in range(MOST_CONDITIONS)]}]}),
    ],
)
def test_a_worker_with_too_many_conditions_on_nodes_has_a_fault(spec: dict[str, Any]) -> None:
    worker = read_pod(pod(spec=spec))
    assert worker
    assert f"at most {MOST_CONDITIONS} parts of " in fault_text(worker)
    assert worker.placement  # if the pod already runs, it still holds its unit


LONG_CONDITIONS = {
    "nodeSelector": {f"key-{number}": "v" * 200 for number in range(40)},
    "affinity": node_affinity({"matchExpressions": [{"key": "k", "values": ["v" * 5000]}]})["affinity"],
    "tolerations": [{"key": "k" * 5000}],
}


@pytest.mark.parametrize("part", LONG_CONDITIONS)
def test_too_long_conditions_of_a_worker_are_a_fault_and_not_stored(part: str) -> None:
    worker = read_pod(pod(spec={part: LONG_CONDITIONS[part]}))
    assert worker
    assert f"at most {MOST_CONDITIONS} parts of {MOST_TEXT} characters are compared" in fault_text(worker)
    assert worker.demand.cost == 0


@pytest.mark.parametrize(("gates", "excess"), [([keys.GATE], 1), ([keys.GATE], 0), ([], 1)])
def test_a_gated_worker_without_room_for_a_plan_annotation_has_a_fault(gates: list[str], excess: int) -> None:
    """Otherwise the API server would refuse the plan, and the job would be admitted in part."""
    used_bytes = sum(map(len, ("pad", *PLACE_ANNOTATION, *PLACE_ANNOTATION.values())))
    annotations = PLACE_ANNOTATION | {"pad": "x" * (MOST_ANNOTATIONS - used_bytes + excess)}
    spec = {"schedulingGates": [{"name": gate} for gate in gates]}
    worker = read_pod(pod(metadata={"annotations": annotations}, spec=spec))
    assert worker
    has_fault = bool(gates and excess)
    assert ("at most 240000 are supported" in fault_text(worker)) is has_fault


def test_for_a_pod_without_an_annotation_only_its_requests_are_stored() -> None:
    requests = {"cpu": "1", "none": "0"}
    spec = {**LONG_CONDITIONS, "containers": [{"resources": {"requests": requests}}], "schedulingGates": []}
    worker = read_pod(pod(spec=spec, metadata={"annotations": {}}))
    assert worker
    assert (fault_text(worker), worker.demand.cost, worker.demand.requests) == ("", 0, {"cpu": 1000})


def test_too_many_resources_are_reduced_to_the_core_resources() -> None:
    requests = {f"example.com/{number}": "1" for number in range(MOST_RESOURCES)} | {
        "aws.amazon.com/neuron": "4"
    }
    worker = read_pod(pod(spec={"containers": [{"resources": {"requests": requests}}]}))
    assert worker
    assert worker.demand.requests == {"aws.amazon.com/neuron": 4000}


@pytest.mark.parametrize(("sidecars", "stored_count"), [(MOST_PORTS - 2, MOST_PORTS), (MOST_PORTS - 1, 1)])
def test_too_many_host_ports_are_stored_as_one_resource(sidecars: int, stored_count: int) -> None:
    container = {"ports": [{"hostPort": 22}, {"hostPort": 22, "protocol": "UDP"}, {"containerPort": 1}]}
    sidecar_containers = [
        {"restartPolicy": "Always", "ports": [{"hostPort": 100 + at}]} for at in range(sidecars)
    ]
    worker = read_pod(
        pod(
            spec={
                "containers": [container],
                "initContainers": [*sidecar_containers, {"ports": [{"hostPort": 80}]}],
            }
        )
    )
    assert worker
    assert len(worker.demand.requests) == stored_count
    assert worker.demand.requests.get("host port 22/UDP" if stored_count > 1 else "host port") == 1000


def test_a_pod_with_too_many_gates_has_a_fault() -> None:
    gates = [{"name": keys.GATE}, *({"name": f"example.com/{number}"} for number in range(MOST_GATES))]
    worker = read_pod(pod(spec={"schedulingGates": gates}))
    assert worker
    assert (worker.gated, len(worker.gates)) == (True, MOST_GATES)
    assert f"at most {MOST_GATES}" in fault_text(worker)


def test_a_node_affinity_with_a_hundred_values_is_not_a_fault() -> None:
    expression = {"matchExpressions": [{"key": HOSTNAME, "values": [f"n{number}" for number in range(100)]}]}
    worker = read_pod(pod(spec=node_affinity(expression)))
    assert worker
    assert not fault_text(worker)


def test_pods_with_equal_conditions_and_requests_share_one_demand() -> None:
    containers = [{"resources": {"requests": {"aws.amazon.com/neuron": "16", "cpu": "500m"}}}]
    spec = {"nodeSelector": {"a": "b"}, "containers": containers}
    worker, equal_worker, plain_worker = (read_pod(pod(spec=spec_fields)) for spec_fields in (spec, spec, {}))
    assert worker
    assert equal_worker
    assert worker.demand is equal_worker.demand
    assert (worker.demand.uses(DEVICES), worker.demand.selector) == (True, {"a": "b"})
    assert worker.demand.requests == {"aws.amazon.com/neuron": 16_000, "cpu": 500}
    assert plain_worker
    assert (plain_worker.demand.uses(DEVICES), plain_worker.demand.terms) == (False, None)


def test_the_fields_of_a_node_are_read() -> None:
    node = read_node(
        {
            "metadata": {"name": "n1", "labels": {SERVER_4: "us-1"}},
            "spec": {"unschedulable": True, "taints": [{"key": "k", "effect": "NoSchedule"}]},
            "status": {
                "conditions": [
                    {"type": "MemoryPressure", "status": "True"},
                    {"type": "Ready", "status": "True"},
                ],
                "allocatable": {"cpu": "192", "memory": "1Ki"},
            },
        }
    )
    assert (node.name, node.ready, node.cordoned) == ("n1", True, True)
    assert node.taints == (Taint("k", "", "NoSchedule"),)
    assert node.allocatable == {"cpu": 192_000, "memory": 1_024_000}
    assert node.unit(SERVER_4) == "us-1"


@pytest.mark.parametrize("status", [{}, {"conditions": [{"type": "Ready", "status": "Unknown"}]}])
def test_a_node_without_a_ready_condition_is_not_ready(status: dict[str, Any]) -> None:
    assert not read_node({"metadata": {"name": "n1"}, "status": status}).ready


@pytest.mark.parametrize(
    "labels",
    [{}, {SERVER_4: ""}, {SERVER_4: "0000000000000000"}, {SERVER_4: "us", keys.NODE_IDS[SERVER_4]: "-1"}],
)
def test_a_node_without_a_valid_server_id_has_no_unit(labels: dict[str, str]) -> None:
    assert read_node({"metadata": {"name": "n", "labels": labels}}).unit(SERVER_4) is None


def test_demands_are_compared_by_identity() -> None:
    assert Demand() != Demand()
