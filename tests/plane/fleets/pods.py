"""The specs of Pods that request devices."""

from typing import Any

from testbed.plane.kubectl import Object


def spec(devices: int, **fields: Any) -> Object:
    resources = {"limits": {"aws.amazon.com/neuron": devices}}
    return {"containers": [{"name": "x", "image": "example.invalid/x", "resources": resources}], **fields}
