"""The units that the program knows, while the files of the table come, break and go."""

import logging
from pathlib import Path

import pytest

from placement.topology import UNITS
from placement.units import Followed

RACKS = "shapes:\n  - {name: racks, nodeConfig: 18, topologyKey: example.com/rack}\n"
NAMELESS = "shapes: [{nodeConfig: 4}]"
BROKEN = ["shapes: [", "# a comment only", "shapes: [{name: !!int ''}]", "[]", "shapes: 1", NAMELESS]


@pytest.mark.parametrize("broken", BROKEN)
def test_a_table_that_breaks_or_goes_takes_no_unit_from_jobs_that_stand_in_it(
    broken: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    rows = tmp_path / "rules.yaml"
    rows.write_text(broken)
    followed = Followed(tmp_path)
    with caplog.at_level(logging.ERROR, "placement"):
        assert followed() == followed() == UNITS
        rows.write_text(RACKS)
        assert followed() == UNITS | {("example.com/rack", 18)}
        rows.write_text(broken)
        assert followed() == UNITS | {("example.com/rack", 18)}
    assert len(caplog.records) == 2, "once for each time that it breaks"
    rows.unlink()
    assert followed() == UNITS | {("example.com/rack", 18)}
