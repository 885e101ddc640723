"""Texts, amounts and paths: fit for terminals, logs and Events, and read as Kubernetes reads them."""

from typing import Any

import pytest

from common.pointers import field_name, path_of
from common.quantities import requests, thousandths
from common.texts import printable


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain, größer, 統一", "plain, größer, 統一"),
        ("\x1b[31mred\x1b[0m", r"\x1b[31mred\x1b[0m"),
        ("title\x9b2Jgone", r"title\x9b2Jgone"),
        ("one\r\ntwo\ttabs", r"one\r\ntwo\ttabs"),
        ("left\u202eright", r"left\u202eright"),
        ("half \ud800", r"half \ud800"),
    ],
)
def test_what_would_command_a_terminal_is_written_out(text: str, shown: str) -> None:
    assert printable(text) == shown
    assert shown.isprintable()


@pytest.mark.parametrize("sign", ["a", "\x1b", "\U000e0001"])
@pytest.mark.parametrize("count", [9, 10, 11, 100_000])
def test_a_text_is_never_longer_than_asked_for(sign: str, count: int) -> None:
    shown = printable(sign * count, 10)
    assert len(shown) <= 10
    assert shown.endswith("…") is (shown != printable(sign * min(count, 11)))


FIELDS = {
    "spec.template.spec.containers[0].resources.limits[aws.amazon.com/neuron]": (
        *("spec", "template", "spec", "containers", 0, "resources", "limits", "aws.amazon.com/neuron"),
    ),
    "metadata.annotations[node_config]": ("metadata", "annotations", "node_config"),
    "spec[0][1]": ("spec", 0, 1),
    "[a b]": ("a b",),
    "": (),
}


@pytest.mark.parametrize(("name", "path"), FIELDS.items(), ids=FIELDS)
def test_a_field_is_named_as_the_api_server_does_and_found_again(
    name: str, path: tuple[str | int, ...]
) -> None:
    """Protects people from JSON pointers, and annotations of a pull request from the wrong line."""
    assert field_name(path) == name
    assert path_of(name) == path


def test_an_element_that_is_meant_by_its_name_is_no_key() -> None:
    assert field_name(("spec", "volumes", "[data]")) == "spec.volumes[data]"


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
