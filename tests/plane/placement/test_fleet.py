"""Tests of a fleet of a thousand nodes, in which a user tries to stop all jobs."""

from pathlib import Path
from random import Random

import pytest

from testbed.experiment import hostile
from testbed.experiment.experiment import one_by_one
from testbed.experiment.stage import make_sick, staged

ULTRASERVERS = 250


@pytest.mark.soak
@pytest.mark.parametrize(
    "attack", [(hostile.forged_pod, 2_500, 500), (hostile.gated_pod, 10_000, 50)], ids=["forged", "gated"]
)
def test_on_a_thousand_nodes_all_jobs_are_placed_whole_next_to_a_hostile_namespace(
    attack: tuple[hostile.PodFactory, int, int], tools: Path, tmp_path: Path, seed: int
) -> None:
    sort, count, jobs = attack
    assert tools
    with staged(tmp_path, ultraservers=ULTRASERVERS) as stage:
        make_sick(stage, 0.25, Random(seed))  # noqa: S311 - a repeatable experiment
        created = hostile.create_pods(stage, count, sort)
        program = stage.start_program()
        result = one_by_one(stage, jobs, Random(seed), print)  # noqa: S311
        outcome = hostile.read_outcome(stage, created, program)
    assert created == count
    assert (result.whole, result.straddle, result.stuck, result.held) == (jobs, 0, 0, 0)
    assert outcome.deleted == 0
    assert outcome.peak < hostile.MEMORY
