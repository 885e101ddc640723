"""Tests of a running job with a failed node: the program, mpi-operator and the scheduler move the job."""

from __future__ import annotations

import json

from contract.keys import ON_NODE_FAILURE
from kube.api import Object
from placement.observe.model import COMPONENT
from testbed.experiment.judge import Key, all_whole
from testbed.experiment.stage import Stage
from testbed.mpijob import mpijob
from testbed.plane import nodes
from testbed.plane.jobs import ROLE
from testbed.waiting import until

SECONDS = {"failed_seconds": 2, "interval_seconds": 1}


def create_running_job(stage: Stage, choice: str, workers: int) -> tuple[Key, dict[str, Object]]:
    """Creates a job whose workers are marked as Running, and returns its key and its workers by uid."""
    key, _ = stage.create(mpijob(workers, annotations={ON_NODE_FAILURE: choice}))
    stage.wait(all_whole)
    pods = [pod for pod in stage.pods(key) if pod["metadata"]["labels"].get(ROLE) == "worker"]
    for pod in pods:
        path = f"/api/v1/namespaces/{key[0]}/pods/{pod['metadata']['name']}/status"
        stage.api.patch(path, [{"op": "add", "path": "/status/phase", "value": "Running"}])
    return key, {pod["metadata"]["uid"]: pod for pod in pods}


def uids(stage: Stage, key: Key) -> set[str]:
    return {pod["metadata"]["uid"] for pod in stage.pods(key)}


def event_texts(stage: Stage, key: Key, reason: str) -> set[str]:
    """Returns the texts of the program's Events of a reason."""
    events = stage.plane.kubectl.in_namespace(key[0]).get_json("events")["items"]
    return {
        event["message"]
        for event in events
        if event["reason"] == reason and event["reportingComponent"] == COMPONENT
    }


def test_a_block_moves_when_its_node_is_not_ready(stage: Stage) -> None:
    stage.start_program(**SECONDS)
    key, workers = create_running_job(stage, "move", 8)
    victim = workers[min(workers)]
    node = victim["spec"]["nodeName"]
    broken = stage.labels[node][nodes.SERVER_ID_4]
    block = {
        uid
        for uid, pod in workers.items()
        if stage.labels[pod["spec"]["nodeName"]][nodes.SERVER_ID_4] == broken
    }
    ready = {"op": "add", "path": "/status/conditions", "value": [{"type": "Ready", "status": "Unknown"}]}
    stage.api.patch(f"/api/v1/nodes/{node}/status", [ready])
    try:
        # No kubelet ends this pod, so the program does. The other pods of the block have a grace period.
        until(lambda: victim["metadata"]["uid"] not in uids(stage, key), "the end of the pod on the node")
        assert block - uids(stage, key) == {victim["metadata"]["uid"]}
        stage.wait(lambda jobs: all_whole(jobs) and node not in jobs[key].nodes)
    finally:
        ready["value"] = [{"type": "Ready", "status": "True"}]
        stage.api.patch(f"/api/v1/nodes/{node}/status", [ready])
    assert {stage.labels[name][nodes.SERVER_ID_4] for name in stage.job_placements()[key].nodes}.isdisjoint(
        [broken]
    )
    assert uids(stage, key) & workers.keys() == workers.keys() - block, "the other block stays"
    (text,) = event_texts(stage, key, "Moved")
    assert text.startswith(f"moves from unit {broken} to ")
    assert text.endswith(f": node {node} is not ready")


def test_all_workers_restart_when_a_node_of_their_job_is_deleted(stage: Stage) -> None:
    stage.start_program(**SECONDS)
    key, workers = create_running_job(stage, "restart", 8)
    node = workers[min(workers)]["spec"]["nodeName"]
    stored = stage.plane.kubectl.get_json("node", node)
    stage.plane.kubectl.run("delete", "node", node)
    try:
        until(lambda: event_texts(stage, key, "Restarted"), "an Event of the restart")
        stage.wait(lambda jobs: all_whole(jobs) and workers.keys().isdisjoint(uids(stage, key)))
    finally:
        for name in ("resourceVersion", "uid", "creationTimestamp"):
            del stored["metadata"][name]
        stage.plane.kubectl.run("create", "-f", "-", stdin=json.dumps(stored))
        status = {"op": "add", "path": "/status", "value": stored["status"]}
        stage.api.patch(f"/api/v1/nodes/{node}/status", [status])
    assert event_texts(stage, key, "Restarted") == {f"waits again, with all workers: node {node} is gone"}
