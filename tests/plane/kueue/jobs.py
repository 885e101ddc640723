"""Functions that read, change and wait for jobs in a queue and their Workloads."""

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
    (result,) = _workloads_of(key, stage.plane.kubectl.in_namespace(key[0]).get_json(program.WORKLOADS))
    return result


def wait_for_workload(stage: Stage, key: Key) -> Object:
    """Waits until Kueue has created the job's Workload, and returns the Workload."""
    inside = stage.plane.kubectl.in_namespace(key[0])
    (result,) = _workloads_of(key, inside.wait_for(lambda obj: _workloads_of(key, obj), program.WORKLOADS))
    return result


def _workloads_of(key: Key, workloads: Object) -> list[Object]:
    return [item for item in workloads["items"] if item["metadata"]["ownerReferences"][0]["name"] == key[1]]


def wait_for_message(stage: Stage, key: Key, words: str) -> None:
    """Waits until Kueue's message about a job's quota contains these words."""

    def has_message(obj: Object) -> bool:
        return any(
            words in condition["message"]
            for item in _workloads_of(key, obj)
            for condition in item.get("status", {}).get("conditions", [])
            if condition["type"] == "QuotaReserved"
        )

    stage.plane.kubectl.in_namespace(key[0]).wait_for(has_message, program.WORKLOADS)


def wait_until_whole(stage: Stage, *keys: Key) -> None:
    stage.wait(lambda jobs: all(jobs[key].placed for key in keys))
    standings = stage.job_placements()
    assert all(standings[key].whole for key in keys), standings


def cordon_all_except(stage: Stage, servers: int) -> None:
    """Cordons the nodes of all UltraServers except ``servers`` healthy UltraServers."""
    kept = set(sorted(healthy_servers(stage))[:servers])
    for name, label in stage.labels.items():
        if nodes.SERVER_ID_4 in label and label[nodes.SERVER_ID_4] not in kept:
            stage.cordon(name)


def without_kueues_fields(running: Object, before: Object) -> Object:
    """Returns a running job's template without the fields that Kueue added when it started the job."""
    copied = copy.deepcopy(running)
    assert copied["spec"].pop("schedulingGates", [{"name": "kueue.x-k8s.io/topology"}]) == [
        {"name": "kueue.x-k8s.io/topology"}
    ]
    for kind in ("labels", "annotations"):
        keys_before = before.get("metadata", {}).get(kind, {})
        values = copied["metadata"].get(kind, {})
        kept = {
            key: value for key, value in values.items() if key in keys_before or "kueue.x-k8s.io/" not in key
        }
        copied["metadata"][kind] = kept
        if not kept:
            del copied["metadata"][kind]
    return copied


def set_active(stage: Stage, key: Key, *, active: bool) -> None:
    name = workload(stage, key)["metadata"]["name"]
    change = [{"op": "add", "path": "/spec/active", "value": active}]
    stage.api.patch(f"{WORKLOADS.format(key[0])}/{name}", change)


def wait_until_stopped(stage: Stage, key: Key) -> None:
    """Waits until an evicted job is suspended and has no nodes."""
    inside = stage.plane.kubectl.in_namespace(key[0])
    inside.wait_for(lambda obj: obj["spec"]["runPolicy"].get("suspend"), "mpijob", key[1])
    stage.wait(lambda jobs: not jobs[key].nodes)


def event_reasons(stage: Stage, key: Key) -> list[str]:
    """Returns the reasons of all events about a job."""
    uid = job(stage, key)["metadata"]["uid"]
    path = f"/api/v1/namespaces/{key[0]}/events?fieldSelector=involvedObject.uid%3D{uid}"
    return [event["reason"] for event in (stage.api.get(path) or {}).get("items", [])]


def healthy_servers(stage: Stage) -> set[str]:
    return {stage.labels[name][nodes.SERVER_ID_4] for name in stage.healthy}
