"""Tests that Helm takes over an installation by kubectl, upgrades it and rolls it back, under a load."""

import pytest

from testbed import chart
from testbed.nodes import story
from testbed.plane.kubectl import Object
from testbed.plane.load import steady_load
from testbed.waiting import until
from tests.nodes.install.installation import INSTALL, NAMESPACE, TEAM, Installation

PROGRAMS = ("ultraserver-webhook-certs", "ultraserver-webhook", "ultraserver-placement")


@pytest.mark.limit(
    150, "a new installation, and three rollouts of Pods that wait ten seconds before they end"
)
def test_helm_takes_over_upgrades_and_rolls_back_without_a_lost_create(installed: Installation) -> None:
    def is_gone(obj: Object) -> bool:
        return NAMESPACE not in [item["metadata"]["name"] for item in obj["items"]]

    installed.run(INSTALL, "Uninstall")
    installed.kubectl.wait_for(is_gone, "namespaces")
    installed.kubectl.run("apply", "-f", "-", stdin=chart.render())
    installed.wait_until_jobs_are_placed()
    # The certificate program writes one configuration after the other.
    bundles = installed.ca_bundles
    before = until(lambda: "" not in (now := bundles()) and now, "a caBundle in both configurations")
    with steady_load(installed.control_plane.kubeconfig, TEAM) as load:
        load.wait_for_creates(5)
        for heading in (
            "Without Helm",
            "Move from kubectl to Helm",
            "See whom the guard would refuse",
            "Roll back",
        ):
            installed.run(INSTALL, heading)
            for name in PROGRAMS:
                story.wait_for_rollout(installed.own, name)
            load.wait_for_creates(5)
    assert load.lost_creates == []
    assert installed.ca_bundles() == before
    installed.wait_until_jobs_are_placed()
