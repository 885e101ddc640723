"""The short run of the placement experiment, as tests of a policy want it: few jobs."""

import random

import pytest

from testbed.experiment.experiment import QUIET_SECONDS, Result, burst, one_by_one
from testbed.experiment.stage import PROGRAM_POLICIES, Stage, make_sick
from testbed.waiting import PATIENCE

modes = pytest.mark.parametrize("mode", [pytest.param("one", marks=pytest.mark.soak), "burst"])
"""One job after the other, or more than there is room for at once."""


def short_run(stage: Stage, mode: str, seed: int, patience: float = 0.0) -> tuple[Result, list[str]]:
    """Runs it with sick nodes about, and with the policy's program where it has one.

    Args:
        stage: Where.
        mode: See ``modes``.
        seed: The seed of the jobs' sizes and the sick nodes.
        patience: Seconds for which a policy that could still do something is waited for.

    Returns:
        The results of the jobs, and the messages, for the text of a failure.
    """
    chance = random.Random(seed)  # noqa: S311 - no secret
    make_sick(stage, 0.3, chance)
    if stage.policy in PROGRAM_POLICIES:
        stage.start_program()
    texts: list[str] = []
    if mode == "one":
        result = one_by_one(stage, 8, chance, texts.append, settle=patience or QUIET_SECONDS)
    else:
        result = burst(stage, chance, texts.append, settle=4, patience=patience)
    return result, texts


def assert_all_whole(stage: Stage, mode: str, seed: int) -> None:
    """Every job is placed whole, nothing straddles, and nothing is held in part."""
    result, text = short_run(stage, mode, seed, PATIENCE)
    assert mode == "one" or not result.overlooked, text
    assert result.line() == f"whole {result.jobs} straddle 0 stuck 0 held 0 of {result.jobs}", text
