"""Paths, and their names for people."""

import pytest

from common.pointers import field_name, path_of

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
