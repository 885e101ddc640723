"""Reviews near to real ones, each made from a seed and a number, and what must hold for every answer.

The quick tier has a few hundred, which find every defect that is put in below; the soak has 100,000.
"""

import json
from collections import Counter
from collections.abc import (
    Callable,
    Iterable,
)
from typing import Any

import pytest

from contract import keys
from tests.attack import check as checks
from tests.attack import forged
from tests.attack.cases import case
from tests.attack.check import BrokenError, check, work
from webhook.admission.review import encode
from webhook.objects import patch
from webhook.objects.tree import get
from webhook.undo import record
from webhook.undo.budget import Budget

CASES, BLOCKS = 20, 12
COUNTED = 20
"""The work of every so many-th case is counted; counting takes ten times the time."""


def verdicts(seed: int, numbers: Iterable[int]) -> Counter[str]:
    """What became of the cases of these numbers; the first that fails is shown."""
    became = Counter[str]()
    for number in numbers:
        made = case(seed, number)
        try:
            became[check(made, counted=number % COUNTED == 0)] += 1
        except BrokenError as error:
            shown = json.dumps({"object": made.obj, "request": made.request})
            message = f"case {number} of seed {seed} ({made.kind}): {error}\n{shown}"
            raise AssertionError(message) from error
    return became


@pytest.mark.parametrize("block", range(BLOCKS))
def test_what_must_hold_for_every_review_holds(seed: int, block: int) -> None:
    assert verdicts(seed, range(block * CASES, (block + 1) * CASES))["mutated"] > CASES / 4


@pytest.mark.soak
@pytest.mark.parametrize("block", range(100))
def test_what_must_hold_for_every_review_holds_for_many(seed: int, block: int) -> None:
    assert verdicts(seed, range(block * 1000, (block + 1) * 1000))["mutated"] > 250


def test_a_case_follows_from_its_seed_and_number(seed: int) -> None:
    assert case(seed, 3) == case(seed, 3)
    assert len({str(case(seed, number).obj) for number in range(20)}) > 15


@pytest.mark.parametrize("size", [20_000, pytest.param(60_000, marks=pytest.mark.soak)])
@pytest.mark.parametrize("kind", forged.KINDS)
def test_a_forged_record_costs_no_more_work_than_its_size_allows(kind: str, size: int) -> None:
    assert work(forged.body(kind, size)).calls > 100


def too_few_operations(monkeypatch: pytest.MonkeyPatch) -> None:
    difference = patch.difference

    def too_few(*trees: Any) -> tuple[Any, list[Any]]:
        after, operations = difference(*trees)
        return after, operations[:-1]

    monkeypatch.setattr(patch, "difference", too_few)


def pointers_not_escaped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patch, "pointer", lambda path: "".join(f"/{step}" for step in path))


def records_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Read without a look at what is in them."""

    def read(template: Any, key: str = keys.ADDED) -> Any:
        text = get(template, ("metadata", "annotations", key))
        found = json.loads(text) if text else None
        return found and record.Record(found["table"], found["added"], "")

    monkeypatch.setattr(record, "read", read)


def records_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record, "read", lambda *_: None)


def answers_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "encode", lambda *given: encode(*given) + b" " * 200_000)


DEFECTS: dict[str, tuple[Callable[[pytest.MonkeyPatch], None], str]] = {
    "an operation too few": (too_few_operations, "patch"),
    "pointers that are not escaped": (pointers_not_escaped, "patch"),
    "records that are believed": (records_believed, "raised"),
    "records that are not read": (records_not_read, "again"),
    "answers without end": (answers_without_end, "size"),
}


@pytest.mark.parametrize(("put_in", "found"), DEFECTS.values(), ids=DEFECTS)
def test_a_defect_is_found_by_the_few_cases_of_the_quick_tier(
    monkeypatch: pytest.MonkeyPatch, seed: int, put_in: Callable[[pytest.MonkeyPatch], None], found: str
) -> None:
    put_in(monkeypatch)
    with pytest.raises(AssertionError, match=f"case .*: {found}"):
        verdicts(seed, range(CASES * BLOCKS))


def test_work_beyond_the_size_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Budget, "spend", lambda *_: None)
    with pytest.raises(BrokenError, match="cost"):
        work(forged.body("expressions in a term", 20_000))
