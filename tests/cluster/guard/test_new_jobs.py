"""Creating a job: where the webhook is not asked, the label must be the one that it would have computed."""

from __future__ import annotations

import contextlib
import json
from typing import TYPE_CHECKING

import pytest

from tests.cluster import webhook
from tests.cluster.guard import people
from tests.cluster.guard.people import assert_done, assert_refused, patches, tries
from tests.cluster.jobs import template
from tests.waiting import until
from webhook.engine import keys

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.cluster.kubectl import Kubectl

DIGITS = "0123456789abcdef0123"


@contextlib.contextmanager
def not_asked(admin: Kubectl, inside: Kubectl) -> Iterator[None]:
    """Nobody asks the webhook about new jobs, as if it were down with ``failurePolicy: Ignore``."""
    configuration = f"mutatingwebhookconfiguration/{webhook.NAME}"
    place = "/webhooks/0/namespaceSelector/matchLabels"
    narrow = [{"op": "add", "path": place, "value": {"asked": "nowhere"}}]
    assert patches(admin, configuration, narrow).returncode == 0
    try:
        until(lambda: "nodeSelector" not in placed(inside))
        yield
    finally:
        assert patches(admin, configuration, [{"op": "remove", "path": place}]).returncode == 0
        until(lambda: "affinity" in placed(inside))


def placed(inside: Kubectl) -> dict[str, object]:
    job = people.mpijob(4)
    found: dict[str, object] = template(inside.create(job, "--dry-run=server"), "Worker")["spec"]
    return found


def test_where_the_webhook_is_not_asked_a_job_can_only_say_that_it_is_itself(
    ada: Kubectl, namespace: Kubectl, guarded: Kubectl
) -> None:
    here = ada.namespace
    generated = {"name": None, "generateName": "train-"}
    with not_asked(guarded, namespace):
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
                done,
                "Worker.template.metadata.labels[ultraserver-webhook.io/job]",
                "not the value of this job",
            )
        for label, metadata in (
            (f"{here}.train", {}),
            (f"{here[:32]}.train_{DIGITS}"[:63] if len(here) < 32 else f"{here[:40]}_{DIGITS}", generated),
        ):
            assert_done(tries(ada, people.labelled_job(label, **metadata), "create", "--dry-run=server"))


@pytest.mark.parametrize(
    "name",
    ["train", "a-name-that-is-so-long-that-the-label-has-no-room-for-it-and-is-hashed", None],
    ids=["named", "long", "generated"],
)
def test_what_the_webhook_computes_is_let_through(name: str | None, ada: Kubectl) -> None:
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
        assert_refused(refused, "Worker.template.metadata.labels", "opted out", "Take it out of the file.")
    recorded = people.unplaceable()
    template(recorded, "Launcher")["metadata"] = {"annotations": {keys.ADDED: "{}"}}
    refused = tries(ada, recorded, "create", "--dry-run=server")
    assert_refused(refused, "Launcher.template.metadata.annotations", "opted out", "Take it out of the file.")


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
    assert_refused(patches(ada, "mpijob/train", patch), "says who the job is")
