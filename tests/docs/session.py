"""Runs the commands of documents, and compares their output."""

import contextlib
import os
import re
import shlex
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from click.testing import CliRunner

from testbed.waiting import PATIENCE
from tests.docs.blocks import REPOSITORY, Block, Step, blocks_of, documents
from webhook.cli import main

PROGRAM = "ultraserver-webhook"

CI = {
    "make lint": ".ci/run",
    "make cluster-tools": ".ci/run",
    "make manifests": "tests/plane/manifests compares its output",
    "make node-tools images": ".ci/run",
    "make demo": ".ci/run",
    "make release": ".ci/run",
    "make release-before": ".ci/run",
    "make test": ".ci/run",
    "make test-plane": ".ci/run",
    "make test-nodes": ".ci/run",
    ".ci/run": "CI itself",
}
"""Commands that take minutes, and the places that run them instead."""

HOURS = {"make test-soak": "run before a release, see CONTRIBUTING.md"}
"""Commands that take hours, and when they are run."""

ON_LOOPBACK = ("make run", "curl ")
"""Beginnings of commands that need the webhook of ``make run``, which tests/docs/test_commands.py runs."""

ON_A_CLUSTER = ("make cluster", "export KUBECONFIG=", "alias kubectl=", "kubectl ", "helm ")
"""Beginnings of commands that need a control plane, as in tests/plane/test_readme.py."""

SETUP = (
    "python3 -m venv ",
    "git clone ",
    "docker build ",
    "docker run ",
    ".venv/bin/pytest",
    ".venv/bin/pip install",
)
"""Beginnings of commands that set up the environment, or need a program that no test machine has."""

MEASURES = (".venv/bin/python -m tests.bench.", ".venv/bin/python -m testbed.experiment --trace")
"""Beginnings of commands that take from minutes to an hour."""

MASKS = {
    "revision of a table, or digest": (r"(?<![0-9a-z])(?:[0-9a-f]{12}|[0-9a-f]{10})(?![0-9a-z])", "DIGEST"),
    "length of a script": (r"\b\d+ more lines", "N more lines"),
    "process": (r"pid: \d+|(?<=\()\d+(?=\)$)", "PID"),
}
"""Parts of outputs that differ by machine or release: a pattern, and its replacement."""


def is_run_here(step: Step) -> bool:
    """Returns whether a command needs only this repository: no server, no cluster, no setup."""
    beginnings = (*SETUP, *ON_LOOPBACK, *ON_A_CLUSTER, *MEASURES)
    return step.command not in CI | HOURS and not step.command.startswith(beginnings)


def is_one_program(command: str) -> bool:
    """Returns whether a command line is this project's program with arguments, without shell syntax."""
    return command.startswith(f"{PROGRAM} ") and not set(command) & set("|&;<>()$`\\*?[]#~{}\n")


def documents_with(condition: Callable[[Step], bool]) -> list[str]:
    """Returns the documents with a command that meets the condition. There must be a document."""
    names = [
        document
        for document in documents()
        if any(condition(step) for block in blocks_of(document) for step in block.steps())
    ]
    assert names, "no document has a command that meets the condition"
    return names


def write_file(block: Block, folder: Path) -> None:
    """Writes the file of a block, if the block has a file name."""
    if block.file:
        (folder / block.file).write_text(block.text, encoding="utf-8")


def run_in_process(command: str, folder: Path) -> tuple[str, int]:
    """Returns the result of ``run`` without a process, for a command that ``is_one_program``."""
    _, *words = shlex.split(command)
    with contextlib.chdir(folder):
        result = CliRunner().invoke(main, words, prog_name=PROGRAM, catch_exceptions=False)
    return result.output, result.exit_code


def run_cheaply(command: str, folder: Path, last: int = 0) -> tuple[str, int]:
    """Returns the result of ``run``, without a process if that is possible."""
    return run_in_process(command, folder) if is_one_program(command) else run(command, folder, last)


def run(
    command: str, folder: Path, last: int = 0, path: Sequence[str] = (), env: Mapping[str, str] | None = None
) -> tuple[str, int]:
    """Runs a command in a shell, in which ``$?`` has the value ``last``.

    Returns:
        The output, including errors, and the exit status.
    """
    search = [*path, str(Path(sys.executable).parent), os.environ["PATH"]]
    result = subprocess.run(
        ["bash", "-c", f"(exit {last})\n{command}"],
        cwd=folder,
        env={**os.environ, **(env or {}), "PATH": ":".join(search)},
        check=False,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    return result.stdout, result.returncode


def folder_with_examples(folder: Path) -> Path:
    """Adds the examples and manifests, which commands of documents need, to a folder; returns the folder."""
    for name in ("examples", "manifests"):
        if not (folder / name).exists():  # the folder of an installation has its own manifests
            (folder / name).symlink_to(REPOSITORY / name)
    return folder


def apply_masks(text: str, masks: Mapping[str, tuple[str, str]]) -> str:
    for pattern, replacement in masks.values():
        text = re.sub(pattern, replacement, text, flags=re.MULTILINE)
    return text


def assert_printed(step: Step, actual: str, masks: Mapping[str, tuple[str, str]] = MASKS) -> None:
    """Asserts that the output of a command is the output in the document."""
    if step.output is None:
        return
    expected = apply_masks(step.output, masks).rstrip("\n")
    output = apply_masks(actual, masks).rstrip("\n")
    pattern = "".join(map(_line_pattern, expected.split("\n"))) if expected else ""
    assert re.fullmatch(pattern, output + "\n" if output else ""), f"{step.where}\nnow prints:\n{actual}"


def _line_pattern(line: str) -> str:
    if line.strip() == "...":
        return r"(?:.*\n)*?"
    return re.escape(line.rstrip()).replace(re.escape("..."), ".*") + r"[ ]*\n"


@dataclass
class MakeOutput:
    """The output of a make target that runs until Ctrl-C: before the target is ready, and after Ctrl-C."""

    output: str = ""
    after_interrupt: str = ""


@contextlib.contextmanager
def make(ready: str, *words: str) -> Iterator[MakeOutput]:
    """Starts make, waits until make prints ``ready``, and interrupts make at the end, as Ctrl-C does."""
    command = ["make", "--no-print-directory", f"BIN={Path(sys.executable).parent}", *words]
    env = {key: value for key, value in os.environ.items() if not key.startswith("MAKE")}
    with subprocess.Popen(
        command,
        cwd=REPOSITORY,
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as process:
        assert process.stdout is not None
        result = MakeOutput()
        # Ends the loop below if make is not ready in time.
        stop = threading.Timer(PATIENCE, os.killpg, (process.pid, signal.SIGTERM))
        stop.start()
        try:
            for line in process.stdout:
                result.output += line
                if ready in line:
                    break
            stop.cancel()
            assert ready in result.output, f"make {words}: no {ready!r} in {PATIENCE:.0f} s:\n{result.output}"
            yield result
        finally:
            stop.cancel()
            # Ctrl-C in a terminal signals the whole process group.
            os.killpg(process.pid, signal.SIGINT)
            try:
                result.after_interrupt, _ = process.communicate(timeout=PATIENCE)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGTERM)  # otherwise the end of the context waits for make
                raise
