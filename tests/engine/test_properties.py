"""What must hold for every object, with any content."""

import copy
import random
from typing import Any

import jsonpatch
from hypothesis import given
from hypothesis import strategies as st

from common.pointers import parse_pointer, pointer
from tests.admission.anything import mpijobs
from tests.engine.strategies import JSON, jobs, without_claims, without_void
from tests.helpers import examples
from webhook.engine import Outcome, Request, evaluate
from webhook.engine.outcome import Verdict
from webhook.objects.lists import identity
from webhook.objects.patch import compute_patch
from webhook.objects.tree import same
from webhook.rules.load import load_default

TABLE = load_default()


def answer(job: Any, uid: str = "uid-1", namespace: str = "default") -> Outcome:
    return evaluate(TABLE, Request(job, namespace, uid, "someone"))


@examples(35)
@given(jobs() | mpijobs())
def test_the_received_object_is_not_changed(job: Any) -> None:
    before = copy.deepcopy(job)
    answer(job)
    assert same(job, before)


@examples(35)
@given(jobs())
def test_what_the_user_wrote_is_still_there(job: Any) -> None:
    before = copy.deepcopy(job)
    for role in before["spec"]["mpiReplicaSpecs"].values():
        role["template"] = without_claims(role["template"])
    assert_kept(without_void(before), without_void(answer(job).after), ())


def assert_kept(before: Any, after: Any, path: tuple[str, ...]) -> None:
    """Checks that every leaf of before is in after, and that lists keep their elements in order."""
    if isinstance(before, dict):
        for key, value in before.items():
            assert key in after, (*path, key)
            assert_kept(value, after[key], (*path, key))
    elif isinstance(before, list):
        rest = iter(after)
        for item in before:
            result = next(
                (
                    other
                    for other in rest
                    if identity(item, path) == identity(other, path) or _term_of(item, other)
                ),
                None,
            )
            assert result is not None or item in (None, {}), (path, item)
            assert_kept(item, result, path)
    else:
        assert same(before, after), path


def _term_of(before: Any, after: Any) -> bool:
    """Returns a node selector term may have got expressions, and is the same alternative all the same."""
    if not (isinstance(before, dict) and isinstance(after, dict) and "matchExpressions" in after):
        return False
    mine = before.get("matchExpressions") or []
    return after["matchExpressions"][: len(mine)] == mine


@examples(35)
@given(jobs(), st.randoms(use_true_random=False))
def test_evaluation_depends_on_nothing_but_its_arguments(job: Any, rng: random.Random) -> None:
    first, second = answer(job), answer(shuffled(copy.deepcopy(job), rng))
    assert same(first.after, second.after)
    assert first.operations == answer(job).operations
    assert (first.rules, first.warnings, first.denials) == (second.rules, second.warnings, second.denials)


def shuffled(node: Any, rng: random.Random) -> Any:
    if isinstance(node, dict):
        items = [(key, shuffled(value, rng)) for key, value in node.items()]
        rng.shuffle(items)
        return dict(items)
    return [shuffled(item, rng) for item in node] if isinstance(node, list) else node


@examples(35)
@given(jobs(named=True), st.sampled_from([1, 2, 4, 8]))
def test_an_exported_job_that_is_renamed_moved_and_resized_gets_its_own_terms(
    job: Any, replicas: int
) -> None:
    def changed(job: Any) -> Any:
        job = copy.deepcopy(job)
        job["metadata"] |= {"name": "renamed", "namespace": "elsewhere"}
        job["spec"]["mpiReplicaSpecs"]["Worker"]["replicas"] = replicas
        return job

    exported = answer(changed(answer(job).after), namespace="elsewhere")
    fresh = answer(changed(job), namespace="elsewhere")
    assert exported.denials == fresh.denials
    if fresh.verdict is not Verdict.DENIED:
        assert same(without_void(exported.after), without_void(fresh.after))


@examples(20)
@given(JSON, JSON)
def test_operations_lead_from_any_tree_to_any_other(before: Any, after: Any) -> None:
    stored, patch = compute_patch({"it": before}, {(): {"it": after}})
    assert same(stored, {"it": after})
    assert same(jsonpatch.apply_patch({"it": before}, patch), stored)


@examples(35)
@given(st.lists(st.text(max_size=4)))
def test_a_pointer_can_be_parsed_into_its_path(path: list[str]) -> None:
    assert parse_pointer(pointer(tuple(path))) == tuple(path)
