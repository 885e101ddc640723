"""What an evaluation costs grows with the object and no faster, with any content; so does the answer.

Nothing here looks at a clock: calls are counted, and what is read and written in one call by its length.
"""

import json
import sys
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest

from testbed.mpijob import WORKER, mpijob
from tests.bench.engine.plain import calls_of, plain
from tests.engine.hostile import GENERATORS, NODE_TERMS, expressions, nested, recorded, terms
from tests.helpers import requested
from webhook.admission import handlers
from webhook.admission.review import Review, encode
from webhook.engine import Outcome, evaluate, update
from webhook.engine.messages import MOST_MESSAGES, Message, limit_messages
from webhook.objects import tree
from webhook.objects.merge import MAX_SELECTOR_TERMS
from webhook.objects.takeback import MINIMUM_STEPS, STEPS_PER_CHARACTER, Budget, OverBudgetError
from webhook.objects.tree import get, put
from webhook.rules.load import load_default

TABLE = load_default()
SIZES = (10_000, 40_000)
LONG = (80_000, 320_000)

CALLS_PER_KB = 6500
"""Python and C calls, some five million a second; 64 characters made canonical or digested count as one."""

IN_PROPORTION = 1.1
"""What cannot be counted better, so that no constant hides a cost that grows faster than the object."""

PLAIN_CALLS = 450
"""Calls of this project's functions, for a job as `tests.bench.engine.plain` has it."""

UPDATE_CALLS_PER_KB = 5000
"""Units for both objects, as additions are removed from each. A millisecond."""

ANSWER_RATIO, ANSWER_CONSTANT = 14, 100_000
"""Maximum size of an answer in bytes, by its request; the constant is for the init scripts."""


def counted(call: Callable[[], Any], monkeypatch: pytest.MonkeyPatch) -> int:
    """Returns how many calls something makes."""
    calls = 0
    original = tree._CANONICAL.encode  # noqa: SLF001 - what is to be counted

    class Encoder:
        def encode(self, value: Any) -> str:
            nonlocal calls
            text = original(value)
            calls += len(text) // 64
            return text

    def digested(text: str) -> str:
        nonlocal calls
        calls += len(text) // 64
        return tree.digest_of_text(text)

    def count(_frame: Any, event: str, _argument: Any) -> None:
        nonlocal calls
        calls += event in {"call", "c_call"}

    before = sys.getprofile()
    with monkeypatch.context() as patched:
        patched.setattr(tree, "_CANONICAL", Encoder())
        patched.setattr("webhook.objects.takeback.digest_of_text", digested)
        sys.setprofile(count)
        try:
            call()
        finally:
            sys.setprofile(before)
    return calls


@cache
def made(name: str, size: int) -> Any:
    """Returns an object of the generator of that name."""
    return GENERATORS[name](size)


@cache
def evaluated(name: str, size: int) -> Outcome:
    """Returns the outcome."""
    return evaluate(TABLE, requested(made(name, size)))


def kilobytes(*objects: Any) -> float:
    return sum(len(json.dumps(obj)) for obj in objects) / 1000


