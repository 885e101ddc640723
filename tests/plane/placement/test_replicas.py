"""Tests of two replicas and their Lease, and of jobs that wait for each other's nodes."""

import pytest

from kube.api import Object
from placement.observe.model import COMPONENT
from testbed.experiment.judge import all_whole
from testbed.experiment.stage import Stage
from testbed.mpijob import mpijob
from testbed.plane.nodes import SERVER_ID_4
from testbed.plane.placement import NAMESPACE
from testbed.plane.process import ClusterError, Program
from testbed.waiting import PATIENCE, until
from tests.plane.placement.conftest import BreakablePlane
from tests.plane.short import assert_all_whole, modes

LEASE = int(2 * PATIENCE)
"""Seconds, longer than a test: another replica can lead earlier only if the leader releases its Lease."""
FAILING_PROGRAM = """
import placement.__main__ as program
nodes, (pods, read), *others = program.COLLECTIONS
def odd(raw):
    if raw["metadata"]["name"].startswith("odd-"):
        raise RuntimeError("odd")
    return read(raw)
program.COLLECTIONS = nodes, (pods, odd), *others
program.main()
"""
"""The placement program, whose watch fails at a pod with a name that begins with ``odd-``."""


def wait_leader(stage: Stage, program: Program) -> None:
    """Waits until the replica ``program`` holds the Lease."""

    def holds(lease: Object) -> bool:
        return lease.get("spec", {}).get("holderIdentity") == program.name

    stage.plane.kubectl.in_namespace(NAMESPACE).wait_for(holds, "lease", COMPONENT)


@pytest.mark.soak
def test_a_leader_that_can_no_longer_watch_releases_its_lease(stage: Stage) -> None:
    plane: BreakablePlane = stage.plane  # type: ignore[assignment]
    inside, account = plane.kubectl.in_namespace(NAMESPACE), f"--serviceaccount={NAMESPACE}:blind"
    inside.run("create", "serviceaccount", "blind")
    inside.run("create", "rolebinding", "blind", f"--role={COMPONENT}", account)
    inside.run("create", "clusterrolebinding", "blind", f"--clusterrole={COMPONENT}", account)
    leader = stage.start_program(plane.account(NAMESPACE, "blind"), lease_seconds=LEASE)
    wait_leader(stage, leader)
    other = stage.start_program(lease_seconds=LEASE)
    inside.run("delete", "clusterrolebinding", "blind")
    with plane.without("kube-apiserver"):  # otherwise, running watches continue without the right
        until(lambda: "cannot watch" in leader.tail(), "a warning of the program")
    stage.apply("train", 8)
    stage.wait(all_whole)
    wait_leader(stage, other)
    assert "no longer leader" in leader.log.read_text(encoding="utf-8")


def test_a_replica_whose_watch_has_failed_ends_and_another_leads(stage: Stage) -> None:
    died = stage.start_program(code=FAILING_PROGRAM, lease_seconds=LEASE)
    wait_leader(stage, died)
    stage.start_program(lease_seconds=LEASE)
    stage.apply("odd", 4)
    with pytest.raises(ClusterError, match=r"(?s)ended with status 1.*is no longer watched"):
        died.wait_ready(lambda: False, PATIENCE)
    stage.wait(all_whole)


@pytest.mark.limit(60, "runs jobs for one and a half times the nodes, until all have ended")
@modes
def test_every_job_is_placed_whole_and_no_job_holds_only_a_part_of_its_nodes(
    mode: str, stage: Stage, seed: int
) -> None:
    assert_all_whole(stage, mode, seed)


def spread(name: str, workers: int, **fields: object) -> dict[str, object]:
    """Returns the replica specs of a job that spreads its workers over UltraServers."""
    selector = {"matchLabels": {"training.kubeflow.org/job-name": name}}
    rule = {"maxSkew": 1, "topologyKey": SERVER_ID_4, "whenUnsatisfiable": "DoNotSchedule", **fields}
    spec = {"topologySpreadConstraints": [{**rule, "labelSelector": selector}]}
    return {"mpiReplicaSpecs": mpijob(workers, worker_spec=spec)["spec"]["mpiReplicaSpecs"]}


def test_pinned_workers_are_spread_over_their_own_ultraserver_only(stage: Stage) -> None:
    """The scheduler applies the constraint only to nodes within the pin, so the jobs do not wait for ever."""
    stage.start_program()
    stage.apply("four", 4, **spread("four", 4))
    stage.apply("eight", 8, **spread("eight", 8))
    stage.wait(all_whole)
