"""The device plugin as the kubelet, the scheduler and containers see it, with and without faults."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.cluster.realnodes import story
from tests.cluster.realnodes.plugin import DEVICES, RESOURCE, SYSFS
from tests.cluster.realnodes.test_nodes import pod, result
from tests.waiting import PATIENCE

if TYPE_CHECKING:
    from tests.cluster.kubectl import Kubectl, Object
    from tests.cluster.realnodes.plane import RealPlane
    from tests.cluster.realnodes.plugin import NeuronPlugin

READ = "cd /sys/class/neuron_device; for file in *; do echo $file $(busybox cat $file); done"


def asking(name: str, script: str, node: str = "") -> Object:
    """A Pod that asks for all devices of a node: of a certain one, or of any."""
    asks = pod(name, script, resources={"limits": {RESOURCE: DEVICES}})
    if node:
        asks["spec"]["nodeSelector"] = {"kubernetes.io/hostname": node}
    return asks


def files(text: str) -> dict[str, str]:
    return dict(line.split() for line in text.splitlines())


def test_whatever_asks_for_devices_reads_the_sysfs_of_its_node(
    mended: dict[str, NeuronPlugin], here: Kubectl
) -> None:
    story.all_offered(here, mended)
    for number, name in enumerate(mended):
        here.create(asking(f"pod-{number}", READ, name))
    for number, sysfs in enumerate(SYSFS):
        assert files(result(here, f"pod-{number}")) == sysfs


def test_what_asks_for_none_gets_the_machines_own_class(
    mended: dict[str, NeuronPlugin], here: Kubectl
) -> None:
    here.create(pod("plain", "busybox ls /sys/class", node=next(iter(mended))))
    assert "neuron_device" not in result(here, "plain").split()


def test_a_fault_is_read_by_a_container_that_runs_already(
    mended: dict[str, NeuronPlugin], here: Kubectl
) -> None:
    first = next(iter(mended))
    story.offered(here, first, RESOURCE, DEVICES)
    wait = "until busybox grep -q busy /sys/class/neuron_device/ultraserver_mode; do busybox sleep 0.2; done"
    here.create(asking("waits", f"{wait}; {READ}", first))
    here.wait_for(lambda found: found["status"]["phase"] == "Running", "pod", "waits", timeout=PATIENCE)
    mended[first].say(ultraserver_mode="busy", node_id_4="busy")
    assert "node_id_4 busy" in result(here, "waits").splitlines()


def test_a_pod_waits_while_a_device_is_gone(mended: dict[str, NeuronPlugin], here: Kubectl) -> None:
    story.all_offered(here, mended)
    for plugin in mended.values():
        plugin.offer(DEVICES - 1)
    for name in mended:
        story.offered(here, name, RESOURCE, DEVICES - 1)
    here.create(asking("waits", "echo ran"))

    def refused(found: Object) -> bool:
        conditions = found["status"].get("conditions", ())
        return any(f"Insufficient {RESOURCE}" in item.get("message", "") for item in conditions)

    here.wait_for(refused, "pod", "waits", timeout=PATIENCE)
    for plugin in mended.values():
        plugin.mend()
    assert result(here, "waits") == "ran\n"


def test_a_kubelet_that_starts_anew_hears_of_the_devices_again(
    real_plane: RealPlane, mended: dict[str, NeuronPlugin], here: Kubectl
) -> None:
    name = next(iter(mended))
    story.offered(here, name, RESOURCE, DEVICES)
    node = real_plane.nodes[name]
    node.kill("kubelet")
    mended[name].offer(DEVICES - 2)
    node.start_kubelet()
    story.offered(here, name, RESOURCE, DEVICES - 2)
