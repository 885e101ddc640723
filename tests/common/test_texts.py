"""Tests of printable texts, field names, quantities, and the resources that a Pod requests."""

from typing import Any

import pytest

from common.pointers import field_name, path_of
from common.quantities import requests, thousandths
from common.texts import printable


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain, größer, 統一", "plain, größer, 統一"),
        ("\x1b[31mred\x1b[0m", r"\x1b[31mred\x1b[0m"),
        ("title\x9b2Jgone", r"title\x9b2Jgone"),
        ("one\r\ntwo\ttabs", r"one\r\ntwo\ttabs"),
        ("left\u202eright", r"left\u202eright"),
        ("half \ud800", r"half \ud800"),
    ],
)
def test_characters_that_control_a_terminal_are_escaped(text: str, expected: str) -> None:
    assert printable(text) == expected
    assert expected.isprintable()


@pytest.mark.parametrize("character", ["a", "\x1b", "\U000e0001"])
@pytest.mark.parametrize("count", [9, 10, 11, 100_000])
def test_a_text_is_shortened_to_the_maximum_length(character: str, count: int) -> None:
    text = printable(character * count, 10)
    assert len(text) <= 10
    assert text.endswith("…") is (text != printable(character * min(count, 11)))


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
def test_a_field_name_is_written_as_in_the_api_server_and_gives_the_path(
    name: str, path: tuple[str | int, ...]
) -> None:
    """Protects users from JSON pointers in messages, and annotations in pull requests from wrong lines."""
    assert field_name(path) == name
    assert path_of(name) == path


def test_the_name_of_a_list_element_is_in_brackets() -> None:
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
def test_a_quantity_is_read_in_thousandths(text: str, amount: int) -> None:
    assert thousandths(text) == amount


def cores_of(
    requested: str, container_status: dict[str, Any], reason: str = "", kind: str = "containers"
) -> int:
    """Returns the cores that a Pod takes, by its requests and its status."""
    container = {"name": "c", "restartPolicy": "Always", "resources": {"requests": {"cpu": requested}}}
    statuses = {"containers": "containerStatuses", "initContainers": "initContainerStatuses"}
    status: dict[str, Any] = (
        container_status if kind == "pod" else {statuses[kind]: [{"name": "c", **container_status}]}
    )
    conditions = [{"type": "PodResizePending", "reason": reason}] if reason else []
    spec = container if kind == "pod" else {kind: [container]}
    return requests(spec, status | {"conditions": conditions})["cpu"] // 1000


@pytest.mark.parametrize("kind", ["containers", "initContainers", "pod"])
def test_a_resized_pod_takes_the_cores_that_the_scheduler_counts(kind: str) -> None:
    """Protects other users: a Pod that requests more than its node has must not block the node."""
    actuated = {"resources": {"requests": {"cpu": "8"}}}
    allocated = {"allocatedResources": {"cpu": "9"}, "resources": {}}
    assert cores_of("190", actuated, "Infeasible", kind) == 8
    assert cores_of("190", actuated, "Deferred", kind) == 190
    assert cores_of("1", actuated, kind=kind) == 8
    assert cores_of("1", actuated | allocated, "Infeasible", kind) == 9
    assert cores_of("1", {}, "Infeasible", kind) == 1
