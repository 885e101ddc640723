"""Typing in what a document shows under a heading, on a cluster."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from testbed.kits import build
from testbed.plane.kubectl import Kubectl
from tests.docs import session
from tests.docs.blocks import Block, Step, blocks_of, text_of

REGISTRY = "registry.example.com/team"
"""As the documents name a registry."""


def steps(document: str, heading: str) -> list[Step]:
    """Returns the commands under a heading, up to the next one."""
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
    """Returns the ``shell`` blocks, which only tests on nodes run."""
    return [replace(block, language="sh") for block in blocks_of(document) if block.language == "shell"]


def _line(block: Block) -> int:
    return int(block.where.rpartition(":")[2])


def run(command: str, folder: Path, kubectl: Kubectl, path: Sequence[str] = ()) -> tuple[str, int]:
    """Returns the output and status of a command in a folder and on a cluster; ``path`` is searched first."""
    programs = [*path, str(kubectl.binary.parent), str(build.HELM.directory())]
    env = {"KUBECONFIG": str(kubectl.kubeconfig), "KUBERC": "off"}
    return session.run(command, folder, path=programs, env=env)


def type_in(
    document: str, heading: str, folder: Path, kubectl: Kubectl, renamed: Mapping[str, str] | None = None
) -> str:
    """Runs in a folder what a document shows under a heading; returns what was printed.

    Args:
        document: its path.
        heading: in it.
        folder: where it is run.
        kubectl: whose cluster it is run on.
        renamed: words of the commands that are others here.

    Raises:
        AssertionError: It shows no command there, or one fails.
    """
    printed = ""
    result = steps(document, heading)
    assert result, f"{document} shows no command under {heading!r}"
    for step in result:
        command = step.command
        for word, other in (renamed or {}).items():
            command = command.replace(word, other)
        output, status = run(command, folder, kubectl)
        assert status == 0, f"{step.where}\n{output}"
        printed += output
    return printed
