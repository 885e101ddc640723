"""Which of the kinds run beside the guard: it asks who makes what has a job label."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from testbed.waiting import until
from tests.plane.bound import wait_count
from tests.plane.guard import people
from tests.plane.kinds.jobs import job, jobset

if TYPE_CHECKING:
    from collections.abc import Iterator

    from testbed.plane.controlplane import ControlPlane
    from testbed.plane.kubectl import Kubectl

OPERATOR = "ultraserver-webhook-operator"


@pytest.fixture(scope="module")
def guarded(plane: ControlPlane) -> Iterator[Kubectl]:
    """Kubectl of an administrator, with the guard installed."""
    with people.guarding(plane.kubectl, plane.kubectl.in_namespace("default"), people.WORKER):
        yield plane.kubectl


@pytest.mark.usefixtures("guarded")
def test_a_job_runs_beside_the_guard(namespace: Kubectl) -> None:
    namespace.create(job(4))
    wait_count(namespace, 4)


def test_a_jobset_runs_beside_the_guard_once_its_controller_is_bound(
    namespace: Kubectl, plane: ControlPlane, guarded: Kubectl
) -> None:
    namespace.create(jobset(2, 2))
    # JobSet makes no event of it.
    log = plane.programs.logs / "jobset.log"
    until(
        lambda: "ultraserver-webhook-guard-jobs" in log.read_text(encoding="utf-8"),
        "the guard's name in JobSet's log",
    )
    assert not namespace.get_json("jobs")["items"]
    binding = "jobset-is-an-operator"
    account = "--serviceaccount=jobset-system:jobset-controller-manager"
    guarded.run("create", "clusterrolebinding", binding, f"--clusterrole={OPERATOR}", account)
    try:
        wait_count(namespace, 4)
    finally:
        guarded.delete("clusterrolebinding", binding)
