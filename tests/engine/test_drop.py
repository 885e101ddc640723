"""Taking an entry out of a tree in which something else stands where its parents would be."""

from typing import Any

import pytest

from webhook.objects.tree import drop


@pytest.mark.parametrize("tree", [None, "text", 7, [], {}, {"a": None}, {"a": "b"}, {"a": ["b"]}, {"b": {}}])
def test_what_is_not_there_is_not_taken_out(tree: Any) -> None:
    assert drop(tree, ("a", "b")) is tree


def test_parents_that_are_emptied_go_as_well_and_others_stay() -> None:
    assert drop({"a": {"b": 1}, "c": 2}, ("a", "b")) == {"c": 2}
    assert drop({"a": {"b": 1, "c": 2}}, ("a", "b")) == {"a": {"c": 2}}
