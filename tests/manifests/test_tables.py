"""The rule tables that values of the chart bring."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.blocks import REPOSITORY
from tests.helpers import load_text

TABLES = sorted(path for path in (REPOSITORY / "manifests" / "chart" / "rules").iterdir())


@pytest.mark.parametrize("path", TABLES, ids=lambda path: str(path.name))
def test_a_rule_table_of_the_manifests_is_sound(path: Path) -> None:
    assert load_text(path.read_text(encoding="utf-8"), str(path)).rules
