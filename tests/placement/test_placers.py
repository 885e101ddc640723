"""Tests of the placement annotation: the placer, the groups of an object, and the numbers of pods."""

from typing import Any

import pytest

from contract import keys
from contract.keys import GATE, HOSTNAME, OPENED, SERVER_4
from placement.decide.topology import Topology
from placement.messages import NO_INDEX
from placement.observe.model import Pod
from placement.observe.read import read_pod
from tests.placement import stored
from tests.placement.world import (
    HOUR,
    MINUTE,
    NOW,
    SECOND,
    decide,
    fault_text,
    job,
    placed_jobs,
    servers,
    waiting_reasons,
)

GROUP = "leaderworkerset.sigs.k8s.io/group-index"
TWO_SERVERS = Topology(servers(2).values())


def worker(
    position: int, /, *, number: int | None = None, group: str = "", node: str = "", **fields: str
) -> Pod:
    """Returns a worker of a job of four with other fields in its annotation. An empty field is removed."""
    raw: dict[str, Any] = stored.worker("a", position, 4)
    metadata, spec = raw["metadata"], raw["spec"]
    annotation = dict(word.split("=") for word in metadata["annotations"][keys.PLACEMENT].split()) | fields
    if group:
        metadata["labels"] |= {GROUP: group, stored.INDEX: str(number)}
        annotation["group"] = f"labels/{GROUP}"
    metadata["annotations"][keys.PLACEMENT] = " ".join(
        f"{key}={annotation[key]}" for key in annotation if annotation[key]
    )
    if annotation["placer"] != "gate":
        del spec["schedulingGates"]
    spec["nodeName"] = node
    pod = read_pod(raw)
    assert pod
    return pod


@pytest.mark.parametrize("placer", ["affinity", "kueue"])
def test_a_pod_of_another_placer_holds_its_unit_and_its_job_is_not_placed(placer: str) -> None:
    pods = [worker(0, placer=placer, node="n1-2"), *(worker(index, placer=placer) for index in (1, 2, 3))]
    other_jobs = [*job("two", 2), *job("eight", 8, age=MINUTE)]
    first_decision = decide(TWO_SERVERS, [*pods, *other_jobs], NOW)
    second_decision = decide(TWO_SERVERS, [*pods, *other_jobs], NOW + HOUR, memory=first_decision.memory)
    assert placed_jobs(first_decision) == {"two": "us-02-a"}  # not in us-01, which is held
    assert "us-01: held by team/a" in waiting_reasons(second_decision)["eight"]
    for decision in (first_decision, second_decision):
        assert not decision.deletions
        assert not decision.memory.unsettled
        assert "a" not in placed_jobs(decision) | waiting_reasons(decision)
        reservation = next(iter(decision.cluster.reservations), None)
        assert not reservation or reservation.job != pods[0].key


def test_a_single_worker_of_another_placer_holds_only_its_node() -> None:
    single_worker = worker(0, placer="affinity", node="n1-2", size="1", unit=HOSTNAME)
    assert placed_jobs(decide(TWO_SERVERS, [single_worker, *job("b", 2)], NOW)) == {"b": "us-01-a"}


@pytest.mark.parametrize("placer", ["affinity", "kueue"])
def test_gates_and_admission_annotations_of_other_placers_jobs_are_not_trusted(placer: str) -> None:
    """A user wrote the gate or the annotation, so no pod is admitted and no pod is deleted."""
    raw_pods: list[dict[str, Any]] = [stored.worker("a", index, 4) for index in range(4)]
    for raw in raw_pods:
        annotations = raw["metadata"]["annotations"]
        annotations[keys.PLACEMENT] = annotations[keys.PLACEMENT].replace("gate", placer)
    gated_pods = [pod for raw in raw_pods if (pod := read_pod(raw))]
    decision = decide(TWO_SERVERS, gated_pods, NOW)
    assert not decision.admissions
    assert waiting_reasons(decision) == {
        "a": f"a-worker-0 has the gate {GATE}, but its annotation has placer={placer}: remove the gate"
    }
    for raw in raw_pods:
        raw["metadata"]["annotations"][OPENED] = "2026-11-21T11:00:00Z"
        raw["spec"] |= {"schedulingGates": [], "nodeSelector": {SERVER_4: "us-01"}}
    forged_pods = [pod for raw in raw_pods if (pod := read_pod(raw))]
    first_decision = decide(TWO_SERVERS, forged_pods, NOW)
    assert not decide(TWO_SERVERS, forged_pods, NOW + HOUR, memory=first_decision.memory).deletions
    assert placed_jobs(decide(TWO_SERVERS, [*forged_pods, *job("eight", 8)], NOW)) == {"eight": "us-01 us-02"}


