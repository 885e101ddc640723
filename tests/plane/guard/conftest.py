"""Installs the guard on the session's control plane while the tests of this folder run."""

from collections.abc import Iterator

import pytest

from contract import keys
from testbed.plane import jobs
from testbed.plane.controlplane import ControlPlane
from testbed.plane.kubectl import Kubectl
from testbed.plane.webhook import RunningWebhook
from tests.plane.guard import people


@pytest.fixture(scope="package")
def guarded(control_plane: ControlPlane, registered_webhook: RunningWebhook, helm: None) -> Iterator[Kubectl]:
    """Kubectl of an administrator, with webhook and guard installed."""
    del registered_webhook, helm
    kubectl = control_plane.kubectl
    probe = kubectl.create_namespace("guard-probe", {keys.INJECT: "disabled"})
    with people.guarding(kubectl, probe):
        yield kubectl


@pytest.fixture
def ada(guarded: Kubectl, namespace: Kubectl) -> Kubectl:
    """Kubectl of a user who may edit everything in a new namespace, but has no rights on the guard."""
    del guarded
    return namespace.acting_as(people.ADA)


@pytest.fixture(scope="package")
def running_job(guarded: Kubectl, control_plane: ControlPlane) -> Iterator[Kubectl]:
    """Kubectl of a user whose job ``train`` of four workers has started. No kubelet runs its Pods."""
    del guarded
    with jobs.temporary_namespace(control_plane, "guard-running") as inside:
        ada = inside.acting_as(people.ADA)
        ada.apply(people.unschedulable_job())
        inside.wait_for(lambda obj: len(jobs.workers_of(obj["items"])) == 4, "pods")
        inside.wait_for(people.is_started, "mpijob", "train")
        yield ada
