"""``kubectl ultraserver`` where the placement program places jobs, and where it does not run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kube.api import leases
from tests.cluster import nodes
from tests.cluster.placement.stage import ACCOUNT, NAMESPACE, TEAMS
from tests.cluster.plugin import eventually, plugin, texts

if TYPE_CHECKING:
    from tests.cluster.placement.stage import Stage


def test_a_job_that_the_program_keeps_is_told_what_keeps_each_ultraserver(stage: Stage) -> None:
    inside = stage.plane.kubectl.in_namespace(TEAMS[0])
    stage.start_program()
    stage.apply("small", 4)
    small = eventually(inside, ["verify", "small"], lambda found: found["whole"])
    taken = {row["server_4"] for row in small["rows"]}
    sick = next(name for name in sorted(stage.usable) if stage.labels[name][nodes.SERVER_ID_4] not in taken)
    stage.cordon(sick)
    stage.apply("large", 20)
    found = eventually(inside, ["why", "large"], lambda found: "needs 5" in str(texts(found)))
    (finding,) = [item for item in found["findings"] if item["kind"] == "program"]
    assert finding["text"].startswith("keeps the job: needs 5 whole UltraServers; 4 free")
    broken = stage.labels[sick][nodes.SERVER_ID_4]
    assert sorted(finding["details"]) == sorted(
        [f"{broken}: node {sick} cordoned", f"{taken.pop()}: held by {TEAMS[0]}/small"]
    )
    assert plugin(inside, "verify", "large").returncode == 1


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
    assert {row["server_4"] for row in rows} == {onto}
