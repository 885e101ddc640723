"""A stored job: no one but operators changes its job label and its record; everything else goes on."""

import pytest

from contract import keys
from contract.keys import GATE, PLACE, SERVER_4
from testbed.mpijob import mpijob
from testbed.plane import jobs
from testbed.plane.jobs import template
from testbed.plane.kubectl import Kubectl
from tests.plane.guard import people
from tests.plane.guard.people import assert_done, assert_refused, merged, patches, resized_too, tries

WORKER = "/spec/mpiReplicaSpecs/Worker/template"
LABEL = f"{WORKER}/metadata/labels/{keys.JOB.replace('/', '~1')}"
RECORD = f"{WORKER}/metadata/annotations/{keys.ADDED.replace('/', '~1')}"
TEMPLATE = "spec.mpiReplicaSpecs.Worker.template"
SAYS_LABEL = "spec.mpiReplicaSpecs.Worker.template.metadata.labels[ultraserver-webhook.io/job]"
SAYS_RECORD = "spec.mpiReplicaSpecs.Worker.template.metadata.annotations[ultraserver-webhook.io/added]"
SAYS_LAUNCHER = "spec.mpiReplicaSpecs.Launcher.template.metadata.labels[ultraserver-webhook.io/job]"


FORGED = merged("Worker", {"annotations": {keys.ADDED: "{}"}})


FORGERIES = {
    "another job's label": ([{"op": "replace", "path": LABEL, "value": "team-b.victim"}], SAYS_LABEL),
    "no label": ([{"op": "remove", "path": LABEL}], SAYS_LABEL),
    "colours": (
        [{"op": "replace", "path": LABEL, "value": "\x1b[31m"}],
        'would change from "guard-running.train" to ""',
    ),
    "label and affinity": (
        [
            {"op": "replace", "path": LABEL, "value": "team-b.victim"},
            {"op": "replace", "path": f"{WORKER}/spec/affinity", "value": {}},
        ],
        SAYS_LABEL,
    ),
    "label by merge": (merged("Worker", {"labels": {keys.JOB: "team-b.victim"}}), SAYS_LABEL),
    "label on the launcher": (merged("Launcher", {"labels": {keys.JOB: "team-b.victim"}}), SAYS_LAUNCHER),
    "an empty record": ([{"op": "replace", "path": RECORD, "value": "{}"}], SAYS_RECORD),
    "no record": (merged("Worker", {"annotations": {keys.ADDED: None}}), SAYS_RECORD),
    "a place": (
        merged("Worker", {"annotations": {PLACE: f"placer=gate workers=4 size=4 unit={SERVER_4}"}}),
        f"{TEMPLATE}.metadata.annotations[{PLACE}]",
    ),
    "a gate": (
        [{"op": "add", "path": f"{WORKER}/spec/schedulingGates", "value": [{"name": GATE}]}],
        f"{TEMPLATE}.spec.schedulingGates[{GATE}]",
    ),
    "no workers": ([{"op": "remove", "path": "/spec/mpiReplicaSpecs/Worker"}], SAYS_LABEL),
}


@pytest.mark.parametrize(("patch", "text"), FORGERIES.values(), ids=FORGERIES.keys())
def test_a_patch_of_the_identity_of_a_running_job_is_refused(
    patch: object, text: str, running_job: Kubectl
) -> None:
    before = running_job.get_json("mpijob", "train")["spec"]
    done = patches(running_job, "mpijob/train", patch)
    assert_refused(
        done, text, "Only operators (bound to the ClusterRole", f"not {people.ADA}", "kubectl replace --force"
    )
    assert "\x1b" not in done.stderr, "a file commands the terminal of the user who applies it"
    assert running_job.get_json("mpijob", "train")["spec"] == before


def test_server_side_apply_by_force_cannot_change_the_label(running_job: Kubectl) -> None:
    forged = people.labelled_job("team-b.victim")
    forced = ("apply", "--server-side", "--force-conflicts", "--field-manager=forger")
    assert_refused(tries(running_job, forged, *forced), SAYS_LABEL)


