"""Creates nodes that exist only as objects, for UltraServers and for other machines.

A Pod that the scheduler binds to one of these nodes stays Pending, because no kubelet runs.
"""

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from contract.keys import DEVICES, DRIVER, NEURON
from testbed.plane.kubectl import Kubectl

LABEL = "neuron.amazonaws.com/ultraserver-"
SERVER_ID_2 = LABEL + "server-id-2"
SERVER_ID_4 = LABEL + "server-id-4"
NODE_ID_2 = LABEL + "node-id-2"
NODE_ID_4 = LABEL + "node-id-4"
MODE = LABEL + "mode"
INSTANCE_TYPE = "node.kubernetes.io/instance-type"
TRN2U = "trn2u.48xlarge"
NODES_PER_ULTRASERVER = 4

# The resources of the machines, as the device plugin and the kubelet report them.
TRN2U_CAPACITY = {
    "cpu": "192",
    "memory": "2097152Mi",
    "pods": "110",
    "aws.amazon.com/neuron": "16",
    # Each of the 16 devices has 8 cores. By default, the runtime uses two cores as one.
    "aws.amazon.com/neuroncore": "64",
    "vpc.amazonaws.com/efa": "16",
    "hugepages-2Mi": "5128Mi",
}
TRN1 = "trn1.32xlarge"
TRN1_CAPACITY = {
    "cpu": "128",
    "memory": "524288Mi",
    "pods": "110",
    "aws.amazon.com/neuron": "16",
    "aws.amazon.com/neuroncore": "32",
}
WHOLE_NODE, DEVICE = "neuron_node", "neuron_device"
"""The types of the Neuron DRA driver's devices: a whole UltraServer node, or one of its 16 devices."""
DRA = "resource.k8s.io/v1"
CLAIMS = Path(__file__).resolve().parents[2] / "manifests" / "chart" / "claims.yaml"
"""The claim templates of the installation."""
PLAIN_CAPACITY = {"cpu": "16", "memory": "65536Mi", "pods": "110"}

Node = dict[str, Any]


def ultraserver_nodes(count: int) -> list[Node]:
    """Returns the nodes of ``count`` UltraServers, with four nodes each. Every run has the same nodes."""
    nodes = []
    for index in range(count * NODES_PER_ULTRASERVER):
        server, position = divmod(index, NODES_PER_ULTRASERVER)
        pair, position_in_pair = divmod(position, 2)
        labels = {
            MODE: "1_2_4",
            SERVER_ID_4: _identifier(f"server-{server}"),
            NODE_ID_4: str(position),
            SERVER_ID_2: _identifier(f"server-{server}-pair-{pair}"),
            NODE_ID_2: str(position_in_pair),
        }
        nodes.append(_node(_name(10, index), TRN2U, labels, TRN2U_CAPACITY))
    return nodes


def plain_nodes(count: int, instance_type: str = "m5.4xlarge") -> list[Node]:
    """Returns nodes without accelerators, on which launchers may run."""
    return [_node(_name(20, index), instance_type, {}, PLAIN_CAPACITY) for index in range(count)]


def trn1_nodes(count: int) -> list[Node]:
    """Returns trn1 nodes, which have devices, but are not in an UltraServer and have no labels for it."""
    return [_node(_name(30, index), TRN1, {}, TRN1_CAPACITY) for index in range(count)]


def rack_nodes(  # noqa: PLR0913, PLR0917 - the properties of racks
    racks: int, size: int, instance_type: str, label: str, capacity: Mapping[str, str], subnet: int = 40
) -> list[Node]:
    """Returns the nodes of racks. ``label`` has the rack's number, and ``subnet`` makes the names unique."""
    return [
        _node(
            _name(subnet, number),
            instance_type,
            {label: f"rack-{number // size}"},
            PLAIN_CAPACITY | dict(capacity),
        )
        for number in range(racks * size)
    ]


