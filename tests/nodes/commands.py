"""Typing in what a document shows under a heading, on a cluster."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

from testbed.plane.kubectl import Kubectl
from tests.docs import session
from tests.docs.blocks import Block, Step, blocks_of, text_of


def steps(document: str, heading: str) -> list[Step]:
    """The commands under a heading, up to the next one."""
    text = text_of(document)
    start = re.search(rf"^#+ {re.escape(heading)}\n", text, re.MULTILINE)
    assert start, f"{document} has no heading {heading!r}"
    first = text[: start.end()].count("\n")
    rest = text[start.end() :]
    last = first + re.split(r"^#", rest, maxsplit=1, flags=re.MULTILINE)[0].count("\n")
    return [
        step for block in shell_blocks(document) if first < _line(block) <= last for step in block.steps()
    ]


def shell_blocks(document: str) -> list[Block]:
    """The blocks that only tests on nodes run: they are called ``shell``, and others leave them alone."""
    return [replace(block, language="sh") for block in blocks_of(document) if block.language == "shell"]


def _line(block: Block) -> int:
    return int(block.where.rpartition(":")[2])


def type_in(document: str, heading: str, folder: Path, kubectl: Kubectl) -> str:
    """Runs in a folder what a document shows under a heading; returns what was printed.

    Raises:
        AssertionError: It shows no command there, or one fails.
    """
    env = {"KUBECONFIG": str(kubectl.kubeconfig), "KUBERC": "off"}
    printed = ""
    found = steps(document, heading)
    assert found, f"{document} shows no command under {heading!r}"
    for step in found:
        said, status = session.run(step.command, folder, path=[str(kubectl.binary.parent)], env=env)
        assert status == 0, f"{step.where}\n{said}"
        printed += said
    return printed
