"""Offers devices to a kubelet, with a device plugin whose faults tests choose, or with a DRA driver."""

from testbed.nodes.node import Node
from testbed.plane import nodes
from testbed.plane.kubectl import Object
from testbed.topology import trn2u, write

RESOURCE = "aws.amazon.com/neuron"
DEVICES = 16
SYSFS = [trn2u(server, node) for server in ("9000000000000000", "8000000000000000") for node in (2, 3, 1, 0)]
"""The driver's files on the nodes of two UltraServers. The nodes are not in topology order."""


def node_objects(plugin_nodes: int = 4, driver_nodes: int = 0) -> list[Object]:
    """Returns Node objects, with the labels that a real device plugin derives from the driver's files.

    Args:
        plugin_nodes: The number of nodes of one UltraServer, with the device plugin.
        driver_nodes: The number of nodes of another UltraServer, with the DRA driver.
    """
    objects = nodes.ultraserver_nodes(2)
    for node, sysfs in zip(objects, SYSFS, strict=True):
        labels = {key.replace("_", "-"): value for key, value in sysfs.items() if key != "ultraserver_mode"}
        node["metadata"]["labels"] |= {f"{nodes.LABEL}{key}": value for key, value in labels.items()}
    first_driver_node = nodes.NODES_PER_ULTRASERVER
    return objects[:plugin_nodes] + objects[first_driver_node : first_driver_node + driver_nodes]


class NeuronPlugin:
    """The device plugin of a node.

    Args:
        node: The node on which the plugin runs.
        sysfs: The files of ``neuron_device`` without a fault, see ``testbed.topology``.

    Attributes:
        sysfs: The files as they are now.
    """

    def __init__(self, node: Node, sysfs: dict[str, str]) -> None:
        self._folder = node.folder / "neuron"
        self._class = self._folder / "class" / "neuron_device"
        # Containers with devices see this folder as /sys/class, and MPICH looks there for network interfaces.
        network = self._class.with_name("net")
        network.mkdir(parents=True)
        (network / "eth0").symlink_to("../../devices/virtual/net/eth0")
        self._healthy = sysfs
        self.sysfs: dict[str, str] = {}
        self.remove_faults()
        self._node = node
        self.start()

    def start(self) -> None:
        """Starts the plugin, for the first time or after `stop`."""
        self._node.start_program("neuron", ["neuron", str(self._folder)])

    def stop(self) -> None:
        """Stops the plugin, so that the kubelet has no healthy devices."""
        self._node.kill("neuron")

    def set_files(self, **files: str) -> None:
        """Changes files of ``neuron_device``. Running containers see the change immediately."""
        write(self._class, files)
        self.sysfs |= files

    def set_device_count(self, devices: int) -> None:
        """Changes the number of the node's devices. The kubelet gets the new number a moment later."""
        new_file = self._folder / "devices.new"
        new_file.write_text(str(devices), encoding="ascii")
        new_file.replace(self._folder / "devices")

    def remove_faults(self) -> None:
        """Restores the files and the number of devices of a node without a fault."""
        self.sysfs = {}
        self.set_files(**self._healthy)
        for file in self._class.iterdir():
            if file.name not in self._healthy:
                file.unlink()
        self.set_device_count(DEVICES)


class NeuronDriver:
    """The DRA driver of a node without a device plugin. Jobs can claim the whole node as one device.

    Args:
        node: The node on which the driver runs.
    """

    def __init__(self, node: Node) -> None:
        self._node = node
        node.start_program("neuron-dra", ["neuron-dra", node.host.name, str(node.kubeconfig)])

    def stop(self) -> None:
        """Stops the driver. No Pod may have a claim, because only a running driver can unprepare a claim."""
        self._node.kill("neuron-dra")
