"""Reviews near to real ones, each made from a seed and a number, and what must hold for every answer.

The quick tier has a few hundred; the soak has 100,000.
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
"""The work of one case in this many is counted; counting takes ten times the time."""


def verdicts(seed: int, numbers: Iterable[int]) -> Counter[str]:
    """Returns the result of the cases of these numbers; the first that fails is shown."""
    result = Counter[str]()
    for number in numbers:
        made = case(seed, number)
        try:
            result[check(made, counted=number % COUNTED == 0)] += 1
        except BrokenError as error:
            shown = json.dumps({"object": made.obj, "request": made.request})
            message = f"case {number} of seed {seed} ({made.kind}): {error}\n{shown}"
            raise AssertionError(message) from error
    return result


@pytest.mark.parametrize("block", range(BLOCKS))
def test_what_must_hold_for_every_review_holds(seed: int, block: int) -> None:
    assert verdicts(seed, range(block * CASES, (block + 1) * CASES))["mutated"] > CASES / 4


@pytest.mark.soak
@pytest.mark.parametrize("block", range(100))
def test_what_must_hold_for_every_review_holds_for_many(seed: int, block: int) -> None:
    assert verdicts(seed, range(block * 1000, (block + 1) * 1000))["mutated"] > 250


@pytest.mark.parametrize("size", [20_000, pytest.param(60_000, marks=pytest.mark.soak)])
@pytest.mark.parametrize("kind", forged.KINDS)
def test_a_forged_record_costs_no_more_work_than_its_size_allows(kind: str, size: int) -> None:
    assert work(forged.body(kind, size)).calls > 100
