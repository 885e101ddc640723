"""The guard of an installation: it refuses, warns, or is taken away by the commands of the document."""

from testbed.plane.jobs import text
from testbed.waiting import until
from tests.nodes.install.installation import INSTALL, Installation
from tests.plane.guard.people import WORKER

POLICY = "ultraserver-webhook-guard-pods"


def test_the_guard_is_installed_warns_if_configured_and_is_removed(installed: Installation) -> None:
    installed.team.run("create", "rolebinding", "guard-edit", "--clusterrole=edit", "--user=person")
    person = installed.team.acting_as("person", "system:authenticated")

    def result() -> tuple[bool, bool]:
        """Returns whether a worker is refused, and whether the policy warns."""
        done = person.run("create", "--dry-run=server", "-f", "-", stdin=text(WORKER), check=False)
        return done.returncode == 1, POLICY in done.stderr

    def wait(refused: bool, warned: bool) -> None:  # noqa: FBT001
        until(
            lambda: result() == (refused, warned),
            f"{POLICY} to refuse: {refused}, to warn: {warned}",
            every=0.5,
        )

    assert installed.run(INSTALL, "The guard") == "bound: true\n"
    assert result() == (True, True)
    installed.run(INSTALL, "Bind another operator")
    installed.run(INSTALL, "Remove the guard")
    wait(refused=False, warned=False)
    installed.wait_places()
    installed.run(INSTALL, "See whom the guard would refuse")
    wait(refused=False, warned=True)
    installed.reset()
    wait(refused=True, warned=True)
    installed.team.run("delete", "rolebinding", "guard-edit")
    installed.kubectl.delete("clusterrolebinding", "our-mpi-operator")