def test_a_replace_that_strips_everything_is_denied_and_a_forced_one_recreates(
    ada: Kubectl,
) -> None:
    ada.apply(people.unplaceable())
    placed = ada.wait_for(people.started, "mpijob", "train")["spec"]
    stripped = tries(ada, people.unplaceable(), "replace")
    assert_refused(stripped, SAYS_LABEL, 'from "', 'to ""', "kubectl replace --force -f FILE")
    assert ada.get_json("mpijob", "train")["spec"] == placed
    uid = ada.get_json("mpijob", "train")["metadata"]["uid"]
    assert_done(tries(ada, people.unplaceable(), "replace", "--force"))
    anew = ada.get_json("mpijob", "train")
    assert anew["metadata"]["uid"] != uid
    assert template(anew, "Worker") == placed["mpiReplicaSpecs"]["Worker"]["template"]


def test_a_renamed_export_is_created_and_its_stale_label_refused_when_it_is_applied_again(
    ada: Kubectl,
) -> None:
    ada.apply(people.unplaceable())
    copy = jobs.exported(ada, "train")
    copy["metadata"] = {"name": "other"}
    assert tries(ada, copy, "apply").returncode == 0
    other = ada.wait_for(people.started, "mpijob", "other")
    assert template(other, "Worker")["metadata"]["labels"][keys.JOB].endswith(".other")
    assert_refused(
        tries(ada, copy, "apply"), SAYS_LABEL, '.other" to "', "remove it from a FILE for kubectl apply"
    )


def test_the_record_of_a_suspended_job_changes_with_its_size_only(ada: Kubectl) -> None:
    def record(role: str = "Worker") -> str:
        value: str = template(ada.get_json("mpijob", "train"), role)["metadata"]["annotations"][keys.ADDED]
        return value

    job = people.unplaceable()
    job["spec"]["runPolicy"] = {"suspend": True}
    ada.apply(job)
    before = record()
    # The webhook puts it back as it was, or writes it again, with any update.
    for none in (merged("Worker", {"annotations": {keys.ADDED: None}}), FORGED):
        assert_done(patches(ada, "mpijob/train", none))
        assert record() == before
    assert patches(ada, "mpijob/train", resized_too(FORGED, 8)).returncode == 0
    anew = record()
    assert anew not in (before, "{}")

    # It is not called for an opted-out job, as if it were down.
    assert_done(ada.run("annotate", "mpijob", "train", f"{keys.INJECT}=false"))
    assert_refused(patches(ada, "mpijob/train", FORGED), SAYS_RECORD)
    gone = merged("Worker", {"annotations": {keys.ADDED: None}})
    assert_refused(patches(ada, "mpijob/train", resized_too(gone, 4)), SAYS_RECORD)
    label = merged("Worker", {"labels": {keys.JOB: "team-b.victim"}})
    assert_refused(patches(ada, "mpijob/train", resized_too(label, 4)), SAYS_LABEL)
    assert_refused(patches(ada, "mpijob/train", resized_too(FORGED, 4)), SAYS_RECORD)
    assert record() == anew


def test_a_suspended_job_whose_launcher_is_to_run_ranks_has_a_new_size(ada: Kubectl) -> None:
    job = mpijob(3)
    job["spec"]["runPolicy"] = {"suspend": True}
    ada.apply(job)
    # Not without a word: the launcher of the old size stays.
    done = patches(ada, "mpijob/train", {"spec": {"runLauncherAsWorker": True}})
    assert done.returncode == 0, done.stderr
    affinity = template(ada.get_json("mpijob", "train"), "Worker")["spec"]["affinity"]
    assert "requiredDuringSchedulingIgnoredDuringExecution" in affinity["podAffinity"]


