"""Two replicas and their Lease; jobs that wait for nodes of each other."""

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
    """Waits until a replica holds the Lease."""

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
        until(lambda: "cannot watch" in blind.tail(), "a warning of the program")
    stage.apply("train", 8)
    stage.wait(all_whole)
    wait_leader(stage, seeing)
    assert "no longer leader" in blind.log.read_text(encoding="utf-8")


def test_a_replica_whose_watch_has_failed_ends_and_another_leads(stage: Stage) -> None:
    died = stage.start_program(code=ODD, lease_seconds=LEASE)
    wait_leader(stage, died)
    stage.start_program(lease_seconds=LEASE)
    stage.apply("odd", 4)
    with pytest.raises(ClusterError, match=r"(?s)ended with status 1.*is no longer watched"):
        died.wait_ready(lambda: False, PATIENCE)
    stage.wait(all_whole)


@pytest.mark.limit(60, "jobs for one and a half times the nodes, until all have ended")
@modes
def test_every_job_is_placed_whole_and_nothing_is_held_in_part(mode: str, stage: Stage, seed: int) -> None:
    assert_all_whole(stage, mode, seed)


def spread(name: str, workers: int, **more: object) -> dict[str, object]:
    """Returns the replica specs of a job that spreads its workers over UltraServers."""
    selector = {"matchLabels": {"training.kubeflow.org/job-name": name}}
    rule = {"maxSkew": 1, "topologyKey": SERVER_ID_4, "whenUnsatisfiable": "DoNotSchedule", **more}
    spec = {"topologySpreadConstraints": [{**rule, "labelSelector": selector}]}
    return {"mpiReplicaSpecs": mpijob(workers, worker_spec=spec)["spec"]["mpiReplicaSpecs"]}


def test_pinned_workers_are_spread_over_their_own_ultraserver_only(stage: Stage) -> None:
    """Protects jobs from a preview that says they wait for ever: other nodes do not count for them."""
    stage.start_program()
    stage.apply("four", 4, **spread("four", 4))
    stage.apply("eight", 8, **spread("eight", 8))
    stage.wait(all_whole)
