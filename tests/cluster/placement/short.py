"""The short run of the experiment, as tests of a policy want it: few jobs, and a seed that nobody picked."""

from __future__ import annotations

import random
import secrets
from typing import TYPE_CHECKING

from tests.cluster.placement.experiment import QUIET_SECONDS, Result, burst, one_by_one
from tests.cluster.placement.stage import make_sick

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.cluster.placement.stage import Stage


def short_run(
    stage: Stage, mode: str, record: Callable[[str, object], None], patience: float = 0.0
) -> tuple[Result, object]:
    """Run it with sick nodes about, and with the policy's program where it has one.

    Args:
        stage: Where.
        mode: ``one`` job after the other, or a ``burst``.
        record: Gets the seed, with which the experiment runs it again.
        patience: Seconds for which a policy that could still do something is waited for.

    Returns:
        What became of the jobs, and the seed with what was said, for the message of a failure.
    """
    seed = secrets.randbits(32)
    record("seed", seed)
    chance = random.Random(seed)  # noqa: S311 - as above
    make_sick(stage, 0.3, chance)
    if stage.policy == "placement":
        stage.start_program()
    said: list[str] = []
    if mode == "one":
        result = one_by_one(stage, 8, chance, said.append, settle=patience or QUIET_SECONDS)
    else:
        result = burst(stage, chance, said.append, settle=4, patience=patience)
    return result, (seed, said)


def assert_all_whole(stage: Stage, mode: str, record: Callable[[str, object], None], patience: float) -> None:
    """Every job is placed whole, nothing straddles, and nothing is held in part."""
    result, seen = short_run(stage, mode, record, patience)
    assert mode == "one" or not result.overlooked, seen
    assert result.line() == f"whole {result.jobs} straddle 0 stuck 0 held 0 of {result.jobs}", seen
