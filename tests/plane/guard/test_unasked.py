"""Tests of the guard while the webhook is not called: jobs may only have what the webhook would compute."""

from collections.abc import Iterator

import pytest

from contract import keys
from contract.keys import GATE, PLACEMENT, SERVER_2, SERVER_4
from testbed.plane.controlplane import ControlPlane
from testbed.plane.jobs import list_object, temporary_namespace
from testbed.plane.kubectl import Kubectl, Object
from tests.plane.guard import people
from tests.plane.guard.people import (
    assert_done,
    assert_refused,
    metadata_patch,
    send,
    send_patch,
    with_workers,
)

DIGITS = "0123456789abcdef0123"
INDEX = "training.kubeflow.org/replica-index"
TEMPLATE = "spec.mpiReplicaSpecs.Worker.template"
PLACED = {"place": f"placer=gate workers=4 size=4 unit={SERVER_4} index=labels/{INDEX}"}
"""The placement annotation that the rows of whole-job admission write for four workers."""


@pytest.fixture(scope="module", autouse=True)
def no_webhook(guarded: Kubectl, control_plane: ControlPlane) -> Iterator[None]:
    """Stops calls of the webhook while the tests of this module run."""
    with (
        temporary_namespace(control_plane, "guard-unasked") as inside,
        people.without_webhook(guarded, inside),
    ):
        yield


def test_without_the_webhook_a_job_may_only_have_its_own_job_label(ada: Kubectl) -> None:
    own = ada.namespace
    generated = {"name": None, "generateName": "train-"}
    for label, metadata in (
        ("team-b.train", {}),
        (f"{own}.other", {}),
        (f"{own}.train_{DIGITS}", {}),
        (f"team-b.train_{DIGITS}", generated),
        (f"{own}.other", generated),
        ("train", {}),
    ):
        done = send(ada, people.labelled_job(label, **metadata), "create", "--dry-run=server")
        assert_refused(
            done, "Worker.template.metadata.labels[ultraserver-webhook.io/job]", "not the value of this job"
        )
    for label, metadata in (
        (f"{own}.train", {}),
        (f"{own[:32]}.train_{DIGITS}"[:63] if len(own) < 32 else f"{own[:40]}_{DIGITS}", generated),
    ):
        assert_done(send(ada, people.labelled_job(label, **metadata), "create", "--dry-run=server"))


def test_without_the_webhook_a_placement_annotation_must_fit_the_number_of_workers(ada: Kubectl) -> None:
    ranks = people.marked_job(people.unschedulable_job(3, name="ranks"), **PLACED)
    ranks["spec"]["runLauncherAsWorker"] = True
    permitted = people.marked_job(people.unschedulable_job(), gate=True, **PLACED)
    people.marked_job(permitted, "Launcher", gate=True, job=f"{ada.namespace}.train")
    pair_placement = PLACED["place"].replace("=4", "=2").replace(SERVER_4, SERVER_2)
    pair = people.marked_job(people.unschedulable_job(2, name="two"), place=pair_placement)
    rack_placement = f"placer=gate workers=4 size=2 unit=example.com/rack index=labels/{INDEX}"
    rack = people.marked_job(people.unschedulable_job(name="rack"), place=rack_placement)
    assert_done(send(ada, list_object(permitted, ranks, pair, rack), "create", "--dry-run=server"))

    wrong_annotations = [
        *(
            {"place": PLACED["place"].replace(old, new)}
            for old, new in (
                ("workers=4", "workers=96"),
                ("workers=4", "workers=5"),
                ("size=4", "size=0"),
                ("size=4", "size=1"),  # one device would hold an UltraServer
                ("size=4", "size=8"),  # one worker with one device would hold an UltraServer
                (INDEX, "team"),
                ("gate", "me"),
            )
        ),
        {"job": "team-b.victim"},
    ]
    for role in ("Launcher", "Worker"):
        forged = [
            people.marked_job(people.unschedulable_job(), role, **PLACED | annotation)
            for annotation in wrong_annotations
        ]
        refused = people.assert_marks_refused(ada, forged)
        for annotation in wrong_annotations:
            key = next(iter(annotation)).replace("_", "-")
            assert f"{role}.template.metadata.annotations[{keys.PREFIX}{key}] sets" in refused
        assert "is not what the webhook computes for a job of this size" in refused


def test_placement_annotations_of_opted_out_jobs_are_refused(ada: Kubectl, plain_namespace: Kubectl) -> None:
    def forged(**metadata: object) -> list[Object]:
        gated = people.marked_job(people.unschedulable_job(**metadata), "Launcher", gate=True)
        return [people.marked_job(people.unschedulable_job(**metadata), **PLACED), gated]

    assert "does not compute it" in people.assert_marks_refused(
        plain_namespace.acting_as(people.ADA), forged()
    )
    opted_out = [
        *forged(annotations={keys.INJECT: "false"}),
        *forged(annotations={keys.INJECT: "disabled"}),
        *forged(labels={keys.INJECT: "false"}),
    ]
    refused = people.assert_marks_refused(ada, opted_out)
    assert "does not compute it" in refused
    assert f"Launcher.template.spec.schedulingGates[{GATE}] sets" in refused
    unmarked = people.unschedulable_job(annotations={keys.INJECT: "false"})
    assert_done(send(ada, unmarked, "create", "--dry-run=server"))


def test_the_placement_of_a_suspended_job_changes_only_with_the_number_of_workers(ada: Kubectl) -> None:
    text = f"{TEMPLATE}.metadata.annotations[{PLACEMENT}] sets how the pods are placed"
    job = people.marked_job(people.unschedulable_job(), gate=True, **PLACED)
    job["spec"]["runPolicy"] = {"suspend": True}
    assert send(ada, job).returncode == 0

    def placement_patch(workers: str) -> Object:
        placement = PLACED["place"].replace("workers=4", f"workers={workers}")
        return metadata_patch("Worker", {"annotations": {PLACEMENT: placement}})

    assert_refused(send_patch(ada, "mpijob/train", placement_patch("8")), text, "would change")
    assert_refused(send_patch(ada, "mpijob/train", with_workers(placement_patch("96"), 8)), text)
    assert send_patch(ada, "mpijob/train", with_workers(placement_patch("8"), 8)).returncode == 0
    assert_done(ada.run("annotate", "mpijob", "train", f"{keys.INJECT}=false"))
    assert_refused(send_patch(ada, "mpijob/train", with_workers(placement_patch("4"), 4)), text)
    # Without the gate, the workers would get nodes before waiting jobs, and keep other jobs off by the label.
    ungated = with_workers(metadata_patch("Worker", {}), 4)
    ungated["spec"]["mpiReplicaSpecs"]["Worker"]["template"]["spec"] = {"schedulingGates": None}
    assert_refused(send_patch(ada, "mpijob/train", ungated), f"schedulingGates[{GATE}] sets", "would change")
    assert_done(send_patch(ada, "mpijob/train", with_workers(metadata_patch("Worker", {}), 4)))
