"""Jobs about which the webhook is not asked, as if it were away: what is sent is what would be stored."""

from collections.abc import Iterator

import pytest

from contract import keys
from contract.keys import GATE, PLACE, SERVER_2, SERVER_4
from testbed.plane.controlplane import ControlPlane
from testbed.plane.jobs import borrowed_namespace, together
from testbed.plane.kubectl import Kubectl, Object
from tests.plane.guard import people
from tests.plane.guard.people import assert_done, assert_refused, merged, patches, resized_too, tries

DIGITS = "0123456789abcdef0123"
INDEX = "training.kubeflow.org/replica-index"
TEMPLATE = "spec.mpiReplicaSpecs.Worker.template"
PLACED = {"place": f"placer=gate workers=4 size=4 unit={SERVER_4} index=labels/{INDEX}"}
"""What the rows of whole-job admission write for four workers."""


@pytest.fixture(scope="module", autouse=True)
def unasked(guarded: Kubectl, control_plane: ControlPlane) -> Iterator[None]:
    """The webhook is not called while the tests of this module run."""
    with borrowed_namespace(control_plane, "guard-unasked") as inside, people.not_asked(guarded, inside):
        yield


def test_without_the_webhook_a_job_may_only_have_its_own_label(ada: Kubectl) -> None:
    here = ada.namespace
    generated = {"name": None, "generateName": "train-"}
    for label, metadata in (
        ("team-b.train", {}),
        (f"{here}.other", {}),
        (f"{here}.train_{DIGITS}", {}),
        (f"team-b.train_{DIGITS}", generated),
        (f"{here}.other", generated),
        ("train", {}),
    ):
        done = tries(ada, people.labelled_job(label, **metadata), "create", "--dry-run=server")
        assert_refused(
            done, "Worker.template.metadata.labels[ultraserver-webhook.io/job]", "not the value of this job"
        )
    for label, metadata in (
        (f"{here}.train", {}),
        (f"{here[:32]}.train_{DIGITS}"[:63] if len(here) < 32 else f"{here[:40]}_{DIGITS}", generated),
    ):
        assert_done(tries(ada, people.labelled_job(label, **metadata), "create", "--dry-run=server"))


def test_what_places_a_jobs_pods_can_only_be_what_the_webhook_computes_for_its_size(ada: Kubectl) -> None:
    ranks = people.marked_job(people.unplaceable(3, name="ranks"), **PLACED)
    ranks["spec"]["runLauncherAsWorker"] = True
    right = people.marked_job(people.unplaceable(), gate=True, **PLACED)
    people.marked_job(right, "Launcher", gate=True, job=f"{ada.namespace}.train")
    pair = PLACED["place"].replace("=4", "=2").replace(SERVER_4, SERVER_2)
    two = people.marked_job(people.unplaceable(2, name="two"), place=pair)
    rack = f"placer=gate workers=4 size=2 unit=example.com/rack index=labels/{INDEX}"
    racked = people.marked_job(people.unplaceable(name="rack"), place=rack)
    assert_done(tries(ada, together(right, ranks, two, racked), "create", "--dry-run=server"))

    wrong = [
        *(
            {"place": PLACED["place"].replace(old, new)}
            for old, new in (
                ("workers=4", "workers=96"),
                ("workers=4", "workers=5"),
                ("size=4", "size=0"),
                ("size=4", "size=1"),  # one device would close an UltraServer
                ("size=4", "size=8"),  # one worker with one device would have an UltraServer
                (INDEX, "team"),
                ("gate", "me"),
            )
        ),
        {"job": "team-b.victim"},
    ]
    for role in ("Launcher", "Worker"):
        forged = [people.marked_job(people.unplaceable(), role, **PLACED | each) for each in wrong]
        refused = people.refused_marks(ada, forged)
        for each in wrong:
            key = next(iter(each)).replace("_", "-")
            assert f"{role}.template.metadata.annotations[{keys.PREFIX}{key}] sets" in refused
        assert "is not what the webhook computes for a job of this size" in refused


def test_placement_annotations_of_jobs_that_the_webhook_is_not_sent_are_denied(
    ada: Kubectl, plain_namespace: Kubectl
) -> None:
    def forged(**metadata: object) -> list[Object]:
        gated = people.marked_job(people.unplaceable(**metadata), "Launcher", gate=True)
        return [people.marked_job(people.unplaceable(**metadata), **PLACED), gated]

    assert "does not compute it" in people.refused_marks(plain_namespace.acting_as(people.ADA), forged())
    opted_out = [
        *forged(annotations={keys.INJECT: "false"}),
        *forged(annotations={keys.INJECT: "disabled"}),
        *forged(labels={keys.INJECT: "false"}),
    ]
    refused = people.refused_marks(ada, opted_out)
    assert "does not compute it" in refused
    assert f"Launcher.template.spec.schedulingGates[{GATE}] sets" in refused
    apart = people.unplaceable(annotations={keys.INJECT: "false"})
    assert_done(tries(ada, apart, "create", "--dry-run=server"))


def test_what_places_a_suspended_jobs_pods_changes_with_its_size_only(ada: Kubectl) -> None:
    text = f"{TEMPLATE}.metadata.annotations[{PLACE}] sets how the pods are placed"
    job = people.marked_job(people.unplaceable(), gate=True, **PLACED)
    job["spec"]["runPolicy"] = {"suspend": True}
    assert tries(ada, job).returncode == 0

    def asked(workers: str) -> Object:
        place = PLACED["place"].replace("workers=4", f"workers={workers}")
        return merged("Worker", {"annotations": {PLACE: place}})

    assert_refused(patches(ada, "mpijob/train", asked("8")), text, "would change")
    assert_refused(patches(ada, "mpijob/train", resized_too(asked("96"), 8)), text)
    assert patches(ada, "mpijob/train", resized_too(asked("8"), 8)).returncode == 0
    assert_done(ada.run("annotate", "mpijob", "train", f"{keys.INJECT}=false"))
    assert_refused(patches(ada, "mpijob/train", resized_too(asked("4"), 4)), text)
    # Without the gate its workers have nodes before those that wait, and keep other jobs off by the label.
    ungated = resized_too(merged("Worker", {}), 4)
    ungated["spec"]["mpiReplicaSpecs"]["Worker"]["template"]["spec"] = {"schedulingGates": None}
    assert_refused(patches(ada, "mpijob/train", ungated), f"schedulingGates[{GATE}] sets", "would change")
    assert_done(patches(ada, "mpijob/train", resized_too(merged("Worker", {}), 4)))
