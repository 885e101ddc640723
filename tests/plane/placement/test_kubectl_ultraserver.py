"""``kubectl ultraserver`` where the placement program places jobs, and where it does not run."""

from __future__ import annotations

from contract.keys import SERVER_4
from kube.api import leases
from testbed.experiment.stage import ACCOUNT, NAMESPACE, TEAMS, Stage
from testbed.plane.plugin import eventually, texts


def test_a_program_that_does_not_run_is_named(stage: Stage) -> None:
    inside = stage.plane.kubectl.in_namespace(TEAMS[0])
    stage.api.delete(f"{leases(NAMESPACE)}/{ACCOUNT}")
    stage.apply("waits", 4)
    found = eventually(inside, ["why", "waits"], lambda found: len(found["findings"]) == 2)
    about, silent = texts(found)
    assert about.startswith("program ultraserver-placement: would open the job onto ")
    assert silent.startswith("program ultraserver-placement: does not run: there is no Lease of it")
    stage.start_program()
    eventually(inside, ["verify", "waits"], lambda found: found["whole"])
    onto = about.rpartition(" ")[2]
    rows = eventually(inside, ["verify", "waits"], lambda found: found["whole"])["rows"]
    assert {row["labels"][SERVER_4] for row in rows} == {onto}
