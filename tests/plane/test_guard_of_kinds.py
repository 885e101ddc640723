"""Tests of the guard for a kind that an installation adds, as in the guide docs/kinds.md."""

from collections.abc import Iterator

import pytest

from testbed.plane.controlplane import ControlPlane
from testbed.plane.jobs import list_object
from testbed.plane.kubectl import Kubectl
from tests.plane.guard import people
from tests.plane.kinds.jobs import labelled_set

NAME = "statefulsets-guard"


@pytest.fixture
def ada(control_plane: ControlPlane, helm: None) -> Iterator[Kubectl]:
    """Kubectl of a user who may create StatefulSets, which the guard covers by the value ``kinds``."""
    del helm
    admin = control_plane.kubectl
    inside = admin.create_namespace(NAME)
    admin.run("create", "clusterrole", NAME, "--verb=create", "--resource=statefulsets.apps")
    admin.run("create", "clusterrolebinding", NAME, f"--clusterrole={NAME}", f"--user={people.ADA}")
    with people.guarding(
        admin, inside, labelled_set("another.job"), values={"kinds": ["statefulsets.v1.apps"]}
    ):
        yield inside.acting_as(people.ADA)
    for kind in ("clusterrolebinding", "clusterrole"):
        admin.delete(kind, NAME)


def test_a_statefulset_may_have_only_the_job_label_that_the_webhook_computes(ada: Kubectl) -> None:
    own = labelled_set(f"{NAME}.train_StatefulSet.apps")
    people.assert_done(people.send(ada, own, "create", "--dry-run=server"))
    forged = people.send(ada, list_object(labelled_set("team-b.train")), "create", "--dry-run=server")
    people.assert_refused(forged, f"is not what the webhook computes for {NAME}.train_StatefulSet.apps")
