"""The device plugin of the tests: sets how many devices a node has, and what its /sys/class says."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.cluster.realnodes.node import Node

RESOURCE = "aws.amazon.com/neuron"
DEVICES = 16


class NeuronPlugin:
    """The plugin of one node.

    Args:
        node: where it runs.
        sysfs: the files of ``neuron_device``, see ``tests.initscript.topology``.
    """

    def __init__(self, node: Node, sysfs: dict[str, str]) -> None:
        self._folder = node.folder / "neuron"
        self._class = self._folder / "class" / "neuron_device"
        self._class.mkdir(parents=True, exist_ok=True)
        self._sysfs = sysfs
        self.mend()
        node.start_program("neuron", ["neuron", str(self._folder)])

    def say(self, **files: str) -> None:
        """Changes files of ``neuron_device``; containers see it at once."""
        for name, content in files.items():
            (self._class / name).write_text(f"{content}\n", encoding="ascii")

    def offer(self, devices: int) -> None:
        """From now on the node has this many devices; the kubelet hears of it within a moment."""
        fresh = self._folder / "devices.new"
        fresh.write_text(str(devices), encoding="ascii")
        fresh.replace(self._folder / "devices")

    def mend(self) -> None:
        """Takes every fault back."""
        for file in self._class.iterdir():
            if file.name not in self._sysfs:
                file.unlink()
        self.say(**self._sysfs)
        self.offer(DEVICES)
