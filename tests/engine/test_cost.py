"""Tests that the cost of an evaluation, and the length of its answer, stay in proportion to the object.

The tests measure no time. They count calls, and the characters that one call serializes or digests.
"""

import json
import sys
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest

from common.pointers import field_name
from contract.keys import ADDED
from testbed.mpijob import WORKER, mpijob
from tests.bench.engine.plain import calls_of, plain_job
from tests.engine.hostile import GENERATORS, NODE_TERMS, expressions, job_with_terms, nested, with_record
from tests.helpers import request_for
from webhook.admission import handlers
from webhook.admission.review import Review, encode
from webhook.engine import Outcome, evaluate, update
from webhook.engine.messages import MOST_MESSAGES, Message, limit_messages, message
from webhook.objects import messages, tree
from webhook.objects.merge import MAX_SELECTOR_TERMS
from webhook.objects.takeback import MINIMUM_STEPS, STEPS_PER_CHARACTER, Budget, OverBudgetError
from webhook.objects.tree import get, put
from webhook.rules.load import load_default

TABLE = load_default()
SIZES = (10_000, 40_000)
LONG_SIZES = (80_000, 320_000)

CALLS_PER_KB = 6500
"""Maximum of `count_calls` for a kilobyte of the object. A CPU makes about five million calls a second."""

GROWTH_RATIO = 1.1
"""Maximum ratio of the calls per kilobyte for a long object to the calls per kilobyte for a short object."""

PLAIN_CALLS = 450
"""Maximum number of calls of the project's functions for the job of `tests.bench.engine.plain`."""

UPDATE_CALLS_PER_KB = 5000
"""Maximum number of calls for a kilobyte of both objects together. Additions are removed from both."""

ANSWER_RATIO, ANSWER_CONSTANT = 14, 100_000
"""The maximum length of an answer is the ratio times the request, plus the constant for init scripts."""


def count_calls(call: Callable[[], Any], monkeypatch: pytest.MonkeyPatch) -> int:
    """Returns the number of calls in a function. 64 serialized or digested characters are one more call."""
    calls = 0
    original = tree._CANONICAL.encode  # noqa: SLF001 - its characters are counted

    class Encoder:
        def encode(self, value: Any) -> str:
            nonlocal calls
            text = original(value)
            calls += len(text) // 64
            return text

    def count_digested(text: str) -> str:
        nonlocal calls
        calls += len(text) // 64
        return tree.digest_of_text(text)

    def count(_frame: Any, event: str, _argument: Any) -> None:
        nonlocal calls
        calls += event in {"call", "c_call"}

    profiler = sys.getprofile()
    with monkeypatch.context() as patched:
        patched.setattr(tree, "_CANONICAL", Encoder())
        patched.setattr("webhook.objects.takeback.digest_of_text", count_digested)
        sys.setprofile(count)
        try:
            call()
        finally:
            sys.setprofile(profiler)
    return calls


@cache
def create_object(name: str, size: int) -> Any:
    """Returns the object of a generator for a size."""
    return GENERATORS[name](size)


@cache
def evaluate_object(name: str, size: int) -> Outcome:
    """Returns the outcome for a generated object."""
    return evaluate(TABLE, request_for(create_object(name, size)))


def kilobytes(*objects: Any) -> float:
    return sum(len(json.dumps(obj)) for obj in objects) / 1000


