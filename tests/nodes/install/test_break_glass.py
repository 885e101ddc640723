"""The server is down, or in the way: what happens to jobs, and that the documented ways out are ways out."""

from collections.abc import Iterator

import pytest

from testbed.mpijob import mpijob
from testbed.plane.kubectl import KubectlError, Object
from tests.nodes.install.installation import MUTATING, NAMESPACE, OPERATIONS, Installation
from tests.nodes.replicas import put_table

IN_VAIN = "failed calling webhook"
WITHOUT = "Warning: the object was created without the changes of ultraserver-webhook: "
DENIED = 'admission webhook "verify.ultraserver-webhook.io" denied the request: '
LAUNCHER = {"operator-name": "mpi-operator", "job-role": "launcher"}
WAYS_OUT = ("Remove the registration", "Fail open", "Bypass the webhook for one namespace")


def launcher(annotations: dict[str, str]) -> Object:
    """Returns the Pod of a launcher, as mpi-operator labels it."""
    labels = {f"training.kubeflow.org/{key}": value for key, value in LAUNCHER.items()}
    containers = [{"name": "any", "image": "example.invalid/any"}]
    metadata = {"name": "any", "labels": labels, "annotations": annotations}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": containers}}


@pytest.fixture
def restored(installed: Installation) -> Iterator[Installation]:
    """An installation that is as it was afterwards."""
    yield installed
    installed.run(OPERATIONS, "Restore")
    installed.reset()
    installed.wait_places()


def test_with_a_webhook_that_is_down_jobs_are_created_unchanged_with_a_warning(
    restored: Installation,
) -> None:
    with restored.server_down():
        restored.wait_dry_run(placed=False, message="")
    restored.wait_places()
    restored.kubectl.run("delete", *MUTATING)
    restored.wait_dry_run(placed=False, message=WITHOUT)


def test_where_it_fails_closed_only_jobs_of_people_are_refused_and_every_way_out_lets_them_through(
    restored: Installation,
) -> None:
    restored.run(OPERATIONS, "Fail closed")
    restored.wait_places()
    with restored.server_down():
        restored.wait_dry_run(placed=False, message=IN_VAIN)
        for namespace in ("kube-system", "kube-public", "kube-node-lease", NAMESPACE):
            assert restored.dry_run(namespace) == (False, "")
        # Everything that a recovery needs, the table of the kill switch among it.
        text = "apiVersion: ultraserver-webhook.io/v1alpha2\nkind: RuleTable\nextends: default\n"
        assert put_table(restored.own, text + "# changed\n") == ""
        # Other people's launchers do not depend on the webhook, those of jobs that it has added to do.
        restored.team.create(launcher({}), "--dry-run=server")
        with pytest.raises(KubectlError, match=IN_VAIN):
            restored.team.create(launcher({"ultraserver-webhook.io/added": "{}"}), "--dry-run=server")
        job = mpijob(4, annotations={"ultraserver-webhook.io/inject": "false"})
        assert restored.dry_run(job=job) == (False, "")
        for way in WAYS_OUT:
            restored.run(OPERATIONS, way)
            restored.wait_dry_run(placed=False, message="")
            restored.run(OPERATIONS, "Fail closed")
            if way != WAYS_OUT[-1]:
                restored.wait_dry_run(placed=False, message=IN_VAIN)
    restored.run(OPERATIONS, "Restore")
    restored.run(OPERATIONS, "Fail closed")
    restored.wait_places()
    restored.kubectl.run("delete", *MUTATING)
    restored.wait_dry_run(placed=False, message=DENIED)
