"""Jobs in a queue: what is done to them, and what Kueue and the API server have of them."""

import copy

from kube.api import Object
from testbed.experiment.judge import Key
from testbed.experiment.stage import MPIJOBS, Stage
from testbed.plane import kueue as program
from testbed.plane import nodes

WORKLOADS = "/apis/kueue.x-k8s.io/v1beta2/namespaces/{}/workloads"


def job(stage: Stage, key: Key) -> Object:
    found = stage.api.get(f"{MPIJOBS.format(key[0])}/{key[1]}")
    assert found
    return found


def workload(stage: Stage, key: Key) -> Object:
    """Returns the job's Workload."""
    (found,) = _of(key, stage.plane.kubectl.in_namespace(key[0]).get_json(program.WORKLOADS))
    return found


def wait_workload(stage: Stage, key: Key) -> Object:
    """Returns the job's Workload, once Kueue has made it."""
    inside = stage.plane.kubectl.in_namespace(key[0])
    (found,) = _of(key, inside.wait_for(lambda found: _of(key, found), program.WORKLOADS))
    return found


def _of(key: Key, workloads: Object) -> list[Object]:
    return [each for each in workloads["items"] if each["metadata"]["ownerReferences"][0]["name"] == key[1]]


def wait_said(stage: Stage, key: Key, words: str) -> None:
    """Waits until Kueue says these words of why a job has no quota."""

    def said(found: Object) -> bool:
        return any(
            words in condition["message"]
            for each in _of(key, found)
            for condition in each.get("status", {}).get("conditions", [])
            if condition["type"] == "QuotaReserved"
        )

    stage.plane.kubectl.in_namespace(key[0]).wait_for(said, program.WORKLOADS)


def wait_whole(stage: Stage, *keys: Key) -> None:
    stage.wait(lambda found: all(found[key].placed for key in keys))
    found = stage.standings()
    assert all(found[key].whole for key in keys), found


def leave(stage: Stage, servers: int) -> None:
    """Cordons every node of all UltraServers but so many."""
    left = set(sorted(healthy(stage))[:servers])
    for name, found in stage.labels.items():
        if nodes.SERVER_ID_4 in found and found[nodes.SERVER_ID_4] not in left:
            stage.cordon(name)


def without_kueues(running: Object, before: Object) -> Object:
    """Returns a running job's template without what Kueue put in when it let the job start."""
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


def activate(stage: Stage, key: Key, *, active: bool) -> None:
    name = workload(stage, key)["metadata"]["name"]
    change = [{"op": "add", "path": "/spec/active", "value": active}]
    stage.api.patch(f"{WORKLOADS.format(key[0])}/{name}", change)


def wait_stopped(stage: Stage, key: Key) -> None:
    """Waits until a job that was evicted is suspended and has no nodes."""
    inside = stage.plane.kubectl.in_namespace(key[0])
    inside.wait_for(lambda found: found["spec"]["runPolicy"].get("suspend"), "mpijob", key[1])
    stage.wait(lambda found: not found[key].nodes)


def reasons(stage: Stage, key: Key) -> list[str]:
    """Returns the reasons of all events about a job."""
    uid = job(stage, key)["metadata"]["uid"]
    path = f"/api/v1/namespaces/{key[0]}/events?fieldSelector=involvedObject.uid%3D{uid}"
    return [found["reason"] for found in (stage.api.get(path) or {}).get("items", [])]


def healthy(stage: Stage) -> set[str]:
    return {stage.labels[name][nodes.SERVER_ID_4] for name in stage.healthy}
