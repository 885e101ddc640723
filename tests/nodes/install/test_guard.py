"""The guard, installed and taken away by the commands of the document."""

from __future__ import annotations

from typing import TYPE_CHECKING

from testbed.plane.jobs import text
from testbed.waiting import until
from tests.nodes.install.installation import INSTALL
from tests.plane.guard.people import WORKER

if TYPE_CHECKING:
    from tests.nodes.install.installation import Installation

POLICY = "ultraserver-webhook-guard-pods"


def test_the_guard_is_installed_beside_the_webhook_and_taken_away_again(installed: Installation) -> None:
    installed.team.run("create", "rolebinding", "guard-edit", "--clusterrole=edit", "--user=somebody")
    person = installed.team.acting_as("somebody", "system:authenticated")

    def refused() -> bool:
        done = person.run("create", "--dry-run=server", "-f", "-", stdin=text(WORKER), check=False)
        return POLICY in done.stderr and done.returncode == 1

    installed.run(INSTALL, "The guard")
    until(refused, f"{POLICY} to refuse a worker", every=0.5)
    installed.wait_places()
    installed.run(INSTALL, "Remove the guard")
    until(lambda: not refused(), f"{POLICY} to refuse nothing", every=0.5)
    installed.team.run("delete", "rolebinding", "guard-edit")
