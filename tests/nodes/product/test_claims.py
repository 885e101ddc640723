"""Jobs that claim nodes next to jobs that request devices, on nodes of both kinds."""

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
"""What the driver tells a container of a node of a pair."""
CLAIMS, REQUESTS = "claims", "requests"
# Open MPI 5 does not read the variable that mpi-operator sets, and no init script names the file to it.
MPIRUN = ["mpirun", "--hostfile", "/etc/mpi/hostfile", PROGRAM]
LAUNCHER = {"containers": [{"name": "mpitest", "image": IMAGE, "command": MPIRUN}]}
SLICES = ("resourceslices", f"--field-selector=spec.driver={DRIVER}")


@pytest.fixture
def driven(
    real_plane: RealPlane, installed: Kubectl, plugins: dict[str, NeuronPlugin], here: Kubectl
) -> Iterator[set[str]]:
    """A pair of nodes with the DRA driver in place of the device plugin, for one test."""
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
        here.run("delete", "mpijobs", "--all", "--cascade=foreground")
        for driver in drivers:
            driver.stop()
        installed.delete(*SLICES)
        installed.delete("deviceclass", neuron["metadata"]["name"])
    finally:
        for name in names:
            plugins[name].start()


def test_a_job_with_claims_runs_next_to_one_with_requests_and_has_the_mode_by_cdi(
    driven: set[str], plugins: dict[str, NeuronPlugin], here: Kubectl
) -> None:
    """Real kubelets prepare claims, containerd reads the CDI spec, and whole jobs share a mixed fleet."""
    here.run("apply", "-f", str(nodes.CLAIMS))
    for name, template in ((CLAIMS, nodes.template_name(PAIR)), (REQUESTS, None)):
        here.create(mpijob(PAIR, name=name, claim=template, launcher_spec=LAUNCHER))
    on, modes = {}, {}
    for name in (CLAIMS, REQUESTS):
        on[name] = {pod["spec"]["nodeName"] for pod in story.wait_for_workers(here, name, PAIR)}
        modes[name] = here.run("exec", f"{name}-worker-0", "--", "printenv", MODE, check=False).stdout.strip()
    assert on == {CLAIMS: driven, REQUESTS: set(plugins) - driven}
    assert modes == {CLAIMS: VERTICAL, REQUESTS: ""}
    assert {name: story.wait_for_end(here, name)["status"]["phase"] for name in on} == dict.fromkeys(
        on, "Succeeded"
    )
