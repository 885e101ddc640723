"""The addresses in the network of a plane. The network is the same in every plane, and isolated."""

from collections.abc import Mapping
from dataclasses import dataclass, field

PLANE = "10.98.0.1"
"""The address of API server and CoreDNS, and the gateway from a node to the Pods of other nodes."""
SERVICES = "10.96.0.0/16"
KUBERNETES = "10.96.0.1"
"""The address of the Service ``kubernetes``, by which Pods reach the API server."""
PODS = "10.97.0.0/16"


@dataclass(frozen=True)
class Place:
    """A node's name and addresses.

    Attributes:
        name: The name of the node and its host.
        number: The node's number, from 1, which decides its addresses.
        labels: The labels that the kubelet sets.
    """

    name: str
    number: int
    labels: Mapping[str, str] = field(default_factory=dict)

    @property
    def address(self) -> str:
        """The node's address."""
        return f"10.98.0.{10 + self.number}"

    @property
    def gateway(self) -> str:
        """The node's gateway, which is the plane."""
        return PLANE

    @property
    def pods(self) -> str:
        """The network of the node's Pods."""
        return f"10.97.{self.number}.0/24"
