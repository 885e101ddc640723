"""Whose turn it is: of two replicas, and of jobs that wait for each other's nodes."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from contract.keys import OPENED
from kube.api import Object
from placement.model import COMPONENT
from testbed.experiment.judge import Key, all_whole
from testbed.experiment.stage import TEAMS, Stage
from testbed.plane.placement import NAMESPACE
from testbed.plane.process import ClusterError, Program
from testbed.waiting import PATIENCE, until
from tests.plane.placement.conftest import BreakablePlane
from tests.plane.short import assert_all_whole, modes

LEASE = int(2 * PATIENCE)
"""Seconds in which no test ends: another leads before only if the Lease was given back."""
ODD = """
import placement.__main__ as program
nodes, (pods, read), *others = program.COLLECTIONS
def odd(raw):
    if raw["metadata"]["name"].startswith("odd-"):
        raise RuntimeError("odd")
    return read(raw)
program.COLLECTIONS = nodes, (pods, odd), *others
program.main()
"""


def wait_leader(stage: Stage, program: Program) -> None:
    """Wait until a replica holds the Lease."""

    def holds(lease: Object) -> bool:
        return lease.get("spec", {}).get("holderIdentity") == program.name

    stage.plane.kubectl.in_namespace(NAMESPACE).wait_for(holds, "lease", COMPONENT)


@pytest.mark.soak
def test_a_leader_that_sees_no_longer_gives_its_lease_back(stage: Stage) -> None:
    plane: BreakablePlane = stage.plane  # type: ignore[assignment]
    inside, account = plane.kubectl.in_namespace(NAMESPACE), f"--serviceaccount={NAMESPACE}:blind"
    inside.run("create", "serviceaccount", "blind")
    inside.run("create", "rolebinding", "blind", f"--role={COMPONENT}", account)
    inside.run("create", "clusterrolebinding", "blind", f"--clusterrole={COMPONENT}", account)
    blind = stage.start_program(plane.account(NAMESPACE, "blind"), lease_seconds=LEASE)
    wait_leader(stage, blind)
    seeing = stage.start_program(lease_seconds=LEASE)
    inside.run("delete", "clusterrolebinding", "blind")
    with plane.without("kube-apiserver"):  # what was being watched is not taken away otherwise
        until(lambda: "cannot follow" in blind.tail(), "a warning of the program")
    stage.apply("train", 8)
    stage.wait(all_whole)
    wait_leader(stage, seeing)
    assert "no longer leader" in blind.log.read_text(encoding="utf-8")


def test_a_replica_of_which_a_watch_has_died_ends_and_another_leads(stage: Stage) -> None:
    died = stage.start_program(code=ODD, lease_seconds=LEASE)
    wait_leader(stage, died)
    stage.start_program(lease_seconds=LEASE)
    stage.apply("odd", 4)
    with pytest.raises(ClusterError, match=r"(?s)ended with status 1.*is not followed any longer"):
        died.wait_ready(lambda: False, PATIENCE)
    stage.wait(all_whole)


def filled(stage: Stage, *workers: int) -> list[Key]:
    """Jobs of the second team that stand."""
    keys = [stage.apply(f"fill-{number}", count, TEAMS[1]) for number, count in enumerate(workers)]
    stage.wait(all_whole)
    return keys


def waiting(stage: Stage, name: str, team: str) -> Key:
    """A job of two UltraServers, all of whose pods are there."""
    key = stage.apply(name, 8, team)
    stage.follow(key, lambda pods: len(pods) == 9)
    return key


def test_of_others_nothing_is_kept_for_a_job_that_waits_for_its_own_namespace(stage: Stage) -> None:
    stage.start_program(patience_seconds=0, interval_seconds=1)
    filled(stage, 20)
    own = waiting(stage, "large", TEAMS[1])
    other = stage.apply("other", 4)
    stage.wait(lambda found: found[other].whole)
    assert not stage.standings()[own].nodes


@pytest.mark.soak
def test_what_is_kept_for_a_job_is_anybodys_after_a_while(stage: Stage) -> None:
    patience, keeping = 5, 15
    stage.start_program(patience_seconds=patience, interval_seconds=1, keeping_seconds=keeping)
    filled(stage, 20)
    large = waiting(stage, "large", TEAMS[0])
    began = datetime.now(UTC)
    until(lambda: datetime.now(UTC) - began > timedelta(seconds=patience + 2), "the end of patience")
    small = stage.apply("small", 4, TEAMS[2])
    stage.wait(lambda found: found[small].whole)
    opened = datetime.fromisoformat(stage.pods(small)[-1]["metadata"]["annotations"][OPENED])
    assert opened - began > timedelta(seconds=keeping)
    assert not stage.standings()[large].nodes


@modes
def test_every_job_is_placed_whole_and_nothing_is_held_in_part(mode: str, stage: Stage, seed: int) -> None:
    assert_all_whole(stage, mode, seed)
