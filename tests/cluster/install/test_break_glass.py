"""The server is down, or in the way: what happens to jobs, and that the documented ways out are ways out."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.cluster.install.installation import MUTATING, NAMESPACE
from tests.cluster.kubectl import KubectlError
from tests.cluster.realnodes.replicas import put_table
from tests.helpers import mpijob
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.cluster.install.installation import Installation
    from tests.cluster.kubectl import Object

OPERATIONS = "docs/operations.md"
IN_VAIN = "failed calling webhook"
LAUNCHER = {"operator-name": "mpi-operator", "job-role": "launcher"}
WAYS_OUT = (
    "Remove the registration",
    "Fail open",
    "Bypass it for one namespace",
)


def launcher(annotations: dict[str, str]) -> Object:
    """The Pod of a launcher, as mpi-operator labels it."""
    labels = {f"training.kubeflow.org/{key}": value for key, value in LAUNCHER.items()}
    containers = [{"name": "any", "image": "example.invalid/any"}]
    metadata = {"name": "any", "labels": labels, "annotations": annotations}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": containers}}


@pytest.fixture(scope="module")
def fails_closed(installed: Installation) -> Iterator[Installation]:
    """The overlay ``failclosed``, and afterwards what was there before."""
    installed.run(OPERATIONS, "Fail closed")
    until(installed.places)
    yield installed
    installed.run(OPERATIONS, "Restore")
    until(installed.places)


def test_with_ignore_and_no_server_jobs_pass_as_they_are_and_in_silence(installed: Installation) -> None:
    with installed.server_down():
        assert installed.dry_run() == (False, "")
    until(installed.places)


def test_a_job_that_was_not_mutated_is_warned_about(installed: Installation) -> None:
    installed.kubectl.run("delete", *MUTATING)
    until(lambda: installed.dry_run()[0] is False)
    placed, said = installed.dry_run()
    assert not placed
    assert said.startswith("Warning: admitted without what ultraserver-webhook does to it: ")
    installed.run(OPERATIONS, "Restore")
    until(installed.places)


def test_with_fail_and_no_server_only_jobs_of_people_are_refused(fails_closed: Installation) -> None:
    installed = fails_closed
    with installed.server_down():
        until(lambda: IN_VAIN in installed.dry_run()[1])
        for namespace in ("kube-system", "kube-public", "kube-node-lease", NAMESPACE):
            assert installed.dry_run(installed.kubectl.in_namespace(namespace)) == (False, "")
        # Everything that a recovery needs, the table of the kill switch among it.
        text = "apiVersion: ultraserver-webhook.io/v1alpha1\nkind: RuleTable\nextends: default\n"
        assert put_table(installed.own, text + "# changed\n") == ""
        # Other people's launchers do not depend on the webhook, those of jobs that it has added to do.
        installed.team.create(launcher({}), "--dry-run=server")
        with pytest.raises(KubectlError, match=IN_VAIN):
            installed.team.create(launcher({"ultraserver-webhook.io/added": "{}"}), "--dry-run=server")
        job = mpijob(4, annotations={"ultraserver-webhook.io/inject": "false"})
        assert installed.dry_run(job=job) == (False, "")


def test_every_way_out_lets_jobs_through_and_the_way_back_leads_back(fails_closed: Installation) -> None:
    with fails_closed.server_down():
        for way in WAYS_OUT:
            until(lambda: IN_VAIN in fails_closed.dry_run()[1])
            fails_closed.run(OPERATIONS, way)
            until(lambda: fails_closed.dry_run() == (False, ""))
            fails_closed.run(OPERATIONS, "Fail closed")
    fails_closed.run(OPERATIONS, "Restore")
    fails_closed.run(OPERATIONS, "Fail closed")
    until(fails_closed.places)


def test_where_it_fails_closed_a_job_that_was_not_mutated_is_refused(fails_closed: Installation) -> None:
    fails_closed.kubectl.run("delete", *MUTATING)
    until(lambda: "came without what ultraserver-webhook does to it" in fails_closed.dry_run()[1])
    assert 'admission webhook "verify.ultraserver-webhook.io" denied the request' in fails_closed.dry_run()[1]
    fails_closed.run(OPERATIONS, "Fail closed")
    until(fails_closed.places)