def test_each_group_of_an_object_is_a_separate_job() -> None:
    groups = [
        [worker(4 * group + number, group=str(group), number=number) for number in range(4)]
        for group in range(3)
    ]
    pods = [pod for group in groups for pod in group]
    assert {pod.key for pod in pods} == {("team", f"team.a/{group}") for group in range(3)}
    decision = decide(TWO_SERVERS, [pod for pod in pods if pod.name != "a-worker-2"], NOW)
    assert placed_jobs(decision) == {"a/1": "us-01", "a/2": "us-02"}
    assert waiting_reasons(decision) == {"a/0": "3 of 4 workers exist"}


@pytest.mark.parametrize(
    ("annotations", "why"),
    [
        ({"index": ""}, NO_INDEX),
        ({"index": "labels/none"}, "label none is None: it must be the pod's number, from 0"),
    ],
)
def test_a_pod_without_a_number_waits_with_a_reason_unless_another_placer_places_it(
    annotations: dict[str, str], why: str
) -> None:
    decision = decide(TWO_SERVERS, [worker(index, **annotations) for index in range(4)], NOW)
    assert waiting_reasons(decision) == {"a": f"a-worker-0: {why}"}
    assert not decision.admissions
    bound_worker = worker(0, placer="affinity", node="n1-0", **annotations)
    assert (fault_text(bound_worker), bound_worker.number) == ("", 0)
    assert placed_jobs(decide(TWO_SERVERS, [bound_worker, *job("b", 4)], NOW)) == {"b": "us-02"}


def pods_of_older_release(kind: str, name: str, unit: str = "", pins: int = 0, bound: int = 0) -> list[Pod]:
    """Returns the workers of a job of an older release: ``pins`` have pins, and ``bound`` have nodes."""
    result = []
    for index in range(4):
        raw: dict[str, Any] = stored.worker(name, index, 4)
        metadata, spec = raw["metadata"], raw["spec"]
        if kind == "LeaderWorkerSet":
            metadata["annotations"][keys.PLACEMENT] += f" group=labels/{GROUP}"
            metadata["labels"][GROUP] = "0"
        if index < pins:
            metadata["annotations"][OPENED] = "2026-11-21T11:00:00Z"
            spec["nodeSelector"][SERVER_4] = unit
        if index < bound:
            spec |= {"nodeName": f"n{unit[-1]}-{index}", "schedulingGates": []}
            raw["status"]["phase"] = "Running"
        result.append(read_pod(raw))
    return [pod for pod in result if pod]


@pytest.mark.parametrize("kind", ["PyTorchJob", "LeaderWorkerSet"])
def test_jobs_of_an_older_release_are_admitted_and_hold_their_units(kind: str) -> None:
    """Jobs may wait, be admitted in part, or lack a worker. A new job of the same name is another job."""
    pods = [
        *pods_of_older_release(kind, "runs", "us-04", pins=4, bound=4),
        *pods_of_older_release(kind, "again", "us-01", pins=3, bound=3),
        *pods_of_older_release(kind, "half", "us-02", pins=2),
        *pods_of_older_release(kind, "waits"),
    ]
    new_job = job("runs_PyTorchJob.kubeflow.org", 4, age=SECOND)
    decision = decide(Topology(servers(4).values()), [*new_job, *pods], NOW)
    units_by_job = {name.partition("/")[0]: units for name, units in placed_jobs(decision).items()}
    assert units_by_job == {"again": "us-01", "half": "us-02", "waits": "us-03"}
    assert not decision.untrusted
    (why,) = waiting_reasons(decision).values()
    assert "us-04: held by team/runs" in why