@pytest.mark.limit(30, "mpi-operator makes, ends and makes the pods of a job again, one turn after the other")
def test_everyday_changes_of_jobs_are_admitted(ada: Kubectl) -> None:
    ada.apply(people.unplaceable())
    count = lambda number: lambda obj: len(jobs.workers_of(obj["items"])) == number  # noqa: E731 - short
    ada.wait_for(count(4), "pods")
    assert_done(patches(ada, "mpijob/train", {"spec": {"mpiReplicaSpecs": {"Worker": {"replicas": 2}}}}))
    assert_done(patches(ada, "mpijob/train", {"spec": {"runPolicy": {"suspend": True}}}))
    ada.wait_for(count(0), "pods")
    assert_done(patches(ada, "mpijob/train", {"spec": {"runPolicy": {"suspend": False}}}))
    ada.wait_for(count(2), "pods")
    assert_done(ada.run("label", "mpijob", "train", "team=a"))
    assert_done(ada.run("annotate", "mpijob", "train", "note=b"))
    assert_done(patches(ada, "mpijob/train", merged("Worker", {"labels": {"team": "a"}})))
    assert_done(patches(ada, "mpijob/train", {"status": {"replicaStatuses": {}}}, "--subresource=status"))


def test_a_job_with_finalizers_is_deleted_with_all_that_is_its(ada: Kubectl) -> None:
    ada.apply(people.unplaceable(finalizers=["example.com/hold"]))
    ada.wait_for(lambda obj: len(obj["items"]) == 5, "pods")
    ada.run("delete", "mpijob", "train", "--cascade=foreground", "--wait=false")
    # The garbage collector takes the dependents first, and then its own finalizer off the job.
    ada.wait_for(lambda obj: not obj["items"], "pods")
    ada.wait_for(lambda obj: obj["metadata"]["finalizers"] == ["example.com/hold"], "mpijob", "train")
    assert_done(patches(ada, "mpijob/train", {"metadata": {"finalizers": None}}))
    ada.wait_for(lambda obj: not obj["items"], "mpijobs")


def test_kueue_starts_and_stops_a_suspended_job_and_needs_no_binding(ada: Kubectl) -> None:
    job = people.unplaceable()
    job["spec"]["runPolicy"] = {"suspend": True}
    suspended = ada.apply(job)
    kueue = ada.acting_as(people.KUEUE)
    admitted = jobs.exported(ada, "train")
    for role in ("Launcher", "Worker"):
        pod_template = template(admitted, role)
        pod_template["metadata"].setdefault("labels", {})["kueue.x-k8s.io/podset"] = role.lower()
        pod_template["metadata"]["annotations"]["kueue.x-k8s.io/workload"] = "mpijob-train"
        pod_template["spec"].setdefault("nodeSelector", {})["flavor"] = "trn2u"
    admitted["spec"]["runPolicy"]["suspend"] = False
    assert_done(tries(kueue, admitted, "replace"))
    ada.wait_for(lambda obj: len(jobs.workers_of(obj["items"])) == 4, "pods")
    evicted = jobs.exported(ada, "train") | {"spec": suspended["spec"]}
    assert_done(tries(kueue, evicted, "replace"))
    assert ada.get_json("mpijob", "train")["spec"] == suspended["spec"]


def test_the_operator_may_write_the_label_and_an_administrator_as_well(
    ada: Kubectl, namespace: Kubectl
) -> None:
    ada.apply(mpijob(4, worker_spec=people.NOWHERE, launcher_spec=people.NOWHERE))
    # Before that the webhook puts the label back, and the guard has nothing to judge.
    ada.wait_for(people.started, "mpijob", "train")
    for number, who in enumerate((ada.acting_as(people.OPERATOR), namespace)):
        patch = merged("Worker", {"labels": {keys.JOB: f"written.{number}"}})
        assert_done(patches(who, "mpijob/train", patch))
        labels = template(ada.get_json("mpijob", "train"), "Worker")["metadata"]["labels"]
        assert labels[keys.JOB] == f"written.{number}"


def test_only_the_operator_counts_as_one_and_it_is_no_administrator(guarded: Kubectl) -> None:
    def may(user: str, **asked: str) -> bool:
        review = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "spec": {"user": user, "resourceAttributes": asked},
        }
        return bool(guarded.create(review)["status"]["allowed"])

    question = {"group": "ultraserver-webhook.io", "resource": "jobidentities", "verb": "write"}
    users = (people.OPERATOR, people.ADA, people.KUEUE, people.PLACEMENT, people.OTHER, people.CRONJOBS)
    assert [user for user in users if may(user, **question)] == [people.OPERATOR]
    assert not may(people.OPERATOR, group="*", resource="*", verb="*")
