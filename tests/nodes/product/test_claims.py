"""Tests that a job with device claims and a job with device requests run at the same time."""

from collections.abc import Iterator

import pytest

from contract.keys import DRIVER
from testbed.mpijob import IMAGE, mpijob
from testbed.nodes import story
from testbed.nodes.plane import RealPlane
from testbed.nodes.plugin import RESOURCE, NeuronDriver, NeuronPlugin
from testbed.plane import nodes
from testbed.plane.kubectl import Kubectl
from tests.nodes.product.job import PROGRAM

PAIR = 2
MODE, VERTICAL = "NEURON_RT_ULTRASERVER_MODE", "3"
"""The variable and the value that the driver sets in a container on a node of a pair."""
CLAIMS, REQUESTS = "claims", "requests"
# Open MPI 5 ignores the variable of mpi-operator, and no init script sets the file.
MPIRUN = ["mpirun", "--hostfile", "/etc/mpi/hostfile", PROGRAM]
LAUNCHER = {"containers": [{"name": "mpitest", "image": IMAGE, "command": MPIRUN}]}
SLICES = ("resourceslices", f"--field-selector=spec.driver={DRIVER}")


@pytest.fixture
def nodes_with_driver(
    real_plane: RealPlane, installed: Kubectl, plugins: dict[str, NeuronPlugin], kubectl: Kubectl
) -> Iterator[set[str]]:
    """The names of a pair of nodes with the DRA driver in place of the device plugin, for one test."""
    story.wait_for_all_devices(installed, plugins)
    names, neuron = list(plugins)[PAIR:], nodes.device_class()
    for name in names:
        plugins[name].stop()
    try:
        installed.create(neuron)
        drivers = [NeuronDriver(real_plane.nodes[name]) for name in names]
        for name in names:
            story.wait_for_devices(installed, name, RESOURCE, 0)
        installed.wait_for(lambda obj: len(obj["items"]) == len(names), *SLICES)
        yield set(names)
        kubectl.run("delete", "mpijobs", "--all", "--cascade=foreground")
        for driver in drivers:
            driver.stop()
        installed.delete(*SLICES)
        installed.delete("deviceclass", neuron["metadata"]["name"])
    finally:
        for name in names:
            plugins[name].start()


def test_a_job_with_claims_runs_next_to_a_job_with_requests_and_gets_the_mode_by_cdi(
    nodes_with_driver: set[str], plugins: dict[str, NeuronPlugin], kubectl: Kubectl
) -> None:
    """Protects mixed fleets: real kubelets prepare claims, and containerd reads the CDI spec."""
    kubectl.run("apply", "-f", str(nodes.CLAIMS))
    for name, template in ((CLAIMS, nodes.template_name(PAIR)), (REQUESTS, None)):
        kubectl.create(mpijob(PAIR, name=name, claim=template, launcher_spec=LAUNCHER))
    placements, modes = {}, {}
    for name in (CLAIMS, REQUESTS):
        placements[name] = {pod["spec"]["nodeName"] for pod in story.wait_for_workers(kubectl, name, PAIR)}
        modes[name] = kubectl.run(
            "exec", f"{name}-worker-0", "--", "printenv", MODE, check=False
        ).stdout.strip()
    assert placements == {CLAIMS: nodes_with_driver, REQUESTS: set(plugins) - nodes_with_driver}
    assert modes == {CLAIMS: VERTICAL, REQUESTS: ""}
    assert {
        name: story.wait_for_end(kubectl, name)["status"]["phase"] for name in placements
    } == dict.fromkeys(placements, "Succeeded")
