"""Updates of jobs that name a queue: Kueue's own come out as they went in, and people's lose nothing."""

import pytest

from kube.api import Object
from testbed.experiment.judge import Key
from testbed.experiment.stage import TEAMS, Stage
from testbed.plane.jobs import template
from testbed.plane.webhook import NAME
from tests.plane.kueue.jobs import (
    activate,
    job,
    leave,
    reasons,
    wait_stopped,
    wait_whole,
    wait_workload,
    without_kueues,
    workload,
)
from tests.plane.ways import with_own_lists

pytestmark = pytest.mark.limit(90, "Kueue comes back to what it could not admit when its own backoff is over")


def apply(stage: Stage, document: Object) -> tuple[Key, Object]:
    """Returns the job of a file as kubectl applies it, and as it is stored."""
    key = (TEAMS[0], document["metadata"]["name"])
    labels = {"kueue.x-k8s.io/queue-name": stage.queue}
    document = {**document, "metadata": {**document["metadata"], "labels": labels}}
    stored = stage.plane.kubectl.in_namespace(key[0]).apply(document)
    stage.jobs[key] = stored["spec"]["mpiReplicaSpecs"]["Worker"]["replicas"]
    return key, stored


def said_of(stage: Stage, key: Key) -> list[str]:
    """Returns what the webhook's log says of a job, in order."""
    log = (stage.plane.programs.logs / f"{NAME}.log").read_text(encoding="utf-8")
    return [line for line in log.splitlines() if f"MPIJob {key[0]}/{key[1]}: " in line]


def own_lists(name: str, workers: int = 4) -> Object:
    """Returns a job with its own lists, and with what Kueue's webhook writes into containers at creation."""
    result = with_own_lists()
    result["metadata"]["name"] = name
    result["spec"]["mpiReplicaSpecs"]["Worker"]["replicas"] = workers
    launcher, worker = (template(result, role)["spec"] for role in ("Launcher", "Worker"))
    for container in (*launcher["containers"], *launcher["initContainers"]):
        container["resources"] = {}
    worker["containers"][0]["resources"] = {"limits": {"aws.amazon.com/neuron": "16"}}
    return result


def test_kueues_own_updates_are_seen_and_come_out_as_they_went_in(stage: Stage) -> None:
    key, stored = apply(stage, own_lists("own"))
    wait_whole(stage, key)
    first = workload(stage, key)["metadata"]["uid"]
    running = job(stage, key)
    for role in ("Launcher", "Worker"):
        assert without_kueues(template(running, role), template(stored, role)) == template(stored, role)
    assert "schedulingGates" in template(running, "Worker")["spec"]
    activate(stage, key, active=False)
    wait_stopped(stage, key)
    assert job(stage, key)["spec"] == stored["spec"]
    activate(stage, key, active=True)
    wait_whole(stage, key)
    assert workload(stage, key)["metadata"]["uid"] == first
    # Kueue would say so if it found the job to be another than it let in.
    assert not {"DeletedWorkload", "UpdatedWorkload"} & set(reasons(stage, key))
    assert reasons(stage, key).count("Stopped") == 1
    updates = [line for line in said_of(stage, key) if "update" in line]
    # The two starts; when it is stopped, it has pods. The API server asks again where it has to begin a patch
    # again, as another user wrote in between.
    assert len(updates) >= 2, updates
    assert all("the update removes no addition" in line for line in updates)


def test_a_waiting_job_that_is_applied_again_keeps_its_terms_and_its_turn(stage: Stage) -> None:
    leave(stage, 0)
    key, stored = apply(stage, own_lists("again"))
    first = wait_workload(stage, key)["metadata"]["uid"]
    _, again = apply(stage, own_lists("again"))
    assert again["spec"] == stored["spec"]
    assert any("put back what the update removed" in line for line in said_of(stage, key))
    for name in list(stage.sick):
        stage.cordon(name, cordoned=False)
    wait_whole(stage, key)
    assert workload(stage, key)["metadata"]["uid"] == first
    assert not {"DeletedWorkload", "UpdatedWorkload"} & set(reasons(stage, key))


def test_a_waiting_job_of_a_new_size_asks_kueue_for_that_and_is_placed_whole(stage: Stage) -> None:
    leave(stage, 0)
    key, _ = apply(stage, own_lists("resized"))
    wait_workload(stage, key)
    inside = stage.plane.kubectl.in_namespace(key[0])
    inside.wait_for(lambda _: True, "job", f"{key[1]}-launcher")
    _, resized = apply(stage, own_lists("resized", 8))
    marks = template(resized, "Worker")["metadata"]["annotations"]
    assert marks["kueue.x-k8s.io/podset-slice-size"] == "4"
    assert "kueue.x-k8s.io/podset-required-topology" not in marks
    inside.run("delete", "job", f"{key[1]}-launcher")
    for name in list(stage.sick):
        stage.cordon(name, cordoned=False)
    wait_whole(stage, key)
