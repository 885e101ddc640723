"""Tests of properties that every evaluation and every patch must have."""

import copy
import random
from typing import Any

import jsonpatch
from hypothesis import given
from hypothesis import strategies as st

from common.pointers import parse_pointer, pointer
from tests.admission.anything import mpijobs
from tests.engine.strategies import JSON, jobs, without_empty_values, without_marks
from tests.helpers import examples
from webhook.engine import Outcome, Request, evaluate
from webhook.engine.outcome import Response
from webhook.objects.lists import identity
from webhook.objects.patch import compute_patch
from webhook.objects.tree import same
from webhook.rules.load import load_default

TABLE = load_default()


def outcome_of(job: Any, uid: str = "uid-1", namespace: str = "default") -> Outcome:
    return evaluate(TABLE, Request(job, namespace, uid, "someone"))


@examples(35)
@given(jobs() | mpijobs())
def test_the_received_object_is_not_changed(job: Any) -> None:
    before = copy.deepcopy(job)
    outcome_of(job)
    assert same(job, before)


@examples(35)
@given(jobs())
def test_every_value_of_the_user_is_kept(job: Any) -> None:
    before = copy.deepcopy(job)
    for role in before["spec"]["mpiReplicaSpecs"].values():
        role["template"] = without_marks(role["template"])
    assert_kept(without_empty_values(before), without_empty_values(outcome_of(job).after), ())


def assert_kept(before: Any, after: Any, path: tuple[str, ...]) -> None:
    """Checks that `after` has every value of `before`, and that lists keep the order of their elements."""
    if isinstance(before, dict):
        for key, value in before.items():
            assert key in after, (*path, key)
            assert_kept(value, after[key], (*path, key))
    elif isinstance(before, list):
        rest = iter(after)
        for item in before:
            kept_item = next(
                (
                    other
                    for other in rest
                    if identity(item, path) == identity(other, path) or _is_extended_term(item, other)
                ),
                None,
            )
            assert kept_item is not None or item in (None, {}), (path, item)
            assert_kept(item, kept_item, path)
    else:
        assert same(before, after), path


def _is_extended_term(before: Any, after: Any) -> bool:
    """Returns whether a value is a node selector term to which only expressions were added."""
    if not (isinstance(before, dict) and isinstance(after, dict) and "matchExpressions" in after):
        return False
    expressions = before.get("matchExpressions") or []
    return after["matchExpressions"][: len(expressions)] == expressions


@examples(35)
@given(jobs(), st.randoms(use_true_random=False))
def test_the_result_is_the_same_each_time_and_for_any_order_of_keys(job: Any, rng: random.Random) -> None:
    first, second = outcome_of(job), outcome_of(shuffle_keys(copy.deepcopy(job), rng))
    assert same(first.after, second.after)
    assert first.operations == outcome_of(job).operations
    assert (first.rules, first.warnings, first.denials) == (second.rules, second.warnings, second.denials)


def shuffle_keys(node: Any, rng: random.Random) -> Any:
    if isinstance(node, dict):
        items = [(key, shuffle_keys(value, rng)) for key, value in node.items()]
        rng.shuffle(items)
        return dict(items)
    return [shuffle_keys(item, rng) for item in node] if isinstance(node, list) else node


@examples(35)
@given(jobs(has_name=True), st.sampled_from([1, 2, 4, 8]))
def test_an_exported_job_that_is_renamed_moved_and_resized_gets_its_own_terms(
    job: Any, replicas: int
) -> None:
    def change(job: Any) -> Any:
        job = copy.deepcopy(job)
        job["metadata"] |= {"name": "renamed", "namespace": "elsewhere"}
        job["spec"]["mpiReplicaSpecs"]["Worker"]["replicas"] = replicas
        return job

    exported_outcome = outcome_of(change(outcome_of(job).after), namespace="elsewhere")
    fresh_outcome = outcome_of(change(job), namespace="elsewhere")
    assert exported_outcome.denials == fresh_outcome.denials
    if fresh_outcome.response is not Response.DENIED:
        assert same(without_empty_values(exported_outcome.after), without_empty_values(fresh_outcome.after))


@examples(20)
@given(JSON, JSON)
def test_a_patch_changes_any_object_into_any_other_object(before: Any, after: Any) -> None:
    stored, patch = compute_patch({"it": before}, {(): {"it": after}})
    assert same(stored, {"it": after})
    assert same(jsonpatch.apply_patch({"it": before}, patch), stored)


@examples(35)
@given(st.lists(st.text(max_size=4)))
def test_a_pointer_can_be_parsed_into_its_path(path: list[str]) -> None:
    assert parse_pointer(pointer(tuple(path))) == tuple(path)
