"""Some of the reviews of ``python -m tests.bench.fuzz``, and that it would find what it looks for."""

from __future__ import annotations

from typing import Any

import pytest

from tests.attack import forged
from tests.bench.fuzz import check as checks
from tests.bench.fuzz.__main__ import block
from tests.bench.fuzz.cases import Case, case
from tests.bench.fuzz.check import BrokenError, check, work
from tests.bench.fuzz.shrink import shrunk
from webhook.engine import patch

SEED = 8
CASES, BLOCKS = 250, 8


@pytest.mark.parametrize("number", range(BLOCKS))
def test_what_must_hold_for_every_review_holds(number: int) -> None:
    became, failed = block(SEED, number * CASES, CASES)
    assert not failed, f"python -m tests.bench.fuzz --seed {SEED} --case {failed[0][0]}: {failed[0][1]}"
    assert sum(count for name, count in became.items() if name.endswith(": mutated")) > CASES / 4


def test_a_case_follows_from_its_seed_and_number() -> None:
    assert case(SEED, 3) == case(SEED, 3)
    assert len({str(case(SEED, number).obj) for number in range(20)}) > 15


@pytest.mark.parametrize("size", [5_000, 40_000])
@pytest.mark.parametrize("kind", forged.KINDS)
def test_a_forged_record_costs_no_more_work_than_its_size_allows(kind: str, size: int) -> None:
    assert work(forged.body(kind, size)).calls > 100


def test_an_operation_too_few_is_found_and_shrunk(monkeypatch: pytest.MonkeyPatch) -> None:
    difference = patch.difference

    def too_few(*trees: Any) -> tuple[Any, list[Any]]:
        after, operations = difference(*trees)
        return after, operations[:-1]

    monkeypatch.setattr(patch, "difference", too_few)
    made = next(made for made in (case(SEED, number) for number in range(50)) if _broken(made))
    small = shrunk(made, tries=300)
    assert _broken(small)
    assert len(str(small.obj)) < len(str(made.obj))


def test_work_beyond_the_size_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "CALLS_FLOOR", 10)
    monkeypatch.setattr(checks, "CALLS_PER_KB", 1)
    with pytest.raises(BrokenError, match="cost"):
        check(Case("plain", forged.job("plain", 0)), counted=True)


def _broken(made: Case) -> bool:
    try:
        check(made)
    except BrokenError:
        return True
    return False
