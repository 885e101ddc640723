"""Tests that the program keeps the last valid units when files of the rule table break or disappear."""

import logging
from pathlib import Path
from typing import Any

import pytest

from placement.observe.model import UNITS, UnitKind, UnitSettings
from placement.observe.units import watch_units
from tests.rules.tables import mount_config_map

RACKS = "families: [{name: racks, units: [{label: example.com/rack, nodes: 18}]}]\n"
FAMILY_WITHOUT_NAME = "families: [{units: []}]"
BROKEN = [
    "families: [",
    "# a comment only",
    "families: [{name: !!int ''}]",
    "[]",
    "families: 1",
    FAMILY_WITHOUT_NAME,
]


@pytest.mark.parametrize("broken", BROKEN)
def test_a_broken_or_missing_table_does_not_change_the_units(
    broken: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    table_file = tmp_path / "rules.yaml"
    table_file.write_text(broken)
    units = watch_units(tmp_path).refresh
    with caplog.at_level(logging.ERROR, "placement"):
        assert units() == units() == UNITS
        table_file.write_text(RACKS)
        assert units() == UNITS | UnitSettings({"example.com/rack": UnitKind(18)})
        table_file.write_text(broken)
        assert units() == UNITS | UnitSettings({"example.com/rack": UnitKind(18)})
    assert len(caplog.records) == 2, "one record each time that the table breaks"
    table_file.unlink()
    assert units() == UNITS | UnitSettings({"example.com/rack": UnitKind(18)})


def test_a_file_that_the_webhook_does_not_read_has_no_effect(tmp_path: Path) -> None:
    (tmp_path / "racks.yxml").write_text(RACKS)
    assert watch_units(tmp_path).refresh() == UNITS


def test_all_files_are_read_from_one_version_of_a_mounted_config_map(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mount_config_map(tmp_path, "..1", a="", b="")
    original_open = Path.open

    def open_after_change(file: Path, *mode: Any, **options: Any) -> Any:
        """Opens a file. Before the second file, it replaces the ConfigMap's version as the kubelet does."""
        if file.name == "b.yaml" and not (tmp_path / "..2").exists():
            mount_config_map(tmp_path, "..2", a="", b=RACKS)
        return original_open(file, *mode, **options)

    monkeypatch.setattr(Path, "open", open_after_change)
    units = watch_units(tmp_path)
    assert units.value == UNITS
    assert units.refresh() == UNITS | UnitSettings({"example.com/rack": UnitKind(18)})
