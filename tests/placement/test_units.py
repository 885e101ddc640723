"""The units that the program has read, while the files of the table appear, break and disappear."""

import logging
from pathlib import Path
from typing import Any

import pytest

from placement.observe.model import UNITS, UnitKind, UnitSettings
from placement.observe.units import watch_units
from tests.rules.tables import mounted

RACKS = "families: [{name: racks, units: [{label: example.com/rack, nodes: 18}]}]\n"
NAMELESS = "families: [{units: []}]"
BROKEN = ["families: [", "# a comment only", "families: [{name: !!int ''}]", "[]", "families: 1", NAMELESS]


@pytest.mark.parametrize("broken", BROKEN)
def test_a_broken_or_missing_table_takes_no_unit_from_placed_jobs(
    broken: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    rows = tmp_path / "rules.yaml"
    rows.write_text(broken)
    units = watch_units(tmp_path).refresh
    with caplog.at_level(logging.ERROR, "placement"):
        assert units() == units() == UNITS
        rows.write_text(RACKS)
        assert units() == UNITS | UnitSettings({"example.com/rack": UnitKind(18)})
        rows.write_text(broken)
        assert units() == UNITS | UnitSettings({"example.com/rack": UnitKind(18)})
    assert len(caplog.records) == 2, "once for each time that it breaks"
    rows.unlink()
    assert units() == UNITS | UnitSettings({"example.com/rack": UnitKind(18)})


def test_a_file_that_the_webhook_does_not_read_has_no_effect(tmp_path: Path) -> None:
    (tmp_path / "racks.yxml").write_text(RACKS)
    assert watch_units(tmp_path).refresh() == UNITS


def test_all_files_are_of_one_version_of_a_mounted_config_map(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mounted(tmp_path, "..1", a="", b="")
    opens = Path.open

    def opening(file: Path, *mode: Any, **named: Any) -> Any:
        """Returns as the kubelet swaps the versions between the first file and the second."""
        if file.name == "b.yaml" and not (tmp_path / "..2").exists():
            mounted(tmp_path, "..2", a="", b=RACKS)
        return opens(file, *mode, **named)

    monkeypatch.setattr(Path, "open", opening)
    units = watch_units(tmp_path)
    assert units.value == UNITS
    assert units.refresh() == UNITS | UnitSettings({"example.com/rack": UnitKind(18)})
