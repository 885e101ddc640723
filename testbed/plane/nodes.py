"""Nodes that exist as objects only: UltraServers, and plain machines.

A Pod that the scheduler binds to one of them stays Pending. Nothing runs, and nothing needs to.
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

# The resources of the machines after the device plugin and the kubelet have reported them.
TRN2U_CAPACITY = {
    "cpu": "192",
    "memory": "2097152Mi",
    "pods": "110",
    "aws.amazon.com/neuron": "16",
    # 16 devices of 8 cores, of which the runtime uses two as one by default.
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
"""What the Neuron DRA driver publishes: a node of an UltraServer as one device, or each of its 16 devices."""
DRA = "resource.k8s.io/v1"
CLAIMS = Path(__file__).resolve().parents[2] / "manifests" / "chart" / "claims.yaml"
"""The claim templates that are installed for a namespace."""
PLAIN_CAPACITY = {"cpu": "16", "memory": "65536Mi", "pods": "110"}

Node = dict[str, Any]


def ultraserver_nodes(count: int) -> list[Node]:
    """Returns the nodes of ``count`` UltraServers, four each, always the same ones."""
    nodes = []
    for index in range(count * NODES_PER_ULTRASERVER):
        server, position = divmod(index, NODES_PER_ULTRASERVER)
        pair, half = divmod(position, 2)
        labels = {
            MODE: "1_2_4",
            SERVER_ID_4: _identifier(f"server-{server}"),
            NODE_ID_4: str(position),
            SERVER_ID_2: _identifier(f"server-{server}-pair-{pair}"),
            NODE_ID_2: str(half),
        }
        nodes.append(_node(_name(10, index), TRN2U, labels, TRN2U_CAPACITY))
    return nodes


def plain_nodes(count: int, instance_type: str = "m5.4xlarge") -> list[Node]:
    """Returns nodes without accelerators, where launchers may go as well."""
    return [_node(_name(20, index), instance_type, {}, PLAIN_CAPACITY) for index in range(count)]


def trn1_nodes(count: int) -> list[Node]:
    """Returns nodes with devices that are in no UltraServer: their plugin says nothing of one."""
    return [_node(_name(30, index), TRN1, {}, TRN1_CAPACITY) for index in range(count)]


def rack_nodes(  # noqa: PLR0913, PLR0917 - all that makes a rack
    racks: int, size: int, instance_type: str, label: str, capacity: Mapping[str, str], subnet: int = 40
) -> list[Node]:
    """Returns the nodes of racks, whose label has the number of each; the racks of a subnet are one fleet."""
    return [
        _node(
            _name(subnet, at), instance_type, {label: f"rack-{at // size}"}, PLAIN_CAPACITY | dict(capacity)
        )
        for at in range(racks * size)
    ]


def driven(nodes: list[Node], published: str = WHOLE_NODE, *, plugin: bool = False) -> list[Node]:
    """Returns nodes with the Neuron DRA driver, alone or with the plugin; and their ResourceSlices."""
    objects = []
    for node in nodes:
        capacity = node["status"]["capacity"]
        resources = {name: n for name, n in capacity.items() if plugin or name not in DEVICES}
        objects += [node | {"status": node["status"] | {"capacity": resources, "allocatable": resources}}]
        objects += [_slice(node["metadata"]["name"], published)]
    return objects


def device_class(serves: str = "") -> Node:
    """Returns the driver's DeviceClass, or one of single devices that serves an extended resource."""
    chosen = f"device.driver == '{DRIVER}'"
    if serves:
        chosen += f" && device.attributes['{DRIVER}'].resourceType == '{DEVICE}'"
    spec: Node = {"selectors": [{"cel": {"expression": chosen}}]}
    spec |= {"extendedResourceName": serves} if serves else {}
    metadata = {"name": "served" if serves else DRIVER}
    return {"apiVersion": DRA, "kind": "DeviceClass", "metadata": metadata, "spec": spec}


def template_name(mode: int) -> str:
    """Returns the name of the claim template for a node config."""
    return f"us-{mode}-node-config"


def claim_template(mode: int, name: str = "", *, with_mode: bool = True) -> Node:
    """Returns the installation's template of claims for a node config, or one of another name.

    Args:
        mode: The node config.
        name: Another name.
        with_mode: Whether the driver gets the node config.
    """
    text = CLAIMS.read_text(encoding="utf-8")
    every: list[Node] = list(yaml.safe_load_all(text))
    (chosen,) = (template for template in every if template["metadata"]["name"] == template_name(mode))
    if not with_mode:
        del chosen["spec"]["spec"]["devices"]["config"]
    return chosen | {"metadata": {"name": name or template_name(mode)}}


def create(kubectl: Kubectl, nodes: list[Node]) -> None:
    """Makes all the nodes, and their slices."""
    kubectl.create({"apiVersion": "v1", "kind": "List", "items": nodes})


def _identifier(what: str) -> str:
    """Returns sixteen letters and digits, as the device driver reports them, the same in every run."""
    number = int.from_bytes(hashlib.sha256(what.encode()).digest())
    digits = "0123456789abcdefghijklmnopqrstuvwxyz"
    letters = ""
    for _ in range(16):
        number, digit = divmod(number, len(digits))
        letters += digits[digit]
    return letters


def _slice(node: str, published: str) -> Node:
    texts = {"instanceType": TRN2U, "neuronDriverVersion": "2.26.10.0", "resourceType": published}
    attributes: dict[str, Any] = {name: {"string": text} for name, text in texts.items()}
    devices: list[Node] = [{"name": "neuron-node", "attributes": attributes}]
    if published == DEVICE:
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
