"""Writes that lose when somebody else was faster."""

from __future__ import annotations

import pytest

from kube.api import ApiError, ConflictError
from kube.backoff import JITTER, Backoff
from kube.store import guarded, put
from tests.kube.fake import FakeApi

THINGS = "/api/v1/namespaces/a/things"


def test_what_did_not_exist_is_created_and_what_did_is_replaced() -> None:
    api = FakeApi()
    known = put(api, THINGS, None, {"metadata": {"name": "one"}, "data": 1})
    put(api, THINGS, known, {**known, "data": 2})
    assert api.objects[f"{THINGS}/one"]["data"] == 2
    assert api.writes == ["POST one", "PUT one"]


def test_a_write_from_an_older_version_loses() -> None:
    api = FakeApi()
    known = put(api, THINGS, None, {"metadata": {"name": "one"}})
    api.put(f"{THINGS}/one", {"metadata": {"name": "one"}, "data": "a stranger's"})
    operations = [{"op": "add", "path": "/data", "value": "mine"}]
    for write in (
        lambda: put(api, THINGS, None, {"metadata": {"name": "one"}}),
        lambda: put(api, THINGS, known, known),
        lambda: api.patch(f"{THINGS}/one", guarded(known, operations)),
    ):
        with pytest.raises(ConflictError):
            write()
    assert api.objects[f"{THINGS}/one"]["data"] == "a stranger's"
    newest = api.get(f"{THINGS}/one") or {}
    assert api.patch(f"{THINGS}/one", guarded(newest, operations))["data"] == "mine"


def test_a_deletion_is_done_once_and_repeated_in_vain() -> None:
    api = FakeApi()
    put(api, THINGS, None, {"metadata": {"name": "one"}})
    api.delete(f"{THINGS}/one")
    api.delete(f"{THINGS}/one")
    assert api.writes == ["POST one", "DELETE one"]
    api.refuse = "DELETE"
    with pytest.raises(ApiError):
        api.delete(f"{THINGS}/one")


def test_waits_double_up_to_the_longest_and_begin_anew_after_a_success() -> None:
    backoff = Backoff(first=1.0, most=5.0)
    waits = [backoff.next() for _ in range(5)]
    for wait, about in zip(waits, (1, 2, 4, 5, 5), strict=True):
        assert about * (1 - JITTER) <= wait <= about * (1 + JITTER)
    backoff.reset()
    assert backoff.next() <= 1 + JITTER
