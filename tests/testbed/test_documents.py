"""Tests that other tests run every command of the documents about installation and operation."""

import re

import pytest

from tests.docs.blocks import REPOSITORY, text_of
from tests.nodes.commands import shell_blocks, steps


@pytest.mark.parametrize(
    "document", ["README.md", "docs/install.md", "docs/operations.md", "docs/placement.md"]
)
def test_every_command_is_under_a_heading_that_a_test_runs(document: str) -> None:
    headings = re.findall(r"^#+ (.*)$", text_of(document), re.MULTILINE)
    assert len(set(headings)) == len(headings), "two headings have the same text"
    files = [*(REPOSITORY / "tests/nodes").rglob("*.py"), REPOSITORY / "tests/testbed/test_supply.py"]
    tests = "".join(path.read_text(encoding="utf-8") for path in files)
    run = [step for heading in headings if f'"{heading}"' in tests for step in steps(document, heading)]
    assert {step.where for step in run} == {
        step.where for block in shell_blocks(document) for step in block.steps()
    }
