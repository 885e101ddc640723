"""The guard on templates of a kind that an installation adds by the guide in docs/kinds.md."""

from collections.abc import Iterator

import pytest

from testbed.plane.controlplane import ControlPlane
from testbed.plane.jobs import together
from testbed.plane.kubectl import Kubectl
from tests.plane.guard import people
from tests.plane.kinds.jobs import labelled_set

NAME = "statefulsets-guard"


@pytest.fixture
def ada(control_plane: ControlPlane, helm: None) -> Iterator[Kubectl]:
    """A person who may create StatefulSets, under the guard of an installation to which they are sent."""
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


def test_a_statefulset_has_the_label_that_the_webhook_computes_for_it(ada: Kubectl) -> None:
    own = labelled_set(f"{NAME}.train_StatefulSet.apps")
    people.assert_done(people.tries(ada, own, "create", "--dry-run=server"))
    forged = people.tries(ada, together(labelled_set("team-b.train")), "create", "--dry-run=server")
    people.assert_refused(forged, f"is not what the webhook computes for {NAME}.train_StatefulSet.apps")
