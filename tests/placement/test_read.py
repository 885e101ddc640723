"""Nodes and pods as the API server has them, with any labels and annotations."""

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contract import keys
from contract.keys import DEVICES, HOSTNAME, SERVER_4
from contract.place import Index, Place, Placer, Summand
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
from tests.placement.world import problem

INDEX = "training.kubeflow.org/replica-index"
PLACE = Place(Placer.WHOLE_JOB, 16, 4, SERVER_4, Index((Summand(f"labels/{INDEX}"),)))
CONTRACT = {keys.PLACE: str(PLACE)}


def pod(**changes: Any) -> dict[str, Any]:
    metadata = {
        "namespace": "team",
        "name": "train-worker-7",
        "uid": "u7",
        "creationTimestamp": "2026-11-21T10:00:00Z",
        "labels": {keys.JOB: "team.train", INDEX: "7"},
        "annotations": CONTRACT,
    } | changes.pop("metadata", {})
    spec = {"containers": [{}], "schedulingGates": [{"name": keys.GATE}]} | changes.pop("spec", {})
    return {"metadata": metadata, "spec": spec, "status": changes.pop("status", {})}


def node_affinity(*terms: dict[str, Any]) -> dict[str, Any]:
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}}
    return {"affinity": {"nodeAffinity": required}}


def test_a_worker_as_the_operator_makes_it() -> None:
    worker = read_pod(pod())
    assert worker
    assert (worker.place, worker.number, worker.block) == (PLACE, 7, 1)
    assert (worker.key, worker.gated, problem(worker)) == (("team", "team.train"), True, "")
    assert worker.created == datetime(2026, 11, 21, 10, tzinfo=UTC)
    assert not any((worker.node, worker.admitted_at, worker.started, worker.deleting, worker.priority))


def test_what_happens_to_it_is_seen() -> None:
    worker = read_pod(
        pod(
            metadata={
                "annotations": CONTRACT | {keys.OPENED: "2026-11-21T10:00:05Z"},
                "deletionTimestamp": "2026-11-21T11:00:00Z",
            },
            spec={"schedulingGates": [], "nodeName": "n1", "nodeSelector": {SERVER_4: "us-1"}, "priority": 7},
        )
    )
    assert worker
    assert (worker.node, worker.pin, worker.deleting, worker.priority) == ("n1", "us-1", True, 7)
    assert (worker.gated, worker.admitted_at) == (False, datetime(2026, 11, 21, 10, 0, 5, tzinfo=UTC))


def test_a_server_id_that_its_author_chose_is_no_pin() -> None:
    worker = read_pod(pod(spec={"nodeSelector": {SERVER_4: "us-1"}}))
    assert worker
    assert worker.pin is None


def test_a_time_without_a_pin_that_a_template_had_is_no_opening() -> None:
    at = {keys.OPENED: "2026-11-21T12:00:00Z"}
    for metadata in ({"annotations": CONTRACT | at, "labels": {INDEX: "3"}}, {"annotations": at}):
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


def test_a_pod_for_which_the_scheduler_keeps_a_node_is_there() -> None:
    """It preempted others: the scheduler refuses that node to who is no more urgent, and a job would wait."""
    status = {"nominatedNodeName": "n1-0"}
    worker = read_pod({"metadata": {"name": "p"}, "spec": {}, "status": status})
    assert worker
    assert worker.node == "n1-0"
    worker = read_pod(pod(status=status))  # its job is not whole before it is bound
    assert worker
    assert not worker.node


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_of_pods_that_have_ended_it_is_kept_who_they_were(phase: str) -> None:
    assert read_pod(pod(status={"phase": phase})) is None
    alive = read_pod(pod())
    assert alive
    assert read_ended(pod(status={"phase": phase})) == (alive.key, alive.number)
    assert read_ended(pod()) is None
    going = {"deletionTimestamp": "2026-11-21T12:00:00Z"}
    assert read_ended(pod(status={"phase": phase}, metadata=going)) is None
    assert (
        read_ended(pod(status={"phase": phase}, metadata={"annotations": {keys.PLACE: "placer=gate"}}))
        is None
    )


@examples(15)
@given(st.dictionaries(st.sampled_from([*CONTRACT, keys.OPENED, keys.JOB, INDEX]), st.text(max_size=80)))
def test_a_pod_with_any_content_can_be_read(texts: dict[str, str]) -> None:
    worker = read_pod(pod(metadata={"annotations": CONTRACT | texts, "labels": {INDEX: "3"} | texts}))
    assert worker
    assert (worker.place is None) is (worker.fault is not None)


@pytest.mark.parametrize(
    "spec",
    [
        {"tolerations": [{"key": f"k{number}"} for number in range(MOST_CONDITIONS + 1)]},
        node_affinity(*({} for _ in range(MOST_CONDITIONS + 1))),
        node_affinity({"matchFields": [{"key": "metadata.name"}] * MOST_CONDITIONS}),
        node_affinity({"matchExpressions": [{"values": [str(number) for number in range(MOST_CONDITIONS)]}]}),
    ],
)
def test_what_would_be_compared_with_every_node_for_long_is_not(spec: dict[str, Any]) -> None:
    worker = read_pod(pod(spec=spec))
    assert worker
    assert f"at most {MOST_CONDITIONS} parts of " in problem(worker)
    assert worker.place  # where it runs already, its unit stays its own


