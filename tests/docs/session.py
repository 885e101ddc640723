"""Running what a document shows, and comparing what comes out."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from tests.docs.blocks import REPOSITORY

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tests.docs.blocks import Block, Step

CI = {
    "make lint": ".ci/run",
    "make cluster-tools": ".ci/run",
    "make node-tools images": ".ci/run",
    "make demo": ".ci/run",
    "make release": ".ci/run",
    "make release-before": ".ci/run",
    "make test": ".ci/run",
    ".ci/run": "CI itself",
}
"""Commands that take minutes, and the step of CI that runs them."""

ON_LOOPBACK = ("make run", "curl ", "ultraserver-webhook review ")
"""Beginnings of commands that need the webhook of ``make run``: tests/docs/test_commands.py has one."""

ON_A_CLUSTER = ("make cluster", "export KUBECONFIG=", "alias kubectl=", "kubectl ")
"""Beginnings of commands that need a control plane: tests/cluster/test_readme.py has one."""

SETUP = ("python3 -m venv ", "git clone ", "docker build ", ".venv/bin/pytest", ".venv/bin/pip install")
"""Beginnings of commands that make what a test runs in, or need what no test machine has."""

MEASURES = (".venv/bin/python -m tests.bench.",)
"""Beginnings of commands that take from minutes to an hour; tests/attack runs their parts in short."""

MASKS = {
    "revision of a table, or digest": (r"(?<![0-9a-z])(?:[0-9a-f]{12}|[0-9a-f]{10})(?![0-9a-z])", "DIGEST"),
    "length of a script": (r"\b\d+ more lines", "N more lines"),
    "process": (r"pid: \d+|(?<=\()\d+(?=\)$)", "PID"),
}
"""What differs from machine to machine or from release to release, and what it is called."""


def is_run_here(step: Step) -> bool:
    """Whether a command is run with what this repository alone has."""
    return not (
        step.command in CI or step.command.startswith((*SETUP, *ON_LOOPBACK, *ON_A_CLUSTER, *MEASURES))
    )


def write_file(block: Block, folder: Path) -> None:
    """Puts the file that a block is the content of where the commands run."""
    if block.file:
        (folder / block.file).write_text(block.text, encoding="utf-8")


def run(
    command: str, folder: Path, last: int = 0, path: Sequence[str] = (), env: Mapping[str, str] | None = None
) -> tuple[str, int]:
    """Runs a command in a shell; ``$?`` is the status of the last one.

    Returns:
        What it printed, errors too, and its status.
    """
    search = [*path, str(Path(sys.executable).parent), os.environ["PATH"]]
    done = subprocess.run(
        ["bash", "-c", f"(exit {last})\n{command}"],
        cwd=folder,
        env={**os.environ, **(env or {}), "PATH": ":".join(search)},
        check=False,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    return done.stdout, done.returncode


def folder_with_examples(folder: Path) -> Path:
    """A folder that looks like the repository to the commands of a document."""
    for name in ("examples", "manifests"):
        if not (folder / name).exists():  # an installation has manifests of its own
            (folder / name).symlink_to(REPOSITORY / name)
    return folder


def masked(text: str, masks: Mapping[str, tuple[str, str]]) -> str:
    for pattern, replacement in masks.values():
        text = re.sub(pattern, replacement, text, flags=re.MULTILINE)
    return text


def assert_printed(step: Step, actual: str, masks: Mapping[str, tuple[str, str]] = MASKS) -> None:
    """Compares what a document shows with what was printed."""
    if step.output is None:
        return
    expected = masked(step.output, masks).rstrip("\n")
    got = masked(actual, masks).rstrip("\n")
    pattern = "".join(map(_line, expected.split("\n"))) if expected else ""
    assert re.fullmatch(pattern, got + "\n" if got else ""), f"{step.where}\nnow prints:\n{actual}"


def _line(line: str) -> str:
    if line.strip() == "...":
        return r"(?:.*\n)*?"
    return re.escape(line.rstrip()).replace(re.escape("..."), ".*") + r"[ ]*\n"
