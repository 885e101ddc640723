"""The short run of the experiment with Kueue: every job whole, nothing across units, nothing held in part."""

from __future__ import annotations

import random
import secrets
from typing import TYPE_CHECKING

import pytest

from tests.cluster.placement.experiment import burst, one_by_one
from tests.cluster.placement.stage import make_sick
from tests.waiting import PATIENCE

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.cluster.placement.stage import Stage


@pytest.mark.parametrize("mode", ["one", "burst"])
def test_every_job_is_placed_whole_and_nothing_is_held_in_part(
    mode: str, stage: Stage, record_property: Callable[[str, object], None]
) -> None:
    # A seed that nobody picked; a failure shows it, and the experiment runs it again.
    seed = secrets.randbits(32)
    record_property("seed", seed)
    chance = random.Random(seed)  # noqa: S311 - as above
    make_sick(stage, 0.3, chance)
    said: list[str] = []
    if mode == "one":
        result = one_by_one(stage, 8, chance, said.append, settle=PATIENCE)
    else:
        result = burst(stage, chance, said.append, settle=4, patience=PATIENCE)
        assert not result.overlooked, (seed, said)
    assert result.line() == f"whole {result.jobs} straddle 0 stuck 0 held 0 of {result.jobs}", (seed, said)
