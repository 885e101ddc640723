"""Tests of updates: the webhook restores additions that kubectl removes from a job without pods."""

import copy
import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from testbed.mpijob import mpijob
from testbed.plane.jobs import template, to_json, workers_of
from testbed.plane.kubectl import Kubectl, Object
from testbed.plane.webhook import call_count
from tests.plane.ways import templates, way, with_own_lists
from webhook.cli import main
from webhook.documents import read_documents

pytestmark = pytest.mark.usefixtures("registered_webhook")

INIT = ["mine", "wait-hostfilename", "ultraserver-init-container"]
UPDATES = "updates.ultraserver-webhook.io"


def suspended_job(job: Object) -> Object:
    return {**job, "spec": {**job["spec"], "runPolicy": {"suspend": True}}}


def is_suspended(job: Object) -> bool:
    conditions = job.get("status", {}).get("conditions", [])
    return any((condition["type"], condition["status"]) == ("Suspended", "True") for condition in conditions)


def has_started(job: Object) -> bool:
    return "startTime" in job.get("status", {})


@way
def test_the_webhook_does_not_change_a_job_that_has_pods(way: tuple[str, ...], namespace: Kubectl) -> None:
    first = namespace.apply(with_own_lists(), *way)
    namespace.wait_for(has_started, "mpijob", "train")
    again = namespace.apply(with_own_lists(), *way)
    names = [item["name"] for item in template(again, "Launcher")["spec"]["initContainers"]]
    assert names == (INIT if way else ["mine"])
    assert templates(again) != templates(first)
    pods = workers_of(namespace.get_json("pods")["items"])
    for pod in pods:
        terms = pod["spec"]["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
        assert len(terms) == 2


@pytest.mark.parametrize("workers", [4, 8])
def test_replacing_a_suspended_job_has_the_result_of_the_preview(
    workers: int, namespace: Kubectl, tmp_path: Path
) -> None:
    first = namespace.apply(suspended_job(mpijob(4)))
    stored = namespace.wait_for(is_suspended, "mpijob", "train")
    (old := tmp_path / "old.json").write_text(json.dumps(stored))
    document = to_json(suspended_job(mpijob(workers)))
    command = [
        "preview",
        "--without-placement",
        "--old",
        str(old),
        "-n",
        str(namespace.namespace),
        "-o",
        "yaml",
    ]
    (previewed,) = read_documents(CliRunner().invoke(main, command, input=document).stdout)
    namespace.run("replace", "-f", "-", stdin=document)
    replaced = templates(namespace.get_json("mpijob", "train"))
    assert replaced == templates(previewed.value)
    assert (replaced == templates(first)) is (workers == 4)


@way
def test_no_field_manager_owns_restored_fields(way: tuple[str, ...], namespace: Kubectl) -> None:
    for _ in range(2):
        namespace.apply(suspended_job(with_own_lists()), *way)
    stored = namespace.get_json("mpijob", "train", "--show-managed-fields")
    managed = json.dumps([entry["fieldsV1"] for entry in stored["metadata"]["managedFields"]])
    assert '"f:podAffinity"' not in managed
    assert "ultraserver-webhook.io" not in managed


@way
def test_a_suspended_job_that_is_resized_equals_a_new_job_of_that_size_and_starts(
    way: tuple[str, ...], namespace: Kubectl
) -> None:
    fresh = namespace.apply(suspended_job(mpijob(8)), *way, "--dry-run=server")
    namespace.apply(suspended_job(mpijob(4)), *way)
    namespace.wait_for(is_suspended, "mpijob", "train")
    namespace.wait_for(lambda obj: bool(obj["items"]), "jobs")
    result = namespace.run("apply", *way, "-f", "-", stdin=to_json(suspended_job(mpijob(8))))
    assert "kubectl delete job train-launcher" in result.stderr
    resized = namespace.get_json("mpijob", "train")
    assert templates(resized) == templates(fresh)

    # The old launcher waits for 4 workers, and a launcher from the new template waits for 8. If the operator
    # has not read the new size yet, it creates a launcher from the old template again.
    namespace.wait_for(
        lambda obj: obj["data"]["hostfile"].count("train-worker-") == 8, "configmap", "train-config"
    )
    old = namespace.get_json("job", "train-launcher")["metadata"]["uid"]
    namespace.run("delete", "job", "train-launcher")
    namespace.wait_for(
        lambda obj: [job["metadata"]["uid"] for job in obj["items"]] not in ([], [old]), "jobs"
    )
    init_containers = namespace.get_json("job", "train-launcher")["spec"]["template"]["spec"][
        "initContainers"
    ]
    assert init_containers[0]["env"][1] == {"name": "ULTRASERVER_WORKERS", "value": "8"}
    namespace.apply({**mpijob(8), "spec": {**mpijob(8)["spec"], "runPolicy": {"suspend": False}}}, *way)
    namespace.wait_for(
        lambda obj: [bool(pod["spec"].get("nodeName")) for pod in workers_of(obj["items"])] == [True] * 8,
        "pods",
    )


def test_a_job_that_was_suspended_while_it_ran_can_be_resized(namespace: Kubectl) -> None:
    unplaceable = mpijob(4, worker_spec={"nodeSelector": {"no": "such-node"}})
    namespace.apply(unplaceable)
    namespace.wait_for(has_started, "mpijob", "train")
    stop = {"spec": {"runPolicy": {"suspend": True}}}
    namespace.run("patch", "mpijob", "train", "--type=merge", "-p", json.dumps(stop))
    namespace.wait_for(is_suspended, "mpijob", "train")
    grown = {"spec": {"mpiReplicaSpecs": {"Worker": {"replicas": 8}}}}
    namespace.run("patch", "mpijob", "train", "--type=merge", "-p", json.dumps(grown))
    affinity = template(namespace.get_json("mpijob", "train"), "Worker")["spec"]["affinity"]["podAffinity"]
    assert list(affinity) == ["preferredDuringSchedulingIgnoredDuringExecution"]


def test_only_updates_that_can_remove_additions_are_sent(namespace: Kubectl) -> None:
    namespace.apply(suspended_job(mpijob(4)))
    namespace.wait_for(is_suspended, "mpijob", "train")

    def count_calls(*command: str, document: Object | None = None) -> float:
        before = call_count(namespace, UPDATES)
        namespace.run(*command, stdin=to_json(document) if document else None)
        return call_count(namespace, UPDATES) - before

    assert count_calls("label", "mpijob", "train", "team=a") == 0
    assert count_calls("apply", "-f", "-", document=suspended_job(mpijob(4))) == 0
    changed = copy.deepcopy(suspended_job(mpijob(4)))
    template(changed, "Worker")["spec"]["tolerations"] = [{"operator": "Exists"}]
    assert count_calls("apply", "-f", "-", document=changed) == 1
    resume = {"spec": {"runPolicy": {"suspend": False}}}
    patch = ("patch", "mpijob", "train", "--type=merge", "-p")
    assert count_calls(*patch, json.dumps(resume)) == 0
    namespace.wait_for(has_started, "mpijob", "train")
    assert count_calls("apply", "-f", "-", document=mpijob(4)) == 0
    assert count_calls(*patch, json.dumps({"spec": {"mpiReplicaSpecs": {"Worker": {"replicas": 2}}}})) == 0
