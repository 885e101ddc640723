"""Tests of the guard on new jobs: templates may only have the marks (``record.MARKS``) of the webhook."""

import json

import pytest

from contract import keys
from contract.keys import GATE, PLACEMENT, SERVER_4
from testbed.plane.jobs import template
from testbed.plane.kubectl import Kubectl
from tests.helpers import request_for
from tests.plane.guard import people
from tests.plane.guard.people import assert_done, assert_refused, send, send_patch
from webhook.engine.identity import job_id


@pytest.mark.parametrize(
    "name",
    ["train", "a-name-that-is-so-long-that-the-label-has-no-room-for-it-and-is-hashed", None],
    ids=["named", "long", "generated"],
)
def test_labels_that_the_webhook_computes_are_accepted(name: str | None, ada: Kubectl) -> None:
    metadata = {"name": name} if name else {"name": None, "generateName": "train-"}
    stored = ada.create(people.unschedulable_job(**metadata))
    assert template(stored, "Worker")["metadata"]["labels"][keys.JOB].startswith(str(ada.namespace)[:20])


def test_in_an_opted_out_namespace_the_job_label_and_the_record_are_refused(
    guarded: Kubectl, plain_namespace: Kubectl
) -> None:
    del guarded
    ada = plain_namespace.acting_as(people.ADA)
    assert_done(send(ada, people.unschedulable_job(), "create", "--dry-run=server"))
    for label in ("team-b.victim", f"{ada.namespace}.train"):
        refused = send(ada, people.labelled_job(label), "create", "--dry-run=server")
        assert_refused(refused, "Worker.template.metadata.labels", "opted out", "Remove it from the file.")
    job_with_record = people.unschedulable_job()
    template(job_with_record, "Launcher")["metadata"] = {"annotations": {keys.ADDED: "{}"}}
    refused = send(ada, job_with_record, "create", "--dry-run=server")
    assert_refused(refused, "Launcher.template.metadata.annotations", "opted out", "Remove it from the file.")


def test_placement_annotations_and_the_gate_are_refused_in_the_template_of_a_job(
    ada: Kubectl, namespace: Kubectl
) -> None:
    """The Job controller may copy templates to Pods, so the guard must check who writes the templates."""
    forged = [people.plain_job(**{key: value}) for key, value in people.PLACED.items()]
    for user in (people.ADA, people.CRONJOBS):
        refused = people.assert_marks_refused(ada.acting_as(user), [*forged, people.plain_job(people.GATES)])
        assert f"spec.template.spec.schedulingGates[{GATE}] sets" in refused
        assert f"not {user}" in refused
    # The webhook writes this annotation if the value `kinds` has Jobs. Here, it does not receive Jobs.
    placed_job = people.plain_job(**{PLACEMENT: f"placer=affinity workers=1 size=4 unit={SERVER_4}"})
    people.assert_marks_refused(ada, [placed_job])
    labelled_job = people.plain_job()
    computed_label = job_id(request_for(labelled_job, str(ada.namespace)), "plain", "", "")
    for job in (labelled_job, placed_job):
        job["spec"]["template"]["metadata"]["labels"] = {keys.JOB: computed_label}
    assert_refused(send(ada, labelled_job), "the webhook does not compute it for a Job", f"not {people.ADA}")
    assert_done(send(namespace, placed_job))
    for patch in (forged[0]["spec"], {"template": {"spec": people.GATES}}):
        assert_refused(send_patch(ada, "job/plain", {"spec": patch}), "spec.template.", "would change")
    assert_done(send_patch(ada, "job/plain", {"spec": {"suspend": False}}))


@pytest.mark.soak  # each request takes seconds in the API server
def test_the_guard_checks_a_job_of_a_megabyte_like_a_small_job(ada: Kubectl) -> None:
    job = people.unschedulable_job(1)
    job["spec"]["runPolicy"] = {"suspend": True}
    environment = [{"name": f"V{number}", "value": "x" * 200} for number in range(4400)]
    template(job, "Worker")["spec"]["containers"][0]["env"] = environment
    template(job, "Worker")["metadata"] = {"labels": {f"l{number}": "v" for number in range(3000)}}
    assert len(json.dumps(job)) > 1_000_000
    assert_done(send(ada, job))
    forged = {"metadata": {"labels": {keys.JOB: "team-b.victim"}}}
    patch = {"spec": {"mpiReplicaSpecs": {"Worker": {"template": forged}}}}
    # While the job is suspended, the webhook restores the label, so the guard finds no change.
    assert_done(send_patch(ada, "mpijob/train", patch))
    label = template(ada.get_json("mpijob", "train"), "Worker")["metadata"]["labels"][keys.JOB]
    assert label == f"{ada.namespace}.train"
    assert_done(send_patch(ada, "mpijob/train", {"spec": {"runPolicy": {"suspend": False}}}))
    ada.wait_for(people.is_started, "mpijob", "train")
    assert_refused(send_patch(ada, "mpijob/train", patch), "identifies the job")
