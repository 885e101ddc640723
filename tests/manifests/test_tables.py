"""The rule tables that values of the chart bring."""

from __future__ import annotations

from pathlib import Path

import pytest

from testbed import chart
from tests.docs.blocks import REPOSITORY
from tests.helpers import load_text

TABLES = sorted(path for path in (REPOSITORY / "manifests" / "chart" / "rules").iterdir())


@pytest.mark.parametrize("path", TABLES, ids=lambda path: str(path.name))
def test_a_rule_table_of_the_manifests_is_sound(path: Path) -> None:
    assert load_text(path.read_text(encoding="utf-8"), str(path)).rules


@pytest.mark.parametrize("name", chart.COPIES)
def test_the_chart_has_the_files_of_the_packaged_table(name: str) -> None:
    """Protects from a preview by other rows than those installed, and a guard for other families."""
    packaged = chart.packaged_file(name).read_text(encoding="utf-8")
    assert chart.COPIES[name].read_text(encoding="utf-8") == packaged, "make manifests writes it"
