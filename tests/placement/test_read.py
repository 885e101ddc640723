"""Nodes and pods as the API server has them, with any labels and annotations."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contract import keys
from contract.keys import DEVICES, HOSTNAME, SERVER_4
from contract.place import Index, Place, Placer, Term
from placement.observe.model import Demand, Taint
from placement.observe.read import (
    MOST_ANNOTATIONS,
    MOST_CONDITIONS,
    MOST_GATES,
    MOST_PORTS,
    MOST_RESOURCES,
    MOST_TEXT,
    read_ended,
    read_node,
    read_pod,
)
from tests.helpers import examples
from tests.placement.world import problem

INDEX = "training.kubeflow.org/replica-index"
PLACE = Place(Placer.WHOLE_JOB, 16, 4, SERVER_4, Index((Term(f"labels/{INDEX}"),)))
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
    found = read_pod(pod())
    assert found
    assert (found.place, found.number, found.block) == (PLACE, 7, 1)
    assert (found.key, found.gated, problem(found)) == (("team", "team.train"), True, "")
    assert found.created == datetime(2026, 11, 21, 10, tzinfo=UTC)
    assert not any((found.node, found.opened, found.started, found.deleting, found.priority))


def test_what_happens_to_it_is_seen() -> None:
    found = read_pod(
        pod(
            metadata={
                "annotations": CONTRACT | {keys.OPENED: "2026-11-21T10:00:05Z"},
                "deletionTimestamp": "2026-11-21T11:00:00Z",
            },
            spec={"schedulingGates": [], "nodeName": "n1", "nodeSelector": {SERVER_4: "us-1"}, "priority": 7},
        )
    )
    assert found
    assert (found.node, found.pin, found.deleting, found.priority) == ("n1", "us-1", True, 7)
    assert (found.gated, found.opened) == (False, datetime(2026, 11, 21, 10, 0, 5, tzinfo=UTC))


def test_a_server_id_that_its_author_chose_is_no_pin() -> None:
    found = read_pod(pod(spec={"nodeSelector": {SERVER_4: "us-1"}}))
    assert found
    assert found.pin is None


def test_a_time_without_a_pin_that_a_template_had_is_no_opening() -> None:
    at = {keys.OPENED: "2026-11-21T12:00:00Z"}
    for metadata in ({"annotations": CONTRACT | at, "labels": {INDEX: "3"}}, {"annotations": at}):
        found = read_pod(pod(metadata=metadata, spec={"nodeSelector": {keys.SERVER_2: "us-1-a"}}))
        assert found
        assert found.opened is None


@pytest.mark.parametrize(
    ("status", "started"),
    [
        ({"phase": "Pending"}, False),
        ({"phase": "Running"}, True),
        ({"phase": "Pending", "containerStatuses": [{"state": {"waiting": {"reason": "Pulling"}}}]}, False),
    ],
)
def test_a_pod_has_started_when_it_runs(status: dict[str, Any], started: bool) -> None:  # noqa: FBT001
    found = read_pod(pod(status=status))
    assert found
    assert found.started is started


def test_a_pod_for_which_the_scheduler_keeps_a_node_is_there() -> None:
    """It preempted others: the scheduler refuses that node to who is no more urgent, and a job would wait."""
    status = {"nominatedNodeName": "n1-0"}
    found = read_pod({"metadata": {"name": "p"}, "spec": {}, "status": status})
    assert found
    assert found.node == "n1-0"
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
def test_whatever_is_written_a_pod_can_be_read(said: dict[str, str]) -> None:
    found = read_pod(pod(metadata={"annotations": CONTRACT | said, "labels": {INDEX: "3"} | said}))
    assert found
    assert (found.place is None) is (found.fault is not None)


@pytest.mark.parametrize(
    "asked",
    [
        {"tolerations": [{"key": f"k{number}"} for number in range(MOST_CONDITIONS + 1)]},
        node_affinity(*({} for _ in range(MOST_CONDITIONS + 1))),
        node_affinity({"matchFields": [{"key": "metadata.name"}] * MOST_CONDITIONS}),
        node_affinity({"matchExpressions": [{"values": [str(number) for number in range(MOST_CONDITIONS)]}]}),
    ],
)
def test_what_would_be_compared_with_every_node_for_long_is_not(asked: dict[str, Any]) -> None:
    found = read_pod(pod(spec=asked))
    assert found
    assert f"at most {MOST_CONDITIONS} parts of " in problem(found)
    assert found.place  # where it runs already, its unit stays its own


LONG = {
    "nodeSelector": {f"key-{number}": "v" * 200 for number in range(40)},
    "affinity": node_affinity({"matchExpressions": [{"key": "k", "values": ["v" * 5000]}]})["affinity"],
    "tolerations": [{"key": "k" * 5000}],
}


@pytest.mark.parametrize("part", LONG)
def test_what_a_worker_asks_of_nodes_is_kept_up_to_a_length(part: str) -> None:
    found = read_pod(pod(spec={part: LONG[part]}))
    assert found
    assert f"at most {MOST_CONDITIONS} parts of {MOST_TEXT} characters are compared" in problem(found)
    assert found.demand.parts == 0


@pytest.mark.parametrize(("gates", "beyond"), [([keys.GATE], 1), ([keys.GATE], 0), ([], 1)])
def test_a_worker_without_room_for_its_unit_is_known_before_others_are_opened(
    gates: list[str], beyond: int
) -> None:
    """What the API server refuses in the middle leaves the job half open, on nodes that others could have."""
    taken = sum(map(len, ("pad", *CONTRACT, *CONTRACT.values())))
    annotations = CONTRACT | {"pad": "x" * (MOST_ANNOTATIONS - taken + beyond)}
    spec = {"schedulingGates": [{"name": gate} for gate in gates]}
    found = read_pod(pod(metadata={"annotations": annotations}, spec=spec))
    assert found
    waits = bool(gates and beyond)
    assert ("at most 240000, so that its unit has room" in problem(found)) is waits


def test_of_a_pod_that_takes_no_node_it_is_kept_who_it_is_and_what_it_takes() -> None:
    asked = {"cpu": "1", "none": "0"}
    spec = {**LONG, "containers": [{"resources": {"requests": asked}}], "schedulingGates": []}
    found = read_pod(pod(spec=spec, metadata={"annotations": {}}))
    assert found
    assert (problem(found), found.demand.parts, found.demand.requests) == ("", 0, {"cpu": 1000})


def test_resources_that_no_node_has_are_not_kept() -> None:
    asked = {f"example.com/{number}": "1" for number in range(MOST_RESOURCES)} | {
        "aws.amazon.com/neuron": "4"
    }
    found = read_pod(pod(spec={"containers": [{"resources": {"requests": asked}}]}))
    assert found
    assert found.demand.requests == {"aws.amazon.com/neuron": 4000}


@pytest.mark.parametrize(("sidecars", "kept"), [(MOST_PORTS - 2, MOST_PORTS), (MOST_PORTS - 1, 1)])
def test_host_ports_are_kept_very_many_as_one(sidecars: int, kept: int) -> None:
    first = {"ports": [{"hostPort": 22}, {"hostPort": 22, "protocol": "UDP"}, {"containerPort": 1}]}
    more = [{"restartPolicy": "Always", "ports": [{"hostPort": 100 + at}]} for at in range(sidecars)]
    found = read_pod(
        pod(spec={"containers": [first], "initContainers": [*more, {"ports": [{"hostPort": 80}]}]})
    )
    assert found
    assert len(found.demand.requests) == kept
    assert found.demand.requests.get("host port 22/UDP" if kept > 1 else "host port") == 1000


def test_a_pod_of_very_many_gates_waits_and_says_so() -> None:
    gates = [{"name": keys.GATE}, *({"name": f"example.com/{number}"} for number in range(MOST_GATES))]
    found = read_pod(pod(spec={"schedulingGates": gates}))
    assert found
    assert (found.gated, len(found.gates)) == (True, MOST_GATES)
    assert f"at most {MOST_GATES}" in problem(found)


def test_what_people_ask_of_nodes_is_compared() -> None:
    names = {"matchExpressions": [{"key": HOSTNAME, "values": [f"n{number}" for number in range(100)]}]}
    found = read_pod(pod(spec=node_affinity(names)))
    assert found
    assert not problem(found)


def test_what_a_pod_asks_of_a_node() -> None:
    containers = [{"resources": {"requests": {"aws.amazon.com/neuron": "16", "cpu": "500m"}}}]
    spec = {"nodeSelector": {"a": "b"}, "containers": containers}
    found, again, plain = (read_pod(pod(spec=each)) for each in (spec, spec, {}))
    assert found
    assert again
    assert found.demand is again.demand
    assert (found.demand.uses(DEVICES), found.demand.selector) == (True, {"a": "b"})
    assert found.demand.requests == {"aws.amazon.com/neuron": 16_000, "cpu": 500}
    assert plain
    assert (plain.demand.uses(DEVICES), plain.demand.terms) == (False, None)


def test_a_node() -> None:
    found = read_node(
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
    assert (found.name, found.ready, found.cordoned) == ("n1", True, True)
    assert found.taints == (Taint("k", "", "NoSchedule"),)
    assert found.allocatable == {"cpu": 192_000, "memory": 1_024_000}
    assert found.unit(SERVER_4) == "us-1"


@pytest.mark.parametrize("status", [{}, {"conditions": [{"type": "Ready", "status": "Unknown"}]}])
def test_a_node_that_does_not_say_it_is_ready_is_not(status: dict[str, Any]) -> None:
    assert not read_node({"metadata": {"name": "n1"}, "status": status}).ready


@pytest.mark.parametrize(
    "labels",
    [{}, {SERVER_4: ""}, {SERVER_4: "0000000000000000"}, {SERVER_4: "us", keys.NODE_IDS[SERVER_4]: "-1"}],
)
def test_a_node_outside_a_working_ultraserver(labels: dict[str, str]) -> None:
    assert read_node({"metadata": {"name": "n", "labels": labels}}).unit(SERVER_4) is None


def test_equal_demands_are_compared_by_identity() -> None:
    assert Demand() != Demand()