@pytest.mark.parametrize("sizes", [SIZES, pytest.param(LONG_SIZES, marks=pytest.mark.soak)], ids=str)
@pytest.mark.parametrize("name", GENERATORS)
def test_the_calls_for_an_object_have_a_maximum_and_grow_in_proportion_to_its_size(
    name: str, sizes: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    objects = [create_object(name, size) for size in sizes]
    short, long = (
        count_calls(lambda obj=obj: evaluate(TABLE, request_for(obj)), monkeypatch) for obj in objects
    )
    assert long <= 20_000 + CALLS_PER_KB * kilobytes(objects[1])
    assert long <= GROWTH_RATIO * short * kilobytes(objects[1]) / kilobytes(objects[0])


@pytest.mark.parametrize("sent", ["the file", "the stored object"])
@pytest.mark.parametrize("size", [SIZES[1], pytest.param(LONG_SIZES[1], marks=pytest.mark.soak)])
@pytest.mark.parametrize("name", GENERATORS)
def test_the_calls_for_an_update_have_a_maximum_for_the_size_of_both_objects(
    name: str, size: int, sent: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = put(create_object(name, size), ("spec", "runPolicy"), {"suspend": True})
    stored = evaluate(TABLE, request_for(file)).after
    new = file if sent == "the file" else stored
    calls = count_calls(lambda: update(TABLE, request_for(new), stored), monkeypatch)
    assert calls <= 20_000 + UPDATE_CALLS_PER_KB * kilobytes(new, stored)


@pytest.mark.parametrize("name", GENERATORS)
def test_a_mutated_object_gets_no_further_change_and_is_not_refused(name: str) -> None:
    outcome = evaluate_object(name, SIZES[0])
    assert evaluate(TABLE, request_for(outcome.after)).operations == ()
    if not outcome.denials:
        verdict = handlers.require(TABLE, Review("uid", request_for(outcome.after), "CREATE", "MPIJob", ""))
        assert verdict is not None
        assert verdict.denials == ()


@pytest.mark.parametrize("name", GENERATORS)
def test_the_answer_is_at_most_a_small_multiple_of_the_request(name: str) -> None:
    for size in SIZES:
        answer = encode("uid", evaluate_object(name, size))
        assert len(answer) <= ANSWER_CONSTANT + ANSWER_RATIO * 1000 * kilobytes(create_object(name, size))


@pytest.mark.parametrize(
    "count",
    [1, 101, 500, *(pytest.param(count, marks=pytest.mark.soak) for count in (2000, MAX_SELECTOR_TERMS))],
)
def test_the_additions_to_many_node_selector_terms_are_recognized(count: int) -> None:
    job = job_with_terms(
        [{"matchExpressions": [{"key": f"k{n}", "operator": "Exists"}]} for n in range(count)]
    )
    stored = evaluate(TABLE, request_for(job))
    assert stored.denials == ()
    assert evaluate(TABLE, request_for(stored.after)).operations == ()
    verdict = handlers.require(TABLE, Review("uid", request_for(stored.after), "CREATE", "MPIJob", "train"))
    assert verdict is not None
    assert verdict.denials == ()
    renamed_job = put(stored.after, ("metadata", "name"), "second")
    fresh_outcome = evaluate(TABLE, request_for(put(job, ("metadata", "name"), "second")))
    assert evaluate(TABLE, request_for(renamed_job)).after == fresh_outcome.after


def test_too_many_node_selector_terms_are_refused_with_the_path() -> None:
    (denial,) = evaluate(TABLE, request_for(job_with_terms([{"matchExpressions": [{}]}] * 100_000))).denials
    path = field_name((*WORKER, *NODE_TERMS))
    text = messages.many_terms(100_000, MAX_SELECTOR_TERMS, path)
    assert (denial.code, denial) == ("too-many-terms", text)


def test_the_patch_of_many_node_selector_terms_is_one_operation() -> None:
    outcome = evaluate(TABLE, request_for(job_with_terms([{"matchExpressions": [{}]}] * 500)))
    assert [op["op"] for op in outcome.operations if op["path"].endswith("nodeSelectorTerms")] == ["replace"]


def job_with_expensive_record(job: Any) -> Any:
    """Returns a job whose record costs more than the budget: it lists 99 parents of a long text."""
    value = nested(100, "x" * 40_000)
    return with_record(
        put(job, (*WORKER, "spec", "a"), value), {"/spec" + "/a" * n: "0" for n in range(1, 100)}
    )


def test_a_record_beyond_the_budget_is_ignored_with_a_warning() -> None:
    outcome = evaluate(TABLE, request_for(job_with_expensive_record(mpijob(4))))
    (warning,) = outcome.warnings
    path = field_name((*WORKER, "metadata", "annotations", ADDED))
    assert (warning.code, warning) == ("record-ignored", message("record-ignored", path))
    fresh_outcome = evaluate(
        TABLE, request_for(put(mpijob(4), (*WORKER, "spec", "a"), get(outcome.after, (*WORKER, "spec", "a"))))
    )
    assert outcome.after == fresh_outcome.after


def test_a_plain_job_costs_few_calls() -> None:
    """Protects creations from conditions that repeat each other's searches."""
    assert calls_of(TABLE, plain_job()).total() <= PLAIN_CALLS


def test_a_budget_grows_only_once_by_the_size_of_the_object() -> None:
    budget = Budget({"a": "x" * 1000})
    budget.spend(MINIMUM_STEPS)
    budget.spend(STEPS_PER_CHARACTER * 1000)
    with pytest.raises(OverBudgetError):
        budget.spend(STEPS_PER_CHARACTER * 10)


def test_messages_are_bounded_in_length_and_number() -> None:
    outcome: Outcome = evaluate(
        TABLE, request_for(put(mpijob(4), ("spec", "sshAuthMountPath"), ["x" * 9000] * 100))
    )
    assert outcome.denials
    assert all(len(text) <= 1000 for text in (*outcome.denials, *outcome.warnings, outcome.reason))
    numbers = [Message("value-kept", str(number)) for number in range(MOST_MESSAGES + 5)]
    assert limit_messages(numbers) == (*numbers[: MOST_MESSAGES - 1], "and 6 more")


def test_additions_are_removed_only_from_the_two_known_lists_of_a_term() -> None:
    term = {"other": expressions(3), "matchExpressions": expressions(1)}
    digest = tree.digest([{**term, "other": expressions(2)}, expressions(3)[2]])
    job = with_record(job_with_terms([term]), {"/" + "/".join(NODE_TERMS): [digest]})
    assert get(evaluate(TABLE, request_for(job)).after, (*WORKER, *NODE_TERMS))[0]["other"] == expressions(3)
