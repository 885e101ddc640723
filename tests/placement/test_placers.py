"""Who places a job, which units an object has, and which number a pod: what the place of a pod means here."""

from typing import Any

import pytest

from contract import keys
from contract.keys import GATE, HOSTNAME, OPENED, SERVER_4
from placement.decide.topology import Topology
from placement.messages import NO_INDEX
from placement.observe.model import Pod
from placement.observe.read import read_pod
from tests.placement import stored
from tests.placement.world import HOUR, MINUTE, NOW, SECOND, decide, job, placed, problem, servers, waiting

GROUP = "leaderworkerset.sigs.k8s.io/group-index"
TWO = Topology(servers(2).values())


def worker(
    position: int, /, *, number: int | None = None, group: str = "", node: str = "", **said: str
) -> Pod:
    """Returns a worker of a job of four as it is stored, some words of its place otherwise or none."""
    made: dict[str, Any] = stored.worker("a", position, 4)
    metadata, spec = made["metadata"], made["spec"]
    words = dict(word.split("=") for word in metadata["annotations"][keys.PLACE].split()) | said
    if group:
        metadata["labels"] |= {GROUP: group, stored.INDEX: str(number)}
        words["group"] = f"labels/{GROUP}"
    metadata["annotations"][keys.PLACE] = " ".join(f"{key}={words[key]}" for key in words if words[key])
    if words["placer"] != "gate":
        del spec["schedulingGates"]
    spec["nodeName"] = node
    read = read_pod(made)
    assert read
    return read


@pytest.mark.parametrize("placer", ["affinity", "kueue"])
def test_a_pod_of_another_placer_holds_its_unit_and_its_job_is_not_placed(placer: str) -> None:
    pods = [worker(0, placer=placer, node="n1-2"), *(worker(index, placer=placer) for index in (1, 2, 3))]
    others = [*job("two", 2), *job("eight", 8, age=MINUTE)]
    first = decide(TWO, [*pods, *others], NOW)
    second = decide(TWO, [*pods, *others], NOW + HOUR, memory=first.memory)
    assert placed(first) == {"two": "us-02-a"}  # and not to the free half of us-01
    assert "us-01: held by team/a" in waiting(second)["eight"]
    for decision in (first, second):
        assert not decision.deletions
        assert not decision.memory.unsettled
        assert "a" not in placed(decision) | waiting(decision)
        kept = next(iter(decision.cluster.reservations), None)
        assert not kept or kept.job != pods[0].key


def test_on_nodes_that_work_alone_it_holds_its_node() -> None:
    alone = worker(0, placer="affinity", node="n1-2", size="1", unit=HOSTNAME)
    assert placed(decide(TWO, [alone, *job("b", 2)], NOW)) == {"b": "us-01-a"}


@pytest.mark.parametrize("placer", ["affinity", "kueue"])
def test_where_others_place_a_job_neither_a_gate_nor_an_opening_is_ours(placer: str) -> None:
    """A row's author, or a Pod's where no guard is, wrote them: nothing is opened, and nothing deleted."""
    made: list[dict[str, Any]] = [stored.worker("a", index, 4) for index in range(4)]
    for raw in made:
        annotations = raw["metadata"]["annotations"]
        annotations[keys.PLACE] = annotations[keys.PLACE].replace("gate", placer)
    gated = [pod for raw in made if (pod := read_pod(raw))]
    decision = decide(TWO, gated, NOW)
    assert not decision.admissions
    assert waiting(decision) == {
        "a": f"a-worker-0 has the gate {GATE}, but its annotation has placer={placer}: remove the gate"
    }
    for raw in made:
        raw["metadata"]["annotations"][OPENED] = "2026-11-21T11:00:00Z"
        raw["spec"] |= {"schedulingGates": [], "nodeSelector": {SERVER_4: "us-01"}}
    forged = [pod for raw in made if (pod := read_pod(raw))]
    first = decide(TWO, forged, NOW)
    assert not decide(TWO, forged, NOW + HOUR, memory=first.memory).deletions
    assert placed(decide(TWO, [*forged, *job("eight", 8)], NOW)) == {"eight": "us-01 us-02"}


def test_the_groups_of_an_object_are_jobs_of_their_own() -> None:
    groups = [
        [worker(4 * group + number, group=str(group), number=number) for number in range(4)]
        for group in range(3)
    ]
    pods = [pod for group in groups for pod in group]
    assert {pod.key for pod in pods} == {("team", f"team.a/{group}") for group in range(3)}
    decision = decide(TWO, [pod for pod in pods if pod.name != "a-worker-2"], NOW)
    assert placed(decision) == {"a/1": "us-01", "a/2": "us-02"}
    assert waiting(decision) == {"a/0": "3 of 4 workers exist"}


@pytest.mark.parametrize(
    ("annotations", "why"),
    [
        ({"index": ""}, NO_INDEX),
        ({"index": "labels/none"}, "label none is None: it must be the pod's number, from 0"),
    ],
)
def test_a_pod_without_a_number_waits_with_a_reason_unless_others_place_it(
    annotations: dict[str, str], why: str
) -> None:
    decision = decide(TWO, [worker(index, **annotations) for index in range(4)], NOW)
    assert waiting(decision) == {"a": f"a-worker-0: {why}"}
    assert not decision.admissions
    there = worker(0, placer="affinity", node="n1-0", **annotations)
    assert (problem(there), there.number) == ("", 0)
    assert placed(decide(TWO, [there, *job("b", 4)], NOW)) == {"b": "us-02"}


def of_before(form: str, name: str, unit: str = "", pins: int = 0, bound: int = 0) -> list[Pod]:
    """Returns the workers of a job as they were before the label had the kind; some with pin or node."""
    result = []
    for index in range(4):
        raw: dict[str, Any] = stored.worker(name, index, 4)
        metadata, spec = raw["metadata"], raw["spec"]
        if form == "LeaderWorkerSet":
            metadata["annotations"][keys.PLACE] += f" group=labels/{GROUP}"
            metadata["labels"][GROUP] = "0"
        if index < pins:
            metadata["annotations"][OPENED] = "2026-11-21T11:00:00Z"
            spec["nodeSelector"][SERVER_4] = unit
        if index < bound:
            spec |= {"nodeName": f"n{unit[-1]}-{index}", "schedulingGates": []}
            raw["status"]["phase"] = "Running"
        result.append(read_pod(raw))
    return [pod for pod in result if pod]


@pytest.mark.parametrize("form", ["PyTorchJob", "LeaderWorkerSet"])
def test_jobs_of_a_release_before_are_placed_opened_to_the_end_and_hold_what_they_have(form: str) -> None:
    """Whether they wait, were opened in part, or lack a worker. A new one of the name is another job."""
    pods = [
        *of_before(form, "runs", "us-04", pins=4, bound=4),
        *of_before(form, "again", "us-01", pins=3, bound=3),
        *of_before(form, "half", "us-02", pins=2),
        *of_before(form, "waits"),
    ]
    new = job("runs_PyTorchJob.kubeflow.org", 4, age=SECOND)
    decision = decide(Topology(servers(4).values()), [*new, *pods], NOW)
    result = {name.partition("/")[0]: units for name, units in placed(decision).items()}
    assert result == {"again": "us-01", "half": "us-02", "waits": "us-03"}
    assert not decision.untrusted
    (why,) = waiting(decision).values()
    assert "us-04: held by team/runs" in why
