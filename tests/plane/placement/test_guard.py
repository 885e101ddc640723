"""Whole-job admission beside the guard: what the webhook, the operator and the program do passes it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from contract.keys import PLACE
from testbed.experiment.stage import TEAMS
from testbed.plane.jobs import template
from tests.plane.guard import people
from tests.plane.guard.people import patches

if TYPE_CHECKING:
    from collections.abc import Iterator

    from testbed.experiment.stage import Stage
    from testbed.plane.kubectl import Kubectl


@pytest.fixture
def ada(stage: Stage) -> Iterator[Kubectl]:
    """Kubectl of an ordinary editor, with the guard installed."""
    inside = stage.plane.kubectl.in_namespace(TEAMS[0])
    with people.guarding(stage.plane.kubectl, inside, people.WORKER, people.plain_job(people.GATES)):
        yield inside.acting_as(people.ADA)


def test_jobs_are_placed_beside_the_guard_and_a_suspended_one_is_resized(stage: Stage, ada: Kubectl) -> None:
    ranks = stage.apply("ranks", 3, runLauncherAsWorker=True)
    train = stage.apply("train", 4, runPolicy={"suspend": True})
    resized = patches(ada, "mpijob/train", {"spec": {"mpiReplicaSpecs": {"Worker": {"replicas": 8}}}})
    assert resized.returncode == 0, resized.stderr
    said = template(ada.get_json("mpijob", "train"), "Worker")["metadata"]["annotations"][PLACE]
    assert said.startswith("placer=gate workers=8 ")
    stage.jobs[train] = 8
    assert patches(ada, "mpijob/train", {"spec": {"runPolicy": {"suspend": False}}}).returncode == 0
    stage.start_program()
    stage.wait(lambda found: found[train].whole and found[ranks].placed)
