"""The short run of the experiment: every job whole, nothing across units, nothing held in part."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.cluster.placement.short import assert_all_whole
from tests.waiting import PATIENCE

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.cluster.placement.stage import Stage


@pytest.mark.parametrize("mode", ["one", "burst"])
def test_every_job_is_placed_whole_and_nothing_is_held_in_part(
    mode: str, stage: Stage, record_property: Callable[[str, object], None]
) -> None:
    assert_all_whole(stage, mode, record_property, PATIENCE)