@pytest.mark.parametrize("sizes", [SIZES, pytest.param(LONG, marks=pytest.mark.soak)], ids=str)
@pytest.mark.parametrize("name", GENERATORS)
def test_no_object_costs_more_than_its_size_allows_nor_more_than_in_proportion(
    name: str, sizes: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    objects = [made(name, size) for size in sizes]
    short, long = (counted(lambda obj=obj: evaluate(TABLE, requested(obj)), monkeypatch) for obj in objects)
    assert long <= 20_000 + CALLS_PER_KB * kilobytes(objects[1])
    assert long <= IN_PROPORTION * short * kilobytes(objects[1]) / kilobytes(objects[0])


@pytest.mark.parametrize("what", ["the file", "what is stored"])
@pytest.mark.parametrize("size", [SIZES[1], pytest.param(LONG[1], marks=pytest.mark.soak)])
@pytest.mark.parametrize("name", GENERATORS)
def test_no_update_costs_more_than_its_two_objects_allow(
    name: str, size: int, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = put(made(name, size), ("spec", "runPolicy"), {"suspend": True})
    stored = evaluate(TABLE, requested(file)).after
    new = file if what == "the file" else stored
    calls = counted(lambda: update(TABLE, requested(new), stored), monkeypatch)
    assert calls <= 20_000 + UPDATE_CALLS_PER_KB * kilobytes(new, stored)


@pytest.mark.parametrize("name", GENERATORS)
def test_the_result_is_admitted_without_a_further_change(name: str) -> None:
    outcome = evaluated(name, SIZES[0])
    assert evaluate(TABLE, requested(outcome.after)).operations == ()
    if not outcome.denials:
        required = handlers.require(TABLE, Review("uid", requested(outcome.after), "CREATE", "MPIJob", ""))
        assert required is not None
        assert required.denials == ()


@pytest.mark.parametrize("name", GENERATORS)
def test_the_answer_is_no_longer_than_a_small_multiple_of_the_request(name: str) -> None:
    for size in SIZES:
        answer = encode("uid", evaluated(name, size))
        assert len(answer) <= ANSWER_CONSTANT + ANSWER_RATIO * 1000 * kilobytes(made(name, size))


@pytest.mark.parametrize(
    "count",
    [1, 101, 500, *(pytest.param(count, marks=pytest.mark.soak) for count in (2000, MAX_SELECTOR_TERMS))],
)
def test_a_job_of_many_node_terms_is_read_back_as_it_was(count: int) -> None:
    job = terms([{"matchExpressions": [{"key": f"k{n}", "operator": "Exists"}]} for n in range(count)])
    stored = evaluate(TABLE, requested(job))
    assert stored.denials == ()
    assert evaluate(TABLE, requested(stored.after)).operations == ()
    required = handlers.require(TABLE, Review("uid", requested(stored.after), "CREATE", "MPIJob", "train"))
    assert required is not None
    assert required.denials == ()
    second = put(stored.after, ("metadata", "name"), "second")
    fresh = evaluate(TABLE, requested(put(job, ("metadata", "name"), "second")))
    assert evaluate(TABLE, requested(second)).after == fresh.after


def test_more_node_terms_than_can_be_stored_are_refused_with_the_way_out() -> None:
    (denial,) = evaluate(TABLE, requested(terms([{"matchExpressions": [{}]}] * 100_000))).denials
    assert denial.startswith("100000 terms are more than 2000, so no requirement can be added")
    assert denial.endswith(".".join(NODE_TERMS))


def test_many_node_terms_are_answered_with_one_operation() -> None:
    outcome = evaluate(TABLE, requested(terms([{"matchExpressions": [{}]}] * 500)))
    assert [op["op"] for op in outcome.operations if op["path"].endswith("nodeSelectorTerms")] == ["replace"]


def over_budget(job: Any) -> Any:
    """Returns a job whose record costs more than the budget: one long text, under many names."""
    deep = nested(100, "x" * 40_000)
    return recorded(put(job, (*WORKER, "spec", "a"), deep), {"/spec" + "/a" * n: "0" for n in range(1, 100)})


def test_a_record_beyond_the_budget_is_ignored_with_a_warning() -> None:
    outcome = evaluate(TABLE, requested(over_budget(mpijob(4))))
    (warning,) = outcome.warnings
    assert "is ignored, because it lists fields that the webhook never adds" in warning
    assert warning.startswith(
        "annotation spec.mpiReplicaSpecs.Worker.template.metadata.annotations[ultraserver-"
    )
    fresh = evaluate(
        TABLE, requested(put(mpijob(4), (*WORKER, "spec", "a"), get(outcome.after, (*WORKER, "spec", "a"))))
    )
    assert outcome.after == fresh.after


def test_a_plain_job_costs_few_calls() -> None:
    """Protects creates from conditions of which each looks again at what all of them need."""
    assert calls_of(TABLE, plain()).total() <= PLAIN_CALLS


def test_a_budget_grows_with_the_object_and_is_spent_once() -> None:
    budget = Budget({"a": "x" * 1000})
    budget.spend(MINIMUM_STEPS)
    budget.spend(STEPS_PER_CHARACTER * 1000)
    with pytest.raises(OverBudgetError):
        budget.spend(STEPS_PER_CHARACTER * 10)


def test_messages_are_bounded_in_length_and_number() -> None:
    outcome: Outcome = evaluate(
        TABLE, requested(put(mpijob(4), ("spec", "sshAuthMountPath"), ["x" * 9000] * 100))
    )
    assert outcome.denials
    assert all(len(text) <= 1000 for text in (*outcome.denials, *outcome.warnings, outcome.reason))
    numbers = [Message("value-kept", str(number)) for number in range(MOST_MESSAGES + 5)]
    assert limit_messages(numbers) == (*numbers[: MOST_MESSAGES - 1], "and 6 more")


def test_only_the_two_known_lists_of_a_term_are_looked_at() -> None:
    term = {"other": expressions(3), "matchExpressions": expressions(1)}
    added = tree.digest([{**term, "other": expressions(2)}, expressions(3)[2]])
    job = recorded(terms([term]), {"/" + "/".join(NODE_TERMS): [added]})
    assert get(evaluate(TABLE, requested(job)).after, (*WORKER, *NODE_TERMS))[0]["other"] == expressions(3)
