"""Tests that a preview adds to its Pods what the webhook adds to the Pods of the real mpi-operator."""

import pytest

from testbed.mpijob import mpijob
from testbed.plane.kubectl import Kubectl
from tests.plane.previewed import SIZES, assert_as_previewed, blocks, pods_of

pytestmark = pytest.mark.usefixtures("registered_webhook")


@pytest.mark.parametrize("launcher", ["waits", "runs ranks"])
def test_a_preview_shows_what_the_pods_of_the_operator_get(launcher: str, namespace: Kubectl) -> None:
    ranks = launcher == "runs ranks"
    for size in SIZES[ranks:]:
        job = mpijob(size - ranks, name=f"of-{size}")
        job["spec"]["runLauncherAsWorker"] = ranks
        namespace.create(job)
        pods = pods_of(namespace, f"of-{size}", size + (not ranks))
        assert_as_previewed(namespace, job, pods)
        assert blocks(pods) == ({"0", "1"} if size == 8 else set())
