"""That no command of the documents is left out."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.cluster.install.installation import shell_blocks, steps
from tests.docs.blocks import text_of

DOCUMENTS = ("README.md", "docs/install.md", "docs/operations.md", "docs/placement.md")


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_command_stands_under_a_heading_that_a_test_runs(document: str) -> None:
    headings = re.findall(r"^#+ (.*)$", text_of(document), re.MULTILINE)
    tests = "".join(
        path.read_text(encoding="utf-8")
        for folder in ("install", "realnodes")
        for path in (Path(__file__).parents[1] / folder).glob("*.py")
        if path.name != Path(__file__).name
    )
    run = [step for heading in headings if f'"{heading}"' in tests for step in steps(document, heading)]
    assert {step.where for step in run} == {
        step.where for block in shell_blocks(document) for step in block.steps()
    }


@pytest.mark.parametrize("document", DOCUMENTS)
def test_headings_are_told_apart_by_their_text(document: str) -> None:
    headings = re.findall(r"^#+ (.*)$", text_of(document), re.MULTILINE)
    assert len(set(headings)) == len(headings)
