"""The Pods of a preview are those of the real mpi-operator, in all that the webhook adds to them."""

import pytest

from testbed.mpijob import mpijob
from testbed.plane.kubectl import Kubectl
from tests.plane.previewed import SIZES, are_as_previewed, blocks, pods_of

pytestmark = pytest.mark.usefixtures("registered_webhook")


@pytest.mark.parametrize("launcher", ["waits", "runs ranks"])
def test_the_pods_of_a_preview_get_what_those_of_the_operator_get(launcher: str, namespace: Kubectl) -> None:
    ranks = launcher == "runs ranks"
    for size in SIZES[ranks:]:
        made = mpijob(size - ranks, name=f"of-{size}")
        made["spec"]["runLauncherAsWorker"] = ranks
        namespace.create(made)
        pods = pods_of(namespace, f"of-{size}", size + (not ranks))
        are_as_previewed(namespace, made, pods)
        assert blocks(pods) == ({"0", "1"} if size == 8 else set())
