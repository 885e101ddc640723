"""The device plugin of the tests: sets how many devices a node has, and what its /sys/class says."""

from __future__ import annotations

from testbed.nodes.node import Node
from testbed.plane import nodes
from testbed.plane.kubectl import Object
from testbed.topology import trn2u, write

RESOURCE = "aws.amazon.com/neuron"
DEVICES = 16
SYSFS = [trn2u("9000000000000000", node) for node in (2, 3, 1, 0)]
"""What the nodes' drivers say: one UltraServer, handed out in an order that is not the topology's."""


def ultraserver() -> list[Object]:
    """Its nodes as objects, with the labels that a real plugin makes of what the drivers say."""
    found = nodes.ultraserver_nodes(1)
    for node, sysfs in zip(found, SYSFS, strict=True):
        read = {key.replace("_", "-"): value for key, value in sysfs.items() if key != "ultraserver_mode"}
        node["metadata"]["labels"] |= {f"{nodes.LABEL}{key}": value for key, value in read.items()}
    return found


class NeuronPlugin:
    """The plugin of one node.

    Args:
        node: where it runs.
        sysfs: the files of ``neuron_device``, see ``testbed.topology``.

    Attributes:
        sysfs: what these files say at present.
    """

    def __init__(self, node: Node, sysfs: dict[str, str]) -> None:
        self._folder = node.folder / "neuron"
        self._class = self._folder / "class" / "neuron_device"
        # It hides the machine's class in what asks for devices, where MPICH looks for the Pod's network.
        network = self._class.with_name("net")
        network.mkdir(parents=True)
        (network / "eth0").symlink_to("../../devices/virtual/net/eth0")
        self._healthy = sysfs
        self.sysfs: dict[str, str] = {}
        self.mend()
        node.start_program("neuron", ["neuron", str(self._folder)])

    def say(self, **files: str) -> None:
        """Changes files of ``neuron_device``; containers see it at once."""
        write(self._class, files)
        self.sysfs |= files

    def offer(self, devices: int) -> None:
        """From now on the node has this many devices; the kubelet hears of it within a moment."""
        fresh = self._folder / "devices.new"
        fresh.write_text(str(devices), encoding="ascii")
        fresh.replace(self._folder / "devices")

    def mend(self) -> None:
        """Takes every fault back."""
        self.sysfs = {}
        self.say(**self._healthy)
        for file in self._class.iterdir():
            if file.name not in self._healthy:
                file.unlink()
        self.offer(DEVICES)
