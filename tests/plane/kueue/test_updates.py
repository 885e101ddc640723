"""Tests of updates of jobs in a queue: Kueue's updates are not changed, and users' updates lose no terms."""

import pytest

from kube.api import Object
from testbed.experiment.judge import Key
from testbed.experiment.stage import TEAMS, Stage
from testbed.plane.jobs import template
from testbed.plane.webhook import NAME
from tests.plane.kueue.jobs import (
    cordon_all_except,
    event_reasons,
    job,
    set_active,
    wait_for_workload,
    wait_until_stopped,
    wait_until_whole,
    without_kueues_fields,
    workload,
)
from tests.plane.ways import with_own_lists

pytestmark = pytest.mark.limit(90, "Kueue tries again to admit a job only after its own backoff")


def apply(stage: Stage, document: Object) -> tuple[Key, Object]:
    """Applies a job in the queue with kubectl. Returns its key and the stored object."""
    key = (TEAMS[0], document["metadata"]["name"])
    labels = {"kueue.x-k8s.io/queue-name": stage.queue}
    document = {**document, "metadata": {**document["metadata"], "labels": labels}}
    stored = stage.plane.kubectl.in_namespace(key[0]).apply(document)
    stage.jobs[key] = stored["spec"]["mpiReplicaSpecs"]["Worker"]["replicas"]
    return key, stored


def log_lines(stage: Stage, key: Key) -> list[str]:
    """Returns the lines about a job in the webhook's log, in order."""
    log = (stage.plane.programs.logs / f"{NAME}.log").read_text(encoding="utf-8")
    return [line for line in log.splitlines() if f"MPIJob {key[0]}/{key[1]}: " in line]


def job_with_own_lists(name: str, workers: int = 4) -> Object:
    """Returns a job with its own lists, and with the fields that Kueue's webhook writes into containers."""
    result = with_own_lists()
    result["metadata"]["name"] = name
    result["spec"]["mpiReplicaSpecs"]["Worker"]["replicas"] = workers
    launcher, worker = (template(result, role)["spec"] for role in ("Launcher", "Worker"))
    for container in (*launcher["containers"], *launcher["initContainers"]):
        container["resources"] = {}
    worker["containers"][0]["resources"] = {"limits": {"aws.amazon.com/neuron": "16"}}
    return result


def test_the_webhook_receives_kueues_updates_and_does_not_change_them(stage: Stage) -> None:
    key, stored = apply(stage, job_with_own_lists("own"))
    wait_until_whole(stage, key)
    workload_uid = workload(stage, key)["metadata"]["uid"]
    running = job(stage, key)
    for role in ("Launcher", "Worker"):
        assert without_kueues_fields(template(running, role), template(stored, role)) == template(
            stored, role
        )
    assert "schedulingGates" in template(running, "Worker")["spec"]
    set_active(stage, key, active=False)
    wait_until_stopped(stage, key)
    assert job(stage, key)["spec"] == stored["spec"]
    set_active(stage, key, active=True)
    wait_until_whole(stage, key)
    assert workload(stage, key)["metadata"]["uid"] == workload_uid
    # Kueue writes these Events if the job differs from the job that it admitted.
    assert not {"DeletedWorkload", "UpdatedWorkload"} & set(event_reasons(stage, key))
    assert event_reasons(stage, key).count("Stopped") == 1
    updates = [line for line in log_lines(stage, key) if "update" in line]
    # The log has the two starts. The API server does not send the stop, because the job has pods. If another
    # client writes in between, the API server repeats a patch and calls the webhook again.
    assert len(updates) >= 2, updates
    assert all("the update removes nothing that the webhook added" in line for line in updates)


def test_a_waiting_job_that_is_applied_again_keeps_its_terms_and_its_workload(stage: Stage) -> None:
    cordon_all_except(stage, 0)
    key, stored = apply(stage, job_with_own_lists("again"))
    workload_uid = wait_for_workload(stage, key)["metadata"]["uid"]
    _, again = apply(stage, job_with_own_lists("again"))
    assert again["spec"] == stored["spec"]
    assert any("put back what the update removed" in line for line in log_lines(stage, key))
    for name in list(stage.sick):
        stage.cordon(name, cordoned=False)
    wait_until_whole(stage, key)
    assert workload(stage, key)["metadata"]["uid"] == workload_uid
    assert not {"DeletedWorkload", "UpdatedWorkload"} & set(event_reasons(stage, key))


def test_a_waiting_job_that_is_resized_requests_its_new_size_and_is_placed_whole(stage: Stage) -> None:
    cordon_all_except(stage, 0)
    key, _ = apply(stage, job_with_own_lists("resized"))
    wait_for_workload(stage, key)
    inside = stage.plane.kubectl.in_namespace(key[0])
    inside.wait_for(lambda _: True, "job", f"{key[1]}-launcher")
    _, resized = apply(stage, job_with_own_lists("resized", 8))
    annotations = template(resized, "Worker")["metadata"]["annotations"]
    assert annotations["kueue.x-k8s.io/podset-slice-size"] == "4"
    assert "kueue.x-k8s.io/podset-required-topology" not in annotations
    inside.run("delete", "job", f"{key[1]}-launcher")
    for name in list(stage.sick):
        stage.cordon(name, cordoned=False)
    wait_until_whole(stage, key)
