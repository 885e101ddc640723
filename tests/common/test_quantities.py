"""Amounts of resources as Kubernetes writes them."""

from typing import Any

import pytest

from common.quantities import requests, thousandths


@pytest.mark.parametrize(
    ("text", "amount"),
    [
        ("1", 1000),
        ("0.5", 500),
        ("100m", 100),
        ("1k", 1_000_000),
        ("1Ki", 1_024_000),
        ("5128Mi", 5128 * 2**20 * 1000),
        ("2Ei", 2 * 2**60 * 1000),
        ("1e3", 1_000_000),
        ("1E3", 1_000_000),
        ("1E", 10**18 * 1000),
        ("1n", 1),
        (".5", 500),
        ("+2", 2000),
        ("", 0),
        ("much", 0),
        ("1KiB", 0),
        ("9" * 100, 0),
    ],
)
def test_quantities(text: str, amount: int) -> None:
    assert thousandths(text) == amount


def resized(requested: str, has: dict[str, Any], reason: str = "", kind: str = "containers") -> int:
    """Returns the cores of a resized pod, from its requests and its status."""
    part = {"name": "c", "restartPolicy": "Always", "resources": {"requests": {"cpu": requested}}}
    statuses = {"containers": "containerStatuses", "initContainers": "initContainerStatuses"}
    status: dict[str, Any] = has if kind == "pod" else {statuses[kind]: [{"name": "c", **has}]}
    conditions = [{"type": "PodResizePending", "reason": reason}] if reason else []
    spec = part if kind == "pod" else {kind: [part]}
    return requests(spec, status | {"conditions": conditions})["cpu"] // 1000


@pytest.mark.parametrize("kind", ["containers", "initContainers", "pod"])
def test_a_pod_that_is_resized_takes_what_the_scheduler_counts(kind: str) -> None:
    """Who asks for more than a node has would else keep it from all others."""
    actuated = {"resources": {"requests": {"cpu": "8"}}}
    allocated = {"allocatedResources": {"cpu": "9"}, "resources": {}}
    assert resized("190", actuated, "Infeasible", kind) == 8
    assert resized("190", actuated, "Deferred", kind) == 190
    assert resized("1", actuated, kind=kind) == 8
    assert resized("1", actuated | allocated, "Infeasible", kind) == 9
    assert resized("1", {}, "Infeasible", kind) == 1
