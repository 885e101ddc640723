"""Which of the kinds run beside the guard: it asks who makes what has a job label."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.cluster import webhook
from tests.cluster.guard import people
from tests.cluster.jobs import text
from tests.cluster.kinds import operators
from tests.cluster.kinds.test_kinds import job, jobset
from tests.waiting import until
from webhook.engine import keys

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.cluster.controlplane import ControlPlane
    from tests.cluster.kubectl import Kubectl

GUARD = webhook.REPOSITORY / "manifests" / "components" / "guard"
BINDING = {
    "apiVersion": "rbac.authorization.k8s.io/v1",
    "kind": "ClusterRoleBinding",
    "metadata": {"name": "jobset-is-an-operator"},
    "roleRef": {
        "apiGroup": "rbac.authorization.k8s.io",
        "kind": "ClusterRole",
        "name": "ultraserver-webhook-operator",
    },
    "subjects": [
        {"kind": "ServiceAccount", "name": "jobset-controller-manager", "namespace": "jobset-system"}
    ],
}


@pytest.fixture(scope="module")
def guarded(plane: ControlPlane) -> Iterator[Kubectl]:
    """Kubectl of an administrator, with the guard installed."""
    kubectl = plane.kubectl
    people.give_rights(kubectl)
    kubectl.run("apply", "-k", str(GUARD))
    pod = {"spec": {"containers": [{"name": "x", "image": "x"}]}, "apiVersion": "v1", "kind": "Pod"}
    forged = text({**pod, "metadata": {"name": "x", "labels": {keys.JOB: "a.b"}}})
    anybody = kubectl.in_namespace("default").acting_as(people.ADA)

    def refuses() -> bool:
        done = anybody.run("create", "--dry-run=server", "-f", "-", stdin=forged, check=False)
        return "ValidatingAdmissionPolicy" in done.stderr

    until(refuses)
    yield kubectl
    kubectl.run("delete", "-k", str(GUARD))
    people.take_rights(kubectl)


@pytest.mark.usefixtures("guarded")
def test_a_job_runs_beside_the_guard(namespace: Kubectl) -> None:
    namespace.create(job(4))
    operators.wait_count(namespace, 4)


def test_a_jobset_runs_beside_the_guard_once_its_controller_is_bound(
    namespace: Kubectl, plane: ControlPlane, guarded: Kubectl
) -> None:
    namespace.create(jobset(2, 2))
    # JobSet makes no event of it.
    log = plane.programs.logs / "jobset.log"
    until(lambda: "ultraserver-webhook-guard-jobs" in log.read_text(encoding="utf-8"))
    assert not namespace.get_json("jobs")["items"]
    guarded.create(BINDING)
    try:
        operators.wait_count(namespace, 4)
    finally:
        guarded.run("delete", "clusterrolebinding", BINDING["metadata"]["name"])
