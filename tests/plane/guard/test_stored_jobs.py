"""Tests of the guard on stored jobs: only operators may change the job label and the record."""

import pytest

from contract import keys
from contract.keys import GATE, PLACEMENT, SERVER_4
from testbed.mpijob import mpijob
from testbed.plane import jobs
from testbed.plane.jobs import template
from testbed.plane.kubectl import Kubectl
from tests.plane.guard import people
from tests.plane.guard.people import (
    assert_done,
    assert_refused,
    metadata_patch,
    send,
    send_patch,
    with_workers,
)

WORKER = "/spec/mpiReplicaSpecs/Worker/template"
LABEL = f"{WORKER}/metadata/labels/{keys.JOB.replace('/', '~1')}"
RECORD = f"{WORKER}/metadata/annotations/{keys.ADDED.replace('/', '~1')}"
TEMPLATE = "spec.mpiReplicaSpecs.Worker.template"
WORKER_LABEL_FIELD = "spec.mpiReplicaSpecs.Worker.template.metadata.labels[ultraserver-webhook.io/job]"
WORKER_RECORD_FIELD = (
    "spec.mpiReplicaSpecs.Worker.template.metadata.annotations[ultraserver-webhook.io/added]"
)
LAUNCHER_LABEL_FIELD = "spec.mpiReplicaSpecs.Launcher.template.metadata.labels[ultraserver-webhook.io/job]"

FORGED = metadata_patch("Worker", {"annotations": {keys.ADDED: "{}"}})

FORGERIES = {
    "label of another job": (
        [{"op": "replace", "path": LABEL, "value": "team-b.victim"}],
        WORKER_LABEL_FIELD,
    ),
    "no label": ([{"op": "remove", "path": LABEL}], WORKER_LABEL_FIELD),
    "colours": (
        [{"op": "replace", "path": LABEL, "value": "\x1b[31m"}],
        'would change from "guard-running.train" to ""',
    ),
    "label and affinity": (
        [
            {"op": "replace", "path": LABEL, "value": "team-b.victim"},
            {"op": "replace", "path": f"{WORKER}/spec/affinity", "value": {}},
        ],
        WORKER_LABEL_FIELD,
    ),
    "label by merge": (metadata_patch("Worker", {"labels": {keys.JOB: "team-b.victim"}}), WORKER_LABEL_FIELD),
    "label on the launcher": (
        metadata_patch("Launcher", {"labels": {keys.JOB: "team-b.victim"}}),
        LAUNCHER_LABEL_FIELD,
    ),
    "an empty record": ([{"op": "replace", "path": RECORD, "value": "{}"}], WORKER_RECORD_FIELD),
    "no record": (metadata_patch("Worker", {"annotations": {keys.ADDED: None}}), WORKER_RECORD_FIELD),
    "a placement annotation": (
        metadata_patch(
            "Worker", {"annotations": {PLACEMENT: f"placer=gate workers=4 size=4 unit={SERVER_4}"}}
        ),
        f"{TEMPLATE}.metadata.annotations[{PLACEMENT}]",
    ),
    "a gate": (
        [{"op": "add", "path": f"{WORKER}/spec/schedulingGates", "value": [{"name": GATE}]}],
        f"{TEMPLATE}.spec.schedulingGates[{GATE}]",
    ),
    "no workers": ([{"op": "remove", "path": "/spec/mpiReplicaSpecs/Worker"}], WORKER_LABEL_FIELD),
}


@pytest.mark.parametrize(("patch", "text"), FORGERIES.values(), ids=FORGERIES.keys())
def test_a_patch_of_the_label_or_record_of_a_running_job_is_refused(
    patch: object, text: str, running_job: Kubectl
) -> None:
    before = running_job.get_json("mpijob", "train")["spec"]
    done = send_patch(running_job, "mpijob/train", patch)
    assert_refused(
        done, text, "Only operators (bound to the ClusterRole", f"not {people.ADA}", "kubectl replace --force"
    )
    assert "\x1b" not in done.stderr, "a value of a file controls the terminal of the user who applies it"
    assert running_job.get_json("mpijob", "train")["spec"] == before


def test_a_forced_server_side_apply_cannot_change_the_label(running_job: Kubectl) -> None:
    forged = people.labelled_job("team-b.victim")
    forced = ("apply", "--server-side", "--force-conflicts", "--field-manager=forger")
    assert_refused(send(running_job, forged, *forced), WORKER_LABEL_FIELD)