def with_driver(nodes: list[Node], device_type: str = WHOLE_NODE, *, plugin: bool = False) -> list[Node]:
    """Returns nodes with the Neuron DRA driver, with or without the device plugin, and ResourceSlices."""
    objects = []
    for node in nodes:
        capacity = node["status"]["capacity"]
        resources = {name: amount for name, amount in capacity.items() if plugin or name not in DEVICES}
        objects += [node | {"status": node["status"] | {"capacity": resources, "allocatable": resources}}]
        objects += [_slice(node["metadata"]["name"], device_type)]
    return objects


def device_class(resource: str = "") -> Node:
    """Returns the driver's DeviceClass, or a class of single devices for an extended resource."""
    expression = f"device.driver == '{DRIVER}'"
    if resource:
        expression += f" && device.attributes['{DRIVER}'].resourceType == '{DEVICE}'"
    spec: Node = {"selectors": [{"cel": {"expression": expression}}]}
    spec |= {"extendedResourceName": resource} if resource else {}
    metadata = {"name": "served" if resource else DRIVER}
    return {"apiVersion": DRA, "kind": "DeviceClass", "metadata": metadata, "spec": spec}


def template_name(mode: int) -> str:
    """Returns the name of the claim template for a node config."""
    return f"us-{mode}-node-config"


def claim_template(mode: int, name: str = "", *, with_mode: bool = True) -> Node:
    """Returns the installation's claim template for a node config, optionally with another name.

    Args:
        mode: The node config.
        name: The other name; empty for the name in the installation.
        with_mode: Whether the template passes the node config to the driver.
    """
    text = CLAIMS.read_text(encoding="utf-8")
    templates: list[Node] = list(yaml.safe_load_all(text))
    (template,) = (item for item in templates if item["metadata"]["name"] == template_name(mode))
    if not with_mode:
        del template["spec"]["spec"]["devices"]["config"]
    return template | {"metadata": {"name": name or template_name(mode)}}


def create(kubectl: Kubectl, nodes: list[Node]) -> None:
    """Creates Nodes, ResourceSlices or other objects of this module."""
    kubectl.create({"apiVersion": "v1", "kind": "List", "items": nodes})


def _identifier(seed: str) -> str:
    """Returns an identifier of sixteen letters and digits, like the identifiers of the Neuron driver."""
    number = int.from_bytes(hashlib.sha256(seed.encode()).digest())
    digits = "0123456789abcdefghijklmnopqrstuvwxyz"
    identifier = ""
    for _ in range(16):
        number, digit = divmod(number, len(digits))
        identifier += digits[digit]
    return identifier


def _slice(node: str, device_type: str) -> Node:
    texts = {"instanceType": TRN2U, "neuronDriverVersion": "2.26.10.0", "resourceType": device_type}
    attributes: dict[str, Any] = {name: {"string": text} for name, text in texts.items()}
    devices: list[Node] = [{"name": "neuron-node", "attributes": attributes}]
    if device_type == DEVICE:
        count = int(TRN2U_CAPACITY[NEURON])
        devices = [
            {"name": f"neuron-{number}", "attributes": attributes | {"deviceId": {"int": number}}}
            for number in range(count)
        ]
    pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": DRIVER, "nodeName": node, "pool": pool, "devices": devices}
    return {"apiVersion": DRA, "kind": "ResourceSlice", "metadata": {"name": f"{node}-neuron"}, "spec": spec}


def _name(subnet: int, index: int) -> str:
    return f"ip-172-32-{subnet + index // 250}-{index % 250 + 1}.ap-southeast-4.compute.internal"


def _node(name: str, instance_type: str, labels: Mapping[str, str], capacity: Mapping[str, str]) -> Node:
    common = {
        INSTANCE_TYPE: instance_type,
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        "topology.kubernetes.io/region": "ap-southeast-4",
        "topology.kubernetes.io/zone": "ap-southeast-4a",
    }
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": common | dict(labels)},
        "status": {
            "capacity": dict(capacity),
            "allocatable": dict(capacity),
            "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}],
        },
    }
