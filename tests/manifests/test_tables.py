"""The rule tables of base and components."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.blocks import REPOSITORY
from webhook.rules.load import load_text

TABLES = sorted(
    path
    for path in (REPOSITORY / "manifests").rglob("*.yaml")
    if "kind: RuleTable" in path.read_text(encoding="utf-8")
)


@pytest.mark.parametrize("path", TABLES, ids=lambda path: str(path.parent.name))
def test_a_rule_table_of_the_manifests_is_sound(path: Path) -> None:
    assert load_text(path.read_text(encoding="utf-8"), str(path)).rules
