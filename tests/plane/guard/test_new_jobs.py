"""Creating a job: where the webhook is not asked, the label must be the one that it would have computed."""

import json

import pytest

from contract import keys
from contract.keys import GATE, PLACE, SERVER_4
from testbed.plane.jobs import template
from testbed.plane.kubectl import Kubectl
from tests.helpers import requested
from tests.plane.guard import people
from tests.plane.guard.people import assert_done, assert_refused, patches, tries
from webhook.engine.identity import job_id


@pytest.mark.parametrize(
    "name",
    ["train", "a-name-that-is-so-long-that-the-label-has-no-room-for-it-and-is-hashed", None],
    ids=["named", "long", "generated"],
)
def test_annotations_that_the_webhook_computes_are_admitted(name: str | None, ada: Kubectl) -> None:
    metadata = {"name": name} if name else {"name": None, "generateName": "train-"}
    stored = ada.create(people.unplaceable(**metadata))
    assert template(stored, "Worker")["metadata"]["labels"][keys.JOB].startswith(str(ada.namespace)[:20])


def test_in_a_namespace_that_is_opted_out_label_and_record_are_refused(
    guarded: Kubectl, plain_namespace: Kubectl
) -> None:
    del guarded
    ada = plain_namespace.acting_as(people.ADA)
    assert_done(tries(ada, people.unplaceable(), "create", "--dry-run=server"))
    for label in ("team-b.victim", f"{ada.namespace}.train"):
        refused = tries(ada, people.labelled_job(label), "create", "--dry-run=server")
        assert_refused(refused, "Worker.template.metadata.labels", "opted out", "Remove it from the file.")
    recorded = people.unplaceable()
    template(recorded, "Launcher")["metadata"] = {"annotations": {keys.ADDED: "{}"}}
    refused = tries(ada, recorded, "create", "--dry-run=server")
    assert_refused(refused, "Launcher.template.metadata.annotations", "opted out", "Remove it from the file.")


def test_what_places_pods_is_refused_in_a_plain_jobs_template(ada: Kubectl, namespace: Kubectl) -> None:
    """Its controller may copy the template, because no other user than operators could write it."""
    forged = [people.plain_job(**{key: value}) for key, value in people.PLACED.items()]
    for who in (people.ADA, people.CRONJOBS):
        refused = people.refused_marks(ada.acting_as(who), [*forged, people.plain_job(people.GATES)])
        assert f"spec.template.spec.schedulingGates[{GATE}] sets" in refused
        assert f"not {who}" in refused
    # As the webhook leaves it with the component kinds, without which it is not asked about Jobs.
    in_blocks = people.plain_job(**{PLACE: f"placer=affinity workers=1 size=4 unit={SERVER_4}"})
    people.refused_marks(ada, [in_blocks])
    labelled = people.plain_job()
    computed = job_id(requested(labelled, str(ada.namespace)), "plain", "", "")
    for made in (labelled, in_blocks):
        made["spec"]["template"]["metadata"]["labels"] = {keys.JOB: computed}
    assert_refused(tries(ada, labelled), "the webhook does not compute it for a Job", f"not {people.ADA}")
    assert_done(tries(namespace, in_blocks))
    for patch in (forged[0]["spec"], {"template": {"spec": people.GATES}}):
        assert_refused(patches(ada, "job/plain", {"spec": patch}), "spec.template.", "would change")
    assert_done(patches(ada, "job/plain", {"spec": {"suspend": False}}))


@pytest.mark.soak  # seconds of the API server's work for each request
def test_a_job_of_a_megabyte_is_judged_as_any_other(ada: Kubectl) -> None:
    job = people.unplaceable(1)
    job["spec"]["runPolicy"] = {"suspend": True}
    environment = [{"name": f"V{number}", "value": "x" * 200} for number in range(4400)]
    template(job, "Worker")["spec"]["containers"][0]["env"] = environment
    template(job, "Worker")["metadata"] = {"labels": {f"l{number}": "v" for number in range(3000)}}
    assert len(json.dumps(job)) > 1_000_000
    assert_done(tries(ada, job))
    forged = {"metadata": {"labels": {keys.JOB: "team-b.victim"}}}
    patch = {"spec": {"mpiReplicaSpecs": {"Worker": {"template": forged}}}}
    # While it is suspended the webhook puts the label back, so the guard finds nothing changed.
    assert_done(patches(ada, "mpijob/train", patch))
    label = template(ada.get_json("mpijob", "train"), "Worker")["metadata"]["labels"][keys.JOB]
    assert label == f"{ada.namespace}.train"
    assert_done(patches(ada, "mpijob/train", {"spec": {"runPolicy": {"suspend": False}}}))
    ada.wait_for(people.started, "mpijob", "train")
    assert_refused(patches(ada, "mpijob/train", patch), "identifies the job")
