"""The addresses in the network of a plane. The network is the same in every plane, and isolated."""

from collections.abc import Mapping
from dataclasses import dataclass, field

PLANE = "10.98.0.1"
"""The plane's address: of the API server and CoreDNS, and the route from a node to the Pods of others."""
SERVICES = "10.96.0.0/16"
KUBERNETES = "10.96.0.1"
"""The Service ``kubernetes``: the API server, as Pods know it."""
PODS = "10.97.0.0/16"


@dataclass(frozen=True)
class Place:
    """A node's name and addresses.

    Attributes:
        name: of the node and its host.
        number: from 1; decides the addresses.
        labels: what the kubelet gives the node.
    """

    name: str
    number: int
    labels: Mapping[str, str] = field(default_factory=dict)

    @property
    def address(self) -> str:
        """The node's own."""
        return f"10.98.0.{10 + self.number}"

    @property
    def gateway(self) -> str:
        """The plane's, as the node sees it."""
        return PLANE

    @property
    def pods(self) -> str:
        """The network of the node's Pods."""
        return f"10.97.{self.number}.0/24"