def test_a_replace_without_the_label_is_refused_and_a_forced_replace_recreates_the_job(
    ada: Kubectl,
) -> None:
    ada.apply(people.unschedulable_job())
    placed = ada.wait_for(people.is_started, "mpijob", "train")["spec"]
    refused = send(ada, people.unschedulable_job(), "replace")
    assert_refused(refused, WORKER_LABEL_FIELD, 'from "', 'to ""', "kubectl replace --force -f FILE")
    assert ada.get_json("mpijob", "train")["spec"] == placed
    uid = ada.get_json("mpijob", "train")["metadata"]["uid"]
    assert_done(send(ada, people.unschedulable_job(), "replace", "--force"))
    recreated = ada.get_json("mpijob", "train")
    assert recreated["metadata"]["uid"] != uid
    assert template(recreated, "Worker") == placed["mpiReplicaSpecs"]["Worker"]["template"]


def test_an_exported_job_with_a_new_name_is_created_but_refused_when_it_is_applied_again(
    ada: Kubectl,
) -> None:
    ada.apply(people.unschedulable_job())
    copy = jobs.export_job(ada, "train")
    copy["metadata"] = {"name": "other"}
    assert send(ada, copy, "apply").returncode == 0
    renamed = ada.wait_for(people.is_started, "mpijob", "other")
    assert template(renamed, "Worker")["metadata"]["labels"][keys.JOB].endswith(".other")
    assert_refused(
        send(ada, copy, "apply"),
        WORKER_LABEL_FIELD,
        '.other" to "',
        "remove it from a FILE for kubectl apply",
    )


def test_the_record_of_a_suspended_job_changes_only_with_the_number_of_workers(ada: Kubectl) -> None:
    def record(role: str = "Worker") -> str:
        value: str = template(ada.get_json("mpijob", "train"), role)["metadata"]["annotations"][keys.ADDED]
        return value

    job = people.unschedulable_job()
    job["spec"]["runPolicy"] = {"suspend": True}
    ada.apply(job)
    before = record()
    # With each update, the webhook restores the record or writes it again.
    for patch in (metadata_patch("Worker", {"annotations": {keys.ADDED: None}}), FORGED):
        assert_done(send_patch(ada, "mpijob/train", patch))
        assert record() == before
    assert send_patch(ada, "mpijob/train", with_workers(FORGED, 8)).returncode == 0
    after_resize = record()
    assert after_resize not in (before, "{}")

    # For an opted-out job the webhook is not called, as if it were down.
    assert_done(ada.run("annotate", "mpijob", "train", f"{keys.INJECT}=false"))
    assert_refused(send_patch(ada, "mpijob/train", FORGED), WORKER_RECORD_FIELD)
    removal = metadata_patch("Worker", {"annotations": {keys.ADDED: None}})
    assert_refused(send_patch(ada, "mpijob/train", with_workers(removal, 4)), WORKER_RECORD_FIELD)
    label = metadata_patch("Worker", {"labels": {keys.JOB: "team-b.victim"}})
    assert_refused(send_patch(ada, "mpijob/train", with_workers(label, 4)), WORKER_LABEL_FIELD)
    assert_refused(send_patch(ada, "mpijob/train", with_workers(FORGED, 4)), WORKER_RECORD_FIELD)
    assert record() == after_resize


def test_a_suspended_job_is_placed_again_if_its_launcher_becomes_a_worker(ada: Kubectl) -> None:
    job = mpijob(3)
    job["spec"]["runPolicy"] = {"suspend": True}
    ada.apply(job)
    # The webhook warns that the launcher keeps the fields for the old size.
    done = send_patch(ada, "mpijob/train", {"spec": {"runLauncherAsWorker": True}})
    assert done.returncode == 0, done.stderr
    affinity = template(ada.get_json("mpijob", "train"), "Worker")["spec"]["affinity"]
    assert "requiredDuringSchedulingIgnoredDuringExecution" in affinity["podAffinity"]


