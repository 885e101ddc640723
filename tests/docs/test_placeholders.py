"""The document about the rule table lists every placeholder that there is, and no other."""

import re

from tests.docs.blocks import REPOSITORY
from webhook.rows.placeholders import DEVICES, FAULT, JOB, PLACE, ROLE, ROLE_MAPS, SCRIPTS

NAMED = {"field.NAME", "value.NAME"}
"""Placeholders whose names a table gives."""


def test_the_document_lists_every_placeholder() -> None:
    text = (REPOSITORY / "docs" / "rule-table.md").read_text(encoding="utf-8")
    (table,) = re.findall(r"^\| placeholder \|.*\n((?:\|.*\n)+)", text, re.MULTILINE)
    listed = {name for row in table.splitlines() for name in re.findall(r"\$\(([^)]+)\)", row.split("|")[1])}
    of_role = {f"ROLE.{name}" for name in (*ROLE, *ROLE_MAPS)}
    assert listed == {*JOB, *PLACE, *DEVICES, *FAULT, *SCRIPTS, *NAMED, *of_role}
