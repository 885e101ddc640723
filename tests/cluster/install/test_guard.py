"""The guard, installed and taken away by the commands of the document."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from tests.cluster.guard.people import WORKER
from tests.waiting import until

if TYPE_CHECKING:
    from tests.cluster.install.installation import Installation

INSTALL = "docs/install.md"
PERSON = ("--as=somebody", "--as-group=system:authenticated")


def test_the_guard_is_installed_beside_the_webhook_and_taken_away_again(installed: Installation) -> None:
    binding = ("create", "rolebinding", "guard-edit", "--clusterrole=edit", "--user=somebody")
    installed.team.run(*binding)

    def refused() -> bool:
        create = ("create", "--dry-run=server", "-f", "-")
        done = installed.team.run(*PERSON, *create, stdin=json.dumps(WORKER), check=False)
        return "ultraserver-webhook-guard-pods" in done.stderr and done.returncode == 1

    installed.run(INSTALL, "The guard")
    until(refused)
    until(installed.places)
    installed.run(INSTALL, "Remove the guard")
    until(lambda: not refused())
    installed.team.run("delete", "rolebinding", "guard-edit")
