"""What becomes of jobs that name a queue: created, admitted, evicted, admitted again."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import pytest

from tests.cluster import nodes
from tests.cluster.kueue import program
from tests.cluster.kueue.conftest import KUEUE_FIRST, WEBHOOK_FIRST
from tests.cluster.placement.stage import MPIJOBS
from tests.helpers import mpijob

if TYPE_CHECKING:
    from collections.abc import Callable

    from kube.api import Object
    from tests.cluster.placement.judge import Key
    from tests.cluster.placement.stage import Stage

WORKLOADS = "/apis/kueue.x-k8s.io/v1beta2/namespaces/{}/workloads"
PRIORITIES = "/apis/kueue.x-k8s.io/v1beta2/workloadpriorityclasses"
NOWHERE = "0000000000000000"
"""The server id of a node outside a working UltraServer."""


def job(stage: Stage, key: Key) -> Object:
    found = stage.api.get(f"{MPIJOBS.format(key[0])}/{key[1]}")
    assert found
    return found


def workload(stage: Stage, key: Key) -> Object:
    """The job's Workload, when it has one."""
    listed = (stage.api.get(WORKLOADS.format(key[0])) or {}).get("items", [])
    owned = [found for found in listed if found["metadata"]["ownerReferences"][0]["name"] == key[1]]
    return owned[0] if owned else {}


def said(stage: Stage, key: Key, kind: str) -> str:
    """The message of a condition of the job's Workload."""
    conditions = workload(stage, key).get("status", {}).get("conditions", [])
    return " ".join(found["message"] for found in conditions if found["type"] == kind)


def wait_whole(stage: Stage, *keys: Key) -> None:
    stage.wait(lambda found: all(found[key].placed for key in keys))
    found = stage.standings()
    assert all(found[key].whole for key in keys), found


def leave(stage: Stage, servers: int) -> None:
    """Cordon every node of all UltraServers but so many."""
    left = set(sorted(healthy(stage))[:servers])
    for name, found in stage.labels.items():
        if nodes.SERVER_ID_4 in found and found[nodes.SERVER_ID_4] not in left:
            stage.cordon(name)


def template(stored: Object, role: str) -> Object:
    found: Object = stored["spec"]["mpiReplicaSpecs"][role]["template"]
    return found


def without_kueues(running: Object, before: Object) -> Object:
    """A running job's template without what Kueue put in when it let the job start."""
    found = copy.deepcopy(running)
    assert found["spec"].pop("schedulingGates", [{"name": "kueue.x-k8s.io/topology"}]) == [
        {"name": "kueue.x-k8s.io/topology"}
    ]
    for kind in ("labels", "annotations"):
        own = before.get("metadata", {}).get(kind, {})
        marks = found["metadata"].get(kind, {})
        kept = {key: value for key, value in marks.items() if key in own or "kueue.x-k8s.io/" not in key}
        found["metadata"][kind] = kept
        if not kept:
            del found["metadata"][kind]
    return found


@pytest.mark.parametrize("namespace", [KUEUE_FIRST, WEBHOOK_FIRST])
@pytest.mark.parametrize("queue", [program.LOCAL_QUEUE, ""])
@pytest.mark.parametrize("workers", [4, 8])
def test_a_job_is_suspended_and_then_placed_whole_whoever_is_asked_first(
    stage: Stage, namespace: str, queue: str, workers: int
) -> None:
    stage.queue = queue
    key, stored = stage.create(mpijob(workers), namespace)
    assert stored["spec"]["runPolicy"]["suspend"] is True
    assert stored["metadata"]["labels"][program.QUEUE] == (queue or "default")
    worker = template(stored, "Worker")
    assert set(worker["spec"]["affinity"]) == {"nodeAffinity"}
    assert any(mark.startswith("kueue.x-k8s.io/podset-") for mark in worker["metadata"]["annotations"])
    containers = [found["name"] for found in template(stored, "Launcher")["spec"]["initContainers"]]
    assert containers == ["wait-hostfilename", "ultraserver-init-container"]
    wait_whole(stage, key)


def test_the_webhook_says_nothing_else_when_kueue_gives_a_job_its_queue_afterwards(stage: Stage) -> None:
    stage.queue = ""
    stored = [stage.create(mpijob(8), namespace)[1] for namespace in (KUEUE_FIRST, WEBHOOK_FIRST)]
    for role in ("Launcher", "Worker"):
        first, second = (template(found, role) for found in stored)
        for found in (first, second):
            found["metadata"].get("labels", {}).pop("ultraserver-webhook.io/job", None)
            del found["metadata"]["annotations"]["ultraserver-webhook.io/added"]
        assert first == second, role


def test_an_evicted_job_comes_out_as_it_went_in_and_is_admitted_again(stage: Stage) -> None:
    key, stored = stage.create(mpijob(8))
    wait_whole(stage, key)
    first = workload(stage, key)
    running = job(stage, key)
    for role in ("Launcher", "Worker"):
        before = template(stored, role)
        assert without_kueues(template(running, role), before) == before
    assert "schedulingGates" in template(running, "Worker")["spec"]

    activate(stage, key, active=False)
    stage.wait(lambda found: not found[key].nodes and suspended(stage, key))
    assert job(stage, key)["spec"] == stored["spec"]

    activate(stage, key, active=True)
    wait_whole(stage, key)
    assert workload(stage, key)["metadata"]["uid"] == first["metadata"]["uid"]
    # Kueue would say so if it found the job to be another than it let in.
    assert not {"DeletedWorkload", "UpdatedWorkload"} & set(reasons(stage, key))
    assert reasons(stage, key).count("Stopped") == 1


