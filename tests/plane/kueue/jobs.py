"""Jobs in a queue: what is done to them, and what Kueue and the API server have of them."""

import copy

from kube.api import Object
from testbed.experiment.judge import Key
from testbed.experiment.stage import MPIJOBS, Stage
from testbed.plane import kueue as program
from testbed.plane import nodes

WORKLOADS = "/apis/kueue.x-k8s.io/v1beta2/namespaces/{}/workloads"


def job(stage: Stage, key: Key) -> Object:
    stored = stage.api.get(f"{MPIJOBS.format(key[0])}/{key[1]}")
    assert stored
    return stored


def workload(stage: Stage, key: Key) -> Object:
    """Returns the job's Workload."""
    (result,) = _of(key, stage.plane.kubectl.in_namespace(key[0]).get_json(program.WORKLOADS))
    return result


def wait_workload(stage: Stage, key: Key) -> Object:
    """Returns the job's Workload, once Kueue has made it."""
    inside = stage.plane.kubectl.in_namespace(key[0])
    (result,) = _of(key, inside.wait_for(lambda obj: _of(key, obj), program.WORKLOADS))
    return result


def _of(key: Key, workloads: Object) -> list[Object]:
    return [each for each in workloads["items"] if each["metadata"]["ownerReferences"][0]["name"] == key[1]]


def wait_said(stage: Stage, key: Key, words: str) -> None:
    """Waits until Kueue says these words of why a job has no quota."""

    def has_message(obj: Object) -> bool:
        return any(
            words in condition["message"]
            for each in _of(key, obj)
            for condition in each.get("status", {}).get("conditions", [])
            if condition["type"] == "QuotaReserved"
        )

    stage.plane.kubectl.in_namespace(key[0]).wait_for(has_message, program.WORKLOADS)


def wait_whole(stage: Stage, *keys: Key) -> None:
    stage.wait(lambda jobs: all(jobs[key].placed for key in keys))
    result = stage.standings()
    assert all(result[key].whole for key in keys), result


def leave(stage: Stage, servers: int) -> None:
    """Cordons every node of all UltraServers but this many."""
    left = set(sorted(healthy(stage))[:servers])
    for name, label in stage.labels.items():
        if nodes.SERVER_ID_4 in label and label[nodes.SERVER_ID_4] not in left:
            stage.cordon(name)


def without_kueues(running: Object, before: Object) -> Object:
    """Returns a running job's template without what Kueue put in when it let the job start."""
    copied = copy.deepcopy(running)
    assert copied["spec"].pop("schedulingGates", [{"name": "kueue.x-k8s.io/topology"}]) == [
        {"name": "kueue.x-k8s.io/topology"}
    ]
    for kind in ("labels", "annotations"):
        own = before.get("metadata", {}).get(kind, {})
        marks = copied["metadata"].get(kind, {})
        kept = {key: value for key, value in marks.items() if key in own or "kueue.x-k8s.io/" not in key}
        copied["metadata"][kind] = kept
        if not kept:
            del copied["metadata"][kind]
    return copied


def activate(stage: Stage, key: Key, *, active: bool) -> None:
    name = workload(stage, key)["metadata"]["name"]
    change = [{"op": "add", "path": "/spec/active", "value": active}]
    stage.api.patch(f"{WORKLOADS.format(key[0])}/{name}", change)


def wait_stopped(stage: Stage, key: Key) -> None:
    """Waits until a job that was evicted is suspended and has no nodes."""
    inside = stage.plane.kubectl.in_namespace(key[0])
    inside.wait_for(lambda obj: obj["spec"]["runPolicy"].get("suspend"), "mpijob", key[1])
    stage.wait(lambda jobs: not jobs[key].nodes)


def reasons(stage: Stage, key: Key) -> list[str]:
    """Returns the reasons of all events about a job."""
    uid = job(stage, key)["metadata"]["uid"]
    path = f"/api/v1/namespaces/{key[0]}/events?fieldSelector=involvedObject.uid%3D{uid}"
    return [each["reason"] for each in (stage.api.get(path) or {}).get("items", [])]


def healthy(stage: Stage) -> set[str]:
    return {stage.labels[name][nodes.SERVER_ID_4] for name in stage.healthy}
