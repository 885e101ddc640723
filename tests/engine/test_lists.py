"""Lists that Kubernetes treats as one value are never reordered, merged or compared in parts."""

from typing import Any

import pytest

from webhook.objects.lists import ADDED_TO, EXPRESSIONS, IDENTITY, TERMS, Kind, kind
from webhook.objects.merge import Merge
from webhook.objects.patch import patched
from webhook.objects.takeback import Budget, take_back
from webhook.objects.tree import digest
from webhook.rows.placeholders import ABSENT, filling

WHOLE = ["command", "args", "values", "matchLabelKeys", "searches", "unknown", "matchExpressions", "items"]


def below(key: str, items: list[Any]) -> Any:
    return {"spec": {key: items}}


@pytest.mark.parametrize("key", WHOLE)
def test_one_value_keeps_the_order_that_is_wanted(key: str) -> None:
    wanted = below(key, ["bash", "-c", "NEW", "init", "wait"])
    assert patched(below(key, ["bash", "-c", "OLD", "init", "wait"]), {(): wanted})[0] == wanted
    assert patched(below(key, ["wait", "init", "NEW", "-c", "bash"]), {(): wanted})[0] == wanted


@pytest.mark.parametrize("key", WHOLE)
def test_one_value_is_replaced_whole(key: str) -> None:
    _, (operation,) = patched(below(key, ["a", "b", "c"]), {(): below(key, ["a", "c", "d"])})
    assert operation == {"op": "replace", "path": f"/spec/{key}", "value": ["a", "c", "d"]}


@pytest.mark.parametrize("key", WHOLE)
def test_one_value_is_merged_whole(key: str) -> None:
    merge = Merge(())
    assert merge.apply(below(key, ["a"]), below(key, ["a", "b"])) == below(key, ["a"])
    assert [conflict.path for conflict in merge.conflicts] == [f"spec.{key}"]
    assert Merge(()).apply({}, below(key, ["a", "b"])) == below(key, ["a", "b"])


@pytest.mark.parametrize("key", WHOLE)
def test_nothing_is_taken_out_of_one_value(key: str) -> None:
    template = below(key, ["a", "b"])
    assert take_back(template, {f"/spec/{key}": [digest("b")]}, Budget(template)) is template
    assert take_back(template, {f"/spec/{key}": digest(["a", "b"])}, Budget(template)) == {}
    assert digest(["\ud800a"]) != digest(["\ud800b"]), "half a surrogate pair, which orjson refuses"


@pytest.mark.parametrize("key", ["tolerations", "env"])
def test_what_was_taken_back_and_added_again_stays_at_its_place(key: str) -> None:
    ours, theirs = {"name": "ours"}, {"name": "theirs"}
    received = below(key, [ours, theirs])
    stored, patch = patched(received, {(): below(key, [theirs, dict(ours)])})
    assert stored is received
    assert patch == []


def test_no_list_is_two_things() -> None:
    assert not ADDED_TO & IDENTITY.keys()
    assert TERMS not in ADDED_TO | IDENTITY.keys()
    for name in EXPRESSIONS:
        assert kind(("affinity", TERMS, 0, name)) is Kind.ITEMS
        assert kind(("labelSelector", name)) is Kind.VALUE


def test_what_a_job_does_not_have_is_left_out_of_a_list_and_of_a_map() -> None:
    fill = filling({"a": ["b", "$(x.none)", "$(x.some)"], "c": "$(x.none)"})
    assert fill
    assert fill({"x.none": ABSENT, "x.some": ["d"]}) == {"a": ["b", ["d"]]}