def activate(stage: Stage, key: Key, *, active: bool) -> None:
    name = workload(stage, key)["metadata"]["name"]
    change = [{"op": "add", "path": "/spec/active", "value": active}]
    stage.api.patch(f"{WORKLOADS.format(key[0])}/{name}", change)


def suspended(stage: Stage, key: Key) -> bool:
    return bool(job(stage, key)["spec"]["runPolicy"].get("suspend"))


def reasons(stage: Stage, key: Key) -> list[str]:
    """The reasons of all events about a job."""
    uid = job(stage, key)["metadata"]["uid"]
    path = f"/api/v1/namespaces/{key[0]}/events?fieldSelector=involvedObject.uid%3D{uid}"
    return [found["reason"] for found in (stage.api.get(path) or {}).get("items", [])]


def test_a_job_gives_way_to_a_higher_priority_and_has_its_turn_afterwards(stage: Stage) -> None:
    for name, value in (("low", 1), ("high", 100)):
        metadata = {"name": name}
        body = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "WorkloadPriorityClass", "metadata": metadata}
        stage.api.create(PRIORITIES, body | {"value": value})
    leave(stage, 2)
    low = [
        stage.apply(f"low-{number}", 4, more={"kueue.x-k8s.io/priority-class": "low"}) for number in (1, 2)
    ]
    wait_whole(stage, *low)
    high = stage.apply("high", 8, more={"kueue.x-k8s.io/priority-class": "high"})
    wait_whole(stage, high)
    assert all(not stage.standings()[key].nodes for key in low)
    stage.finish(high)
    wait_whole(stage, *low)


def test_a_launcher_that_runs_ranks_is_on_the_ultraserver_of_its_workers(stage: Stage) -> None:
    document = mpijob(3, launcher_spec=template(mpijob(1), "Worker")["spec"])
    document["spec"]["runLauncherAsWorker"] = True
    key, _ = stage.create(document)

    def servers() -> list[str]:
        on = [pod["spec"].get("nodeName") for pod in stage.pods(key)]
        return [stage.labels[name][nodes.SERVER_ID_4] for name in on if name]

    stage.wait(lambda _: len(servers()) == 4)
    assert len(set(servers())) == 1


def test_nodes_outside_a_working_ultraserver_are_not_one(stage: Stage) -> None:
    leave(stage, 2)
    broken = sorted(name for name in stage.usable if stage.labels[name][nodes.SERVER_ID_4] in healthy(stage))
    label(stage, broken, lambda _: NOWHERE)
    key = stage.apply("train", 4)
    stage.wait(lambda _: "affinity: 8" in said(stage, key, "QuotaReserved"))
    label(stage, broken, lambda name: stage.labels[name][nodes.SERVER_ID_4])
    wait_whole(stage, key)


def healthy(stage: Stage) -> set[str]:
    return {stage.labels[name][nodes.SERVER_ID_4] for name in stage.healthy}


def label(stage: Stage, names: list[str], server: Callable[[str], str]) -> None:
    path = f"/metadata/labels/{nodes.SERVER_ID_4.replace('/', '~1')}"
    for name in names:
        stage.api.patch(f"/api/v1/nodes/{name}", [{"op": "add", "path": path, "value": server(name)}])


def half(name: str) -> dict[str, Any]:
    """A job of four workers that ask for half a node each."""
    document = mpijob(4, name=name)
    template(document, "Worker")["spec"]["containers"][0]["resources"]["limits"]["aws.amazon.com/neuron"] = 8
    return document


def test_a_job_without_a_queue_keeps_off_the_ultraserver_of_one_with_a_queue(stage: Stage) -> None:
    leave(stage, 1)
    queued, _ = stage.create(half("queued"))
    stage.wait(lambda found: found[queued].placed)
    stage.queue = ""
    other, _ = stage.create(half("other"))

    def why() -> str:
        conditions = [found for pod in stage.pods(other) for found in pod["status"].get("conditions", [])]
        return " ".join(found.get("message", "") for found in conditions)

    stage.wait(lambda _: "anti-affinity" in why())
    assert not stage.standings()[other].nodes
    stage.finish(queued)
    wait_whole(stage, other)


def test_kueue_sees_the_nodes_that_jobs_without_a_queue_hold(stage: Stage) -> None:
    leave(stage, 2)
    stage.queue = ""
    other = stage.apply("other", 4)
    wait_whole(stage, other)
    stage.queue = program.LOCAL_QUEUE
    queued = stage.apply("queued", 8)
    stage.wait(lambda _: "1 out of 2 slice(s)" in said(stage, queued, "QuotaReserved"))
    stage.finish(other)
    wait_whole(stage, queued)
