"""Tests that the installed guard refuses, that it warns if configured, and that it can be removed."""

from testbed.plane.jobs import to_json
from testbed.waiting import until
from tests.nodes.install.installation import INSTALL, Installation
from tests.plane.guard.people import WORKER

POLICY = "ultraserver-webhook-guard-pods"


def test_the_guard_is_installed_warns_if_configured_and_is_removed(installed: Installation) -> None:
    installed.team.run("create", "rolebinding", "guard-edit", "--clusterrole=edit", "--user=person")
    person = installed.team.acting_as("person", "system:authenticated")

    def create_worker() -> tuple[bool, bool]:
        """Returns whether a user's worker Pod is refused, and whether kubectl names the policy."""
        output = person.run("create", "--dry-run=server", "-f", "-", stdin=to_json(WORKER), check=False)
        return output.returncode == 1, POLICY in output.stderr

    def wait(refused: bool, named: bool) -> None:  # noqa: FBT001
        until(
            lambda: create_worker() == (refused, named),
            f"a worker that is refused: {refused}, a message of {POLICY}: {named}",
            every=0.5,
        )

    assert installed.run(INSTALL, "The guard") == "bound: true\n"
    assert create_worker() == (True, True)
    installed.run(INSTALL, "Bind another operator")
    installed.run(INSTALL, "Remove the guard")
    wait(refused=False, named=False)
    installed.wait_until_jobs_are_placed()
    installed.run(INSTALL, "See whom the guard would refuse")
    wait(refused=False, named=True)
    installed.reset()
    wait(refused=True, named=True)
    installed.team.run("delete", "rolebinding", "guard-edit")
    installed.kubectl.delete("clusterrolebinding", "our-mpi-operator")
