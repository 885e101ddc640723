"""Offers devices to a kubelet in tests: a device plugin with faults on demand, or a DRA driver."""

from testbed.nodes.node import Node
from testbed.plane import nodes
from testbed.plane.kubectl import Object
from testbed.topology import trn2u, write

RESOURCE = "aws.amazon.com/neuron"
DEVICES = 16
SYSFS = [trn2u(server, node) for server in ("9000000000000000", "8000000000000000") for node in (2, 3, 1, 0)]
"""The facts of the nodes' drivers: two UltraServers, whose nodes are not in the order of the topology."""


def machines(plugged: int = 4, driven: int = 0) -> list[Object]:
    """Returns nodes as objects, with the labels that a real plugin makes of what the drivers say.

    Args:
        plugged: how many of one UltraServer.
        driven: how many of another.
    """
    made = nodes.ultraserver_nodes(2)
    for node, sysfs in zip(made, SYSFS, strict=True):
        read = {key.replace("_", "-"): value for key, value in sysfs.items() if key != "ultraserver_mode"}
        node["metadata"]["labels"] |= {f"{nodes.LABEL}{key}": value for key, value in read.items()}
    half = nodes.NODES_PER_ULTRASERVER
    return made[:plugged] + made[half : half + driven]


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
        self._node = node
        self.start()

    def start(self) -> None:
        """Starts the plugin, in the constructor or after it was stopped."""
        self._node.start_program("neuron", ["neuron", str(self._folder)])

    def stop(self) -> None:
        """Stops the plugin; then the kubelet has no devices."""
        self._node.kill("neuron")

    def say(self, **files: str) -> None:
        """Changes files of ``neuron_device``; containers see it at once."""
        write(self._class, files)
        self.sysfs |= files

    def offer(self, devices: int) -> None:
        """Changes the number of the node's devices; the kubelet learns of it within a moment."""
        fresh = self._folder / "devices.new"
        fresh.write_text(str(devices), encoding="ascii")
        fresh.replace(self._folder / "devices")

    def mend(self) -> None:
        """Removes every fault."""
        self.sysfs = {}
        self.say(**self._healthy)
        for file in self._class.iterdir():
            if file.name not in self._healthy:
                file.unlink()
        self.offer(DEVICES)


class NeuronDriver:
    """The DRA driver of one node, which has no device plugin then: it offers the node as one device to claim.

    Args:
        node: where it runs.
    """

    def __init__(self, node: Node) -> None:
        self._node = node
        node.start_program("neuron-dra", ["neuron-dra", node.place.name, str(node.kubeconfig)])

    def stop(self) -> None:
        """Ends it, when no Pod has a claim any more: only the driver can undo what it prepared for one."""
        self._node.kill("neuron-dra")
