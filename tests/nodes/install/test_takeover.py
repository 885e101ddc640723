"""Helm takes over what kubectl installed, upgrades and rolls back, under a load."""

import pytest

from testbed import chart
from testbed.nodes import story
from testbed.plane.kubectl import Object
from testbed.plane.load import jobs_keep_coming
from testbed.waiting import until
from tests.nodes.install.installation import INSTALL, NAMESPACE, TEAM, Installation

PROGRAMS = ("ultraserver-webhook-certs", "ultraserver-webhook", "ultraserver-placement")


@pytest.mark.limit(
    150, "a new installation, and three rollouts of Pods that wait ten seconds before they end"
)
def test_helm_takes_over_upgrades_and_rolls_back_without_a_lost_admission(installed: Installation) -> None:
    def removed_paths(obj: Object) -> bool:
        return NAMESPACE not in [each["metadata"]["name"] for each in obj["items"]]

    installed.run(INSTALL, "Uninstall")
    installed.kubectl.wait_for(removed_paths, "namespaces")
    installed.kubectl.run("apply", "-f", "-", stdin=chart.rendered())
    installed.wait_places()
    # The certificate program writes one configuration after the other.
    bundles = installed.bundles
    before = until(lambda: "" not in (now := bundles()) and now, "a caBundle in both configurations")
    with jobs_keep_coming(installed.control_plane.kubeconfig, TEAM) as load:
        load.more(5)
        for heading in (
            "Without Helm",
            "Move from kubectl to Helm",
            "See whom the guard would refuse",
            "Roll back",
        ):
            installed.run(INSTALL, heading)
            for name in PROGRAMS:
                story.wait_for_rollout(installed.own, name)
            load.more(5)
    assert load.lost == []
    assert installed.bundles() == before
    installed.wait_places()
