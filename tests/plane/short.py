"""Short runs of the placement experiment, with few jobs, for each way to place jobs (``Stage.policy``)."""

import random

import pytest

from testbed.experiment.experiment import QUIET_SECONDS, Result, burst, one_by_one
from testbed.experiment.stage import PROGRAM_POLICIES, Stage, make_sick
from testbed.waiting import PATIENCE

modes = pytest.mark.parametrize("mode", [pytest.param("one", marks=pytest.mark.soak), "burst"])
"""``one``: jobs one after the other. ``burst``: more jobs at once than the nodes have room for."""


def short_run(stage: Stage, mode: str, seed: int, patience: float = 0.0) -> tuple[Result, list[str]]:
    """Runs the experiment with sick nodes, and with the placement program if ``stage.policy`` uses it.

    Args:
        stage: The cluster.
        mode: ``one`` or ``burst``, see ``modes``.
        seed: The seed of the jobs' sizes and the sick nodes.
        patience: Seconds without a change before the result is final, while a job could still start.

    Returns:
        The result, and the messages of the run, for the text of a failed assertion.
    """
    chance = random.Random(seed)  # noqa: S311 - no secret
    make_sick(stage, 0.3, chance)
    if stage.policy in PROGRAM_POLICIES:
        stage.start_program()
    messages: list[str] = []
    if mode == "one":
        result = one_by_one(stage, 8, chance, messages.append, settle=patience or QUIET_SECONDS)
    else:
        result = burst(stage, chance, messages.append, settle=4, patience=patience)
    return result, messages


def assert_all_whole(stage: Stage, mode: str, seed: int) -> None:
    """Asserts that every job is placed whole, and that no job holds only a part of its nodes."""
    result, messages = short_run(stage, mode, seed, PATIENCE)
    assert mode == "one" or not result.overlooked, messages
    assert result.line() == f"whole {result.jobs} straddle 0 stuck 0 held 0 of {result.jobs}", messages
