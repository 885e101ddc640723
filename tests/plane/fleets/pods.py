"""Pods with devices."""

from typing import Any

from testbed.plane.kubectl import Object


def spec(devices: int, **more: Any) -> Object:
    requests = {"limits": {"aws.amazon.com/neuron": devices}}
    return {"containers": [{"name": "x", "image": "example.invalid/x", "resources": requests}], **more}
