"""Tests the invariants of the answers to almost valid reviews. A seed and a number determine each review.

The quick tier has a few hundred reviews, and the soak has 100,000.
"""

import json
from collections import Counter
from collections.abc import Iterable

import pytest

from tests.attack import forged
from tests.attack.cases import case
from tests.attack.check import BrokenError, check, work

CASES, BLOCKS = 20, 12
COUNTED = 20
"""The work is counted in each 20th case, because a counted case takes ten times as long."""


def count_results(seed: int, numbers: Iterable[int]) -> Counter[str]:
    """Returns the number of cases with each result; raises an error that shows the first case that fails."""
    result = Counter[str]()
    for number in numbers:
        review = case(seed, number)
        try:
            result[check(review, counted=number % COUNTED == 0)] += 1
        except BrokenError as error:
            content = json.dumps({"object": review.obj, "request": review.request})
            message = f"case {number} of seed {seed} ({review.kind}): {error}\n{content}"
            raise AssertionError(message) from error
    return result


@pytest.mark.parametrize("block", range(BLOCKS))
def test_the_invariants_hold_for_a_few_hundred_reviews(seed: int, block: int) -> None:
    assert count_results(seed, range(block * CASES, (block + 1) * CASES))["mutated"] > CASES / 4


@pytest.mark.soak
@pytest.mark.parametrize("block", range(100))
def test_the_invariants_hold_for_100000_reviews(seed: int, block: int) -> None:
    assert count_results(seed, range(block * 1000, (block + 1) * 1000))["mutated"] > 250


@pytest.mark.parametrize("size", [20_000, pytest.param(60_000, marks=pytest.mark.soak)])
@pytest.mark.parametrize("kind", forged.KINDS)
def test_a_forged_record_costs_no_more_work_than_its_size_allows(kind: str, size: int) -> None:
    assert work(forged.body(kind, size)).calls > 100