@pytest.mark.limit(
    30, "mpi-operator creates, deletes and creates again the pods of a job, with a pause each time"
)
def test_everyday_changes_of_jobs_are_accepted(ada: Kubectl) -> None:
    ada.apply(people.unschedulable_job())
    has_workers = lambda number: lambda obj: len(jobs.workers_of(obj["items"])) == number  # noqa: E731 - short
    ada.wait_for(has_workers(4), "pods")
    assert_done(send_patch(ada, "mpijob/train", {"spec": {"mpiReplicaSpecs": {"Worker": {"replicas": 2}}}}))
    assert_done(send_patch(ada, "mpijob/train", {"spec": {"runPolicy": {"suspend": True}}}))
    ada.wait_for(has_workers(0), "pods")
    assert_done(send_patch(ada, "mpijob/train", {"spec": {"runPolicy": {"suspend": False}}}))
    ada.wait_for(has_workers(2), "pods")
    assert_done(ada.run("label", "mpijob", "train", "team=a"))
    assert_done(ada.run("annotate", "mpijob", "train", "note=b"))
    assert_done(send_patch(ada, "mpijob/train", metadata_patch("Worker", {"labels": {"team": "a"}})))
    assert_done(send_patch(ada, "mpijob/train", {"status": {"replicaStatuses": {}}}, "--subresource=status"))


def test_a_job_with_finalizers_is_deleted_with_its_pods(ada: Kubectl) -> None:
    ada.apply(people.unschedulable_job(finalizers=["example.com/hold"]))
    ada.wait_for(lambda obj: len(obj["items"]) == 5, "pods")
    ada.run("delete", "mpijob", "train", "--cascade=foreground", "--wait=false")
    # The garbage collector deletes the dependents first, and then removes its own finalizer from the job.
    ada.wait_for(lambda obj: not obj["items"], "pods")
    ada.wait_for(lambda obj: obj["metadata"]["finalizers"] == ["example.com/hold"], "mpijob", "train")
    assert_done(send_patch(ada, "mpijob/train", {"metadata": {"finalizers": None}}))
    ada.wait_for(lambda obj: not obj["items"], "mpijobs")


def test_kueue_starts_and_stops_a_suspended_job_without_a_binding(ada: Kubectl) -> None:
    job = people.unschedulable_job()
    job["spec"]["runPolicy"] = {"suspend": True}
    suspended = ada.apply(job)
    kueue = ada.acting_as(people.KUEUE)
    admitted_job = jobs.export_job(ada, "train")
    for role in ("Launcher", "Worker"):
        pod_template = template(admitted_job, role)
        pod_template["metadata"].setdefault("labels", {})["kueue.x-k8s.io/podset"] = role.lower()
        pod_template["metadata"]["annotations"]["kueue.x-k8s.io/workload"] = "mpijob-train"
        pod_template["spec"].setdefault("nodeSelector", {})["flavor"] = "trn2u"
    admitted_job["spec"]["runPolicy"]["suspend"] = False
    assert_done(send(kueue, admitted_job, "replace"))
    ada.wait_for(lambda obj: len(jobs.workers_of(obj["items"])) == 4, "pods")
    evicted_job = jobs.export_job(ada, "train") | {"spec": suspended["spec"]}
    assert_done(send(kueue, evicted_job, "replace"))
    assert ada.get_json("mpijob", "train")["spec"] == suspended["spec"]


def test_the_operator_and_an_administrator_may_write_the_label(ada: Kubectl, namespace: Kubectl) -> None:
    ada.apply(mpijob(4, worker_spec=people.NOWHERE, launcher_spec=people.NOWHERE))
    # Before the job starts, the webhook restores the label, so the guard finds no change.
    ada.wait_for(people.is_started, "mpijob", "train")
    for number, user in enumerate((ada.acting_as(people.OPERATOR), namespace)):
        patch = metadata_patch("Worker", {"labels": {keys.JOB: f"written.{number}"}})
        assert_done(send_patch(user, "mpijob/train", patch))
        labels = template(ada.get_json("mpijob", "train"), "Worker")["metadata"]["labels"]
        assert labels[keys.JOB] == f"written.{number}"


def test_only_mpi_operator_is_an_operator_and_it_is_not_an_administrator(guarded: Kubectl) -> None:
    def may(user: str, **attributes: str) -> bool:
        review = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "spec": {"user": user, "resourceAttributes": attributes},
        }
        return bool(guarded.create(review)["status"]["allowed"])

    identity_right = {"group": "ultraserver-webhook.io", "resource": "jobidentities", "verb": "write"}
    users = (
        people.OPERATOR,
        people.ADA,
        people.KUEUE,
        people.PLACEMENT_ACCOUNT,
        people.UNBOUND_OPERATOR,
        people.CRONJOBS,
    )
    assert [user for user in users if may(user, **identity_right)] == [people.OPERATOR]
    assert not may(people.OPERATOR, group="*", resource="*", verb="*")
