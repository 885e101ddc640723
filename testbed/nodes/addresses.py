"""Defines the addresses of a plane. Each plane has an isolated network with the same addresses."""

from collections.abc import Mapping
from dataclasses import dataclass, field

PLANE = "10.98.0.1"
"""The address of the API server and CoreDNS. It is also the nodes' gateway to Pods on other nodes."""
SERVICES = "10.96.0.0/16"
KUBERNETES = "10.96.0.1"
"""The address of the Service ``kubernetes``, which Pods use to reach the API server."""
PODS = "10.97.0.0/16"


@dataclass(frozen=True)
class Host:
    """A node's name, addresses and labels.

    Attributes:
        name: The name of the node, which is also its host name.
        number: The node's number, from 1. Its addresses contain the number.
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
        """The node's gateway, which is the address of the plane."""
        return PLANE

    @property
    def pod_subnet(self) -> str:
        """The subnet of the node's Pods."""
        return f"10.97.{self.number}.0/24"