LONG = {
    "nodeSelector": {f"key-{number}": "v" * 200 for number in range(40)},
    "affinity": node_affinity({"matchExpressions": [{"key": "k", "values": ["v" * 5000]}]})["affinity"],
    "tolerations": [{"key": "k" * 5000}],
}


@pytest.mark.parametrize("part", LONG)
def test_conditions_of_a_worker_on_nodes_are_kept_up_to_a_length(part: str) -> None:
    worker = read_pod(pod(spec={part: LONG[part]}))
    assert worker
    assert f"at most {MOST_CONDITIONS} parts of {MOST_TEXT} characters are compared" in problem(worker)
    assert worker.demand.cost == 0


@pytest.mark.parametrize(("gates", "beyond"), [([keys.GATE], 1), ([keys.GATE], 0), ([], 1)])
def test_a_worker_without_room_for_its_unit_is_known_before_others_are_opened(
    gates: list[str], beyond: int
) -> None:
    """What the API server refuses in the middle leaves the job half open, on nodes that others could have."""
    taken = sum(map(len, ("pad", *CONTRACT, *CONTRACT.values())))
    annotations = CONTRACT | {"pad": "x" * (MOST_ANNOTATIONS - taken + beyond)}
    spec = {"schedulingGates": [{"name": gate} for gate in gates]}
    worker = read_pod(pod(metadata={"annotations": annotations}, spec=spec))
    assert worker
    waits = bool(gates and beyond)
    assert ("at most 240000 are supported" in problem(worker)) is waits


def test_of_a_pod_that_takes_no_node_it_is_kept_who_it_is_and_what_it_takes() -> None:
    requests = {"cpu": "1", "none": "0"}
    spec = {**LONG, "containers": [{"resources": {"requests": requests}}], "schedulingGates": []}
    worker = read_pod(pod(spec=spec, metadata={"annotations": {}}))
    assert worker
    assert (problem(worker), worker.demand.cost, worker.demand.requests) == ("", 0, {"cpu": 1000})


def test_resources_that_no_node_has_are_not_kept() -> None:
    requests = {f"example.com/{number}": "1" for number in range(MOST_RESOURCES)} | {
        "aws.amazon.com/neuron": "4"
    }
    worker = read_pod(pod(spec={"containers": [{"resources": {"requests": requests}}]}))
    assert worker
    assert worker.demand.requests == {"aws.amazon.com/neuron": 4000}


@pytest.mark.parametrize(("sidecars", "kept"), [(MOST_PORTS - 2, MOST_PORTS), (MOST_PORTS - 1, 1)])
def test_host_ports_are_kept_very_many_as_one(sidecars: int, kept: int) -> None:
    first = {"ports": [{"hostPort": 22}, {"hostPort": 22, "protocol": "UDP"}, {"containerPort": 1}]}
    more = [{"restartPolicy": "Always", "ports": [{"hostPort": 100 + at}]} for at in range(sidecars)]
    worker = read_pod(
        pod(spec={"containers": [first], "initContainers": [*more, {"ports": [{"hostPort": 80}]}]})
    )
    assert worker
    assert len(worker.demand.requests) == kept
    assert worker.demand.requests.get("host port 22/UDP" if kept > 1 else "host port") == 1000


def test_a_pod_with_very_many_gates_waits_with_a_reason() -> None:
    gates = [{"name": keys.GATE}, *({"name": f"example.com/{number}"} for number in range(MOST_GATES))]
    worker = read_pod(pod(spec={"schedulingGates": gates}))
    assert worker
    assert (worker.gated, len(worker.gates)) == (True, MOST_GATES)
    assert f"at most {MOST_GATES}" in problem(worker)


def test_node_conditions_of_users_are_compared() -> None:
    names = {"matchExpressions": [{"key": HOSTNAME, "values": [f"n{number}" for number in range(100)]}]}
    worker = read_pod(pod(spec=node_affinity(names)))
    assert worker
    assert not problem(worker)


def test_the_conditions_of_a_pod_on_its_node() -> None:
    containers = [{"resources": {"requests": {"aws.amazon.com/neuron": "16", "cpu": "500m"}}}]
    spec = {"nodeSelector": {"a": "b"}, "containers": containers}
    worker, again, plain = (read_pod(pod(spec=fields)) for fields in (spec, spec, {}))
    assert worker
    assert again
    assert worker.demand is again.demand
    assert (worker.demand.uses(DEVICES), worker.demand.selector) == (True, {"a": "b"})
    assert worker.demand.requests == {"aws.amazon.com/neuron": 16_000, "cpu": 500}
    assert plain
    assert (plain.demand.uses(DEVICES), plain.demand.terms) == (False, None)


def test_a_node() -> None:
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
def test_a_node_outside_a_working_ultraserver(labels: dict[str, str]) -> None:
    assert read_node({"metadata": {"name": "n", "labels": labels}}).unit(SERVER_4) is None


def test_equal_demands_are_compared_by_identity() -> None:
    assert Demand() != Demand()
