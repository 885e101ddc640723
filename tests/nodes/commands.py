"""Runs the commands that a document shows under a heading, on a cluster."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from testbed.kits import build
from testbed.plane.kubectl import Kubectl
from tests.docs import session
from tests.docs.blocks import Block, Step, blocks_of, text_of

REGISTRY = "registry.example.com/team"
"""The registry in the documents' commands."""


def steps(document: str, heading: str) -> list[Step]:
    """Returns the commands under a heading, up to the next heading."""
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
    """Returns the ``shell`` blocks of a document, as ``sh`` blocks, so that their steps can be run."""
    return [replace(block, language="sh") for block in blocks_of(document) if block.language == "shell"]


def _line(block: Block) -> int:
    return int(block.where.rpartition(":")[2])


def run(command: str, folder: Path, kubectl: Kubectl, path: Sequence[str] = ()) -> tuple[str, int]:
    """Runs a command on a cluster, with ``path`` first in PATH; returns its output and its status."""
    folders = [*path, str(kubectl.binary.parent), str(build.HELM.directory())]
    env = {"KUBECONFIG": str(kubectl.kubeconfig), "KUBERC": "off"}
    return session.run(command, folder, path=folders, env=env)


def type_in(
    document: str, heading: str, folder: Path, kubectl: Kubectl, replacements: Mapping[str, str] | None = None
) -> str:
    """Runs the commands that a document shows under a heading; returns their output.

    Args:
        document: The path of the document.
        heading: A heading of the document.
        folder: The working directory of the commands.
        kubectl: kubectl for the cluster.
        replacements: Texts in the commands, and the texts that replace them here.

    Raises:
        AssertionError: The document shows no command under the heading, or a command fails.
    """
    printed = ""
    result = steps(document, heading)
    assert result, f"{document} shows no command under {heading!r}"
    for step in result:
        command = step.command
        for old, new in (replacements or {}).items():
            command = command.replace(old, new)
        output, status = run(command, folder, kubectl)
        assert status == 0, f"{step.where}\n{output}"
        printed += output
    return printed
