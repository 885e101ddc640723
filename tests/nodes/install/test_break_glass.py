"""Tests of new jobs while the webhook is down or refuses them, and of the documented remedies."""

from collections.abc import Iterator

import pytest

from testbed.mpijob import mpijob
from testbed.plane.kubectl import KubectlError, Object
from tests.nodes.install.installation import MUTATING, NAMESPACE, OPERATIONS, Installation
from tests.nodes.replicas import put_table

CALL_FAILED = "failed calling webhook"
UNCHANGED = "Warning: the object was created without the changes of ultraserver-webhook: "
DENIED = 'admission webhook "verify.ultraserver-webhook.io" denied the request: '
LAUNCHER_LABELS = {"operator-name": "mpi-operator", "job-role": "launcher"}
REMEDIES = ("Remove the registration", "Fail open", "Bypass the webhook for one namespace")
"""Headings of commands after which the API server accepts jobs again."""


def launcher_pod(annotations: dict[str, str]) -> Object:
    """Returns the Pod of a launcher, with the labels that mpi-operator writes."""
    labels = {f"training.kubeflow.org/{key}": value for key, value in LAUNCHER_LABELS.items()}
    containers = [{"name": "any", "image": "example.invalid/any"}]
    metadata = {"name": "any", "labels": labels, "annotations": annotations}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": containers}}


@pytest.fixture
def restored(installed: Installation) -> Iterator[Installation]:
    """An installation that is restored after the test."""
    yield installed
    installed.run(OPERATIONS, "Restore")
    installed.reset()
    installed.wait_until_jobs_are_placed()


def test_jobs_are_created_unchanged_without_replicas_or_without_the_configuration(
    restored: Installation,
) -> None:
    with restored.without_replicas():
        restored.wait_dry_run(placed=False, message="")
    restored.wait_until_jobs_are_placed()
    restored.kubectl.run("delete", *MUTATING)
    restored.wait_dry_run(placed=False, message=UNCHANGED)


def test_a_webhook_that_fails_closed_refuses_only_jobs_and_every_remedy_ends_this(
    restored: Installation,
) -> None:
    restored.run(OPERATIONS, "Fail closed")
    restored.wait_until_jobs_are_placed()
    with restored.without_replicas():
        restored.wait_dry_run(placed=False, message=CALL_FAILED)
        for namespace in ("kube-system", "kube-public", "kube-node-lease", NAMESPACE):
            assert restored.dry_run(namespace) == (False, "")
        # An administrator can still change the rule table, for example with the kill switch.
        text = "apiVersion: ultraserver-webhook.io/v1alpha2\nkind: RuleTable\nextends: default\n"
        assert put_table(restored.own, text + "# changed\n") == ""
        # A launcher depends on the webhook only if the webhook has changed its job.
        restored.team.create(launcher_pod({}), "--dry-run=server")
        with pytest.raises(KubectlError, match=CALL_FAILED):
            restored.team.create(launcher_pod({"ultraserver-webhook.io/added": "{}"}), "--dry-run=server")
        job = mpijob(4, annotations={"ultraserver-webhook.io/inject": "false"})
        assert restored.dry_run(job=job) == (False, "")
        for remedy in REMEDIES:
            restored.run(OPERATIONS, remedy)
            restored.wait_dry_run(placed=False, message="")
            restored.run(OPERATIONS, "Fail closed")
            if remedy != REMEDIES[-1]:
                restored.wait_dry_run(placed=False, message=CALL_FAILED)
    restored.run(OPERATIONS, "Restore")
    restored.run(OPERATIONS, "Fail closed")
    restored.wait_until_jobs_are_placed()
    restored.kubectl.run("delete", *MUTATING)
    restored.wait_dry_run(placed=False, message=DENIED)
