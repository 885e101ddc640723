"""Updates of stored jobs: what kubectl takes out of a job whose pods are still to come is put back."""

import copy
import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from testbed.mpijob import mpijob
from testbed.plane.jobs import template, text, workers_of
from testbed.plane.kubectl import Kubectl, Object
from testbed.plane.webhook import call_count
from tests.plane.ways import templates, way, with_own_lists
from webhook.cli import main
from webhook.documents import read_documents

pytestmark = pytest.mark.usefixtures("registered_webhook")

INIT = ["mine", "wait-hostfilename", "ultraserver-init-container"]
UPDATES = "updates.ultraserver-webhook.io"


def suspended(job: Object) -> Object:
    return {**job, "spec": {**job["spec"], "runPolicy": {"suspend": True}}}


def is_suspended(job: Object) -> bool:
    conditions = job.get("status", {}).get("conditions", [])
    return any((condition["type"], condition["status"]) == ("Suspended", "True") for condition in conditions)


def has_started(job: Object) -> bool:
    return "startTime" in job.get("status", {})


@way
def test_a_job_that_has_pods_is_not_touched(way: tuple[str, ...], namespace: Kubectl) -> None:
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
    first = namespace.apply(suspended(mpijob(4)))
    stored = namespace.wait_for(is_suspended, "mpijob", "train")
    (old := tmp_path / "old.json").write_text(json.dumps(stored))
    sent = text(suspended(mpijob(workers)))
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
    (previewed,) = read_documents(CliRunner().invoke(main, command, input=sent).stdout)
    namespace.run("replace", "-f", "-", stdin=sent)
    replaced = templates(namespace.get_json("mpijob", "train"))
    assert replaced == templates(previewed.value)
    assert (replaced == templates(first)) is (workers == 4)


@way
def test_what_was_put_back_belongs_to_no_field_manager(way: tuple[str, ...], namespace: Kubectl) -> None:
    for _ in range(2):
        namespace.apply(suspended(with_own_lists()), *way)
    stored = namespace.get_json("mpijob", "train", "--show-managed-fields")
    managed = json.dumps([entry["fieldsV1"] for entry in stored["metadata"]["managedFields"]])
    assert '"f:podAffinity"' not in managed
    assert "ultraserver-webhook.io" not in managed


@way
def test_a_suspended_job_of_a_new_size_is_as_if_it_were_created_so_and_starts(
    way: tuple[str, ...], namespace: Kubectl
) -> None:
    fresh = namespace.apply(suspended(mpijob(8)), *way, "--dry-run=server")
    namespace.apply(suspended(mpijob(4)), *way)
    namespace.wait_for(is_suspended, "mpijob", "train")
    namespace.wait_for(lambda obj: bool(obj["items"]), "jobs")
    done = namespace.run("apply", *way, "-f", "-", stdin=text(suspended(mpijob(8))))
    assert "kubectl delete job train-launcher" in done.stderr
    resized = namespace.get_json("mpijob", "train")
    assert templates(resized) == templates(fresh)

    # The launcher of the old size waits for 4 workers; the new one, made of the new template, for 8.
    # The operator sees the end of a launcher also before a new size: it made one of the old template then.
    namespace.wait_for(
        lambda obj: obj["data"]["hostfile"].count("train-worker-") == 8, "configmap", "train-config"
    )
    old = namespace.get_json("job", "train-launcher")["metadata"]["uid"]
    namespace.run("delete", "job", "train-launcher")
    namespace.wait_for(
        lambda obj: [job["metadata"]["uid"] for job in obj["items"]] not in ([], [old]), "jobs"
    )
    made = namespace.get_json("job", "train-launcher")["spec"]["template"]["spec"]["initContainers"]
    assert made[0]["env"][1] == {"name": "ULTRASERVER_WORKERS", "value": "8"}
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


def test_only_what_can_take_something_out_is_sent(namespace: Kubectl) -> None:
    namespace.apply(suspended(mpijob(4)))
    namespace.wait_for(is_suspended, "mpijob", "train")

    def sent(*command: str, document: Object | None = None) -> float:
        before = call_count(namespace, UPDATES)
        namespace.run(*command, stdin=text(document) if document else None)
        return call_count(namespace, UPDATES) - before

    assert sent("label", "mpijob", "train", "team=a") == 0
    assert sent("apply", "-f", "-", document=suspended(mpijob(4))) == 0
    changed = copy.deepcopy(suspended(mpijob(4)))
    template(changed, "Worker")["spec"]["tolerations"] = [{"operator": "Exists"}]
    assert sent("apply", "-f", "-", document=changed) == 1
    resume = {"spec": {"runPolicy": {"suspend": False}}}
    patch = ("patch", "mpijob", "train", "--type=merge", "-p")
    assert sent(*patch, json.dumps(resume)) == 0
    namespace.wait_for(has_started, "mpijob", "train")
    assert sent("apply", "-f", "-", document=mpijob(4)) == 0
    assert sent(*patch, json.dumps({"spec": {"mpiReplicaSpecs": {"Worker": {"replicas": 2}}}})) == 0
