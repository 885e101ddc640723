"""Tests of object paths: JSON pointers that can also select list elements by a key."""

import re
from typing import Any

import pytest

from webhook.objects import messages
from webhook.objects.paths import parse_path
from webhook.objects.tree import drop, get, put

JOBS = {
    "jobs": [{"name": "driver", "n": 1}, {"name": "workers", "n": 2, "controller": True}, {"name": "workers"}]
}


def test_a_list_element_is_selected_by_its_key_at_any_position() -> None:
    path = parse_path("/jobs[name=workers]/n")
    assert [*path.find_all(JOBS)] == [("jobs", 1, "n")]
    assert path.value(JOBS) == 2
    assert parse_path("/jobs[name=workers]/n").value({"jobs": JOBS["jobs"][1:]}) == 2


def test_a_boolean_is_selected_by_its_text() -> None:
    assert parse_path("/jobs[controller=true]/name").value(JOBS) == "workers"


@pytest.mark.parametrize("obj", [{}, {"jobs": None}, {"jobs": {}}, {"jobs": [1, None, []]}, [], None, 3])
def test_a_missing_element_has_no_path_and_no_value(obj: Any) -> None:
    assert not [*parse_path("/jobs[name=workers]/n").find_all(obj)]
    assert parse_path("/jobs[name=workers]/n").value(obj) is None


def test_a_path_can_have_escaped_keys_or_be_empty() -> None:
    assert parse_path("/a~1b/c~0d").value({"a/b": {"c~d": 4}}) == 4
    assert parse_path("").value(JOBS) is JOBS


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (
            "/spec/replicatedJobs/0/template",
            messages.by_position("/spec/replicatedJobs/0/template", "0", "/spec/replicatedJobs"),
        ),
        ("/spec/jobs[0]", messages.no_selection("jobs[0]")),
        ("/spec/jobs[name=]", messages.no_selection("jobs[name=]")),
        ("/spec/jobs[name=a", messages.no_selection("jobs[name=a")),
        ("/spec/jobs[name=a/b]/c", messages.no_selection("jobs[name=a")),
        ("/spec/[name=a]", messages.no_selection("[name=a]")),
        ("spec", "a JSON pointer starts with '/'"),
    ],
)
def test_a_path_that_cannot_exist_is_refused(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(reason)}"):
        parse_path(text)


def test_put_shares_unchanged_parts_with_the_old_object() -> None:
    (path,) = parse_path("/jobs[name=workers]/n").find_all(JOBS)
    changed = put(JOBS, path, 5)
    assert get(changed, path) == 5
    assert get(JOBS, path) == 2
    assert changed["jobs"][0] is JOBS["jobs"][0]
    assert put(JOBS, path, 2) is JOBS


@pytest.mark.parametrize("tree", [None, "text", 7, [], {}, {"a": None}, {"a": "b"}, {"a": ["b"]}, {"b": {}}])
def test_drop_of_a_missing_field_returns_the_same_object(tree: Any) -> None:
    assert drop(tree, ("a", "b")) is tree


def test_drop_also_removes_parents_that_become_empty() -> None:
    assert drop({"a": {"b": 1}, "c": 2}, ("a", "b")) == {"c": 2}
    assert drop({"a": {"b": 1, "c": 2}}, ("a", "b")) == {"a": {"c": 2}}
