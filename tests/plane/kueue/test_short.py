"""The short run of the experiment with Kueue: every job whole, nothing across units, nothing held in part."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from testbed.waiting import PATIENCE
from tests.plane.short import assert_all_whole, modes

if TYPE_CHECKING:
    from testbed.experiment.stage import Stage


@pytest.mark.soak
@modes
def test_every_job_is_placed_whole_and_nothing_is_held_in_part(mode: str, stage: Stage, seed: int) -> None:
    assert_all_whole(stage, mode, seed, PATIENCE)
