"""Running what a document shows, and comparing what comes out."""

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
    "make manifests": "tests/plane/manifests compares what it writes",
    "make node-tools images": ".ci/run",
    "make demo": ".ci/run",
    "make release": ".ci/run",
    "make release-before": ".ci/run",
    "make test": ".ci/run",
    "make test-plane": ".ci/run",
    "make test-nodes": ".ci/run",
    ".ci/run": "CI itself",
}
"""Commands that take minutes, and what runs them."""

HOURS = {"make test-soak": "a release needs its record, see CONTRIBUTING.md"}
"""Commands that take hours, and who runs them."""

ON_LOOPBACK = ("make run", "curl ")
"""Beginnings of commands that need the webhook of ``make run``: tests/docs/test_commands.py has one."""

ON_A_CLUSTER = ("make cluster", "export KUBECONFIG=", "alias kubectl=", "kubectl ", "helm ")
"""Beginnings of commands that need a control plane: tests/plane/test_readme.py has one."""

SETUP = (
    "python3 -m venv ",
    "git clone ",
    "docker build ",
    "docker run ",
    ".venv/bin/pytest",
    ".venv/bin/pip install",
)
"""Beginnings of commands that make what a test runs in, or need what no test machine has."""

MEASURES = (".venv/bin/python -m tests.bench.", ".venv/bin/python -m testbed.experiment --trace")
"""Beginnings of commands that take from minutes to an hour; tests/attack runs their parts in short."""

MASKS = {
    "revision of a table, or digest": (r"(?<![0-9a-z])(?:[0-9a-f]{12}|[0-9a-f]{10})(?![0-9a-z])", "DIGEST"),
    "length of a script": (r"\b\d+ more lines", "N more lines"),
    "process": (r"pid: \d+|(?<=\()\d+(?=\)$)", "PID"),
}
"""What differs from machine to machine or from release to release, and what it is called."""


def is_run_here(step: Step) -> bool:
    """Returns whether a command is run with what this repository alone has."""
    elsewhere = (*SETUP, *ON_LOOPBACK, *ON_A_CLUSTER, *MEASURES)
    return step.command not in CI | HOURS and not step.command.startswith(elsewhere)


def is_one_program(command: str) -> bool:
    """Returns whether a command line is our program and its arguments, with nothing for a shell to do."""
    return command.startswith(f"{PROGRAM} ") and not set(command) & set("|&;<>()$`\\*?[]#~{}\n")


def documents_with(wanted: Callable[[Step], bool]) -> list[str]:
    """Returns the documents that show such a command; there is at least one."""
    names = [
        document
        for document in documents()
        if any(wanted(step) for block in blocks_of(document) for step in block.steps())
    ]
    assert names, "no document shows such a command"
    return names


def write_file(block: Block, folder: Path) -> None:
    """Puts the file that a block is the content of where the commands run."""
    if block.file:
        (folder / block.file).write_text(block.text, encoding="utf-8")


def run_in_process(command: str, folder: Path) -> tuple[str, int]:
    """Returns the same as ``run`` for a command that ``is_one_program``, without a process."""
    _, *words = shlex.split(command)
    with contextlib.chdir(folder):
        done = CliRunner().invoke(main, words, prog_name=PROGRAM, catch_exceptions=False)
    return done.output, done.exit_code


def run_cheaply(command: str, folder: Path, last: int = 0) -> tuple[str, int]:
    """Returns the same as ``run``, in this process where that is possible."""
    return run_in_process(command, folder) if is_one_program(command) else run(command, folder, last)


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
    """Returns a folder that looks like the repository to the commands of a document."""
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


@dataclass
class Made:
    """A target of make that stays in the foreground: its output until it is ready, and after Ctrl-C."""

    output: str = ""
    rest: str = ""


@contextlib.contextmanager
def make(ready: str, *words: str) -> Iterator[Made]:
    """Runs make as in a terminal, with the environment of the tests, until it says ``ready``; then Ctrl-C."""
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
        made = Made()
        # Ends the reading below if it is not ready in time.
        stop = threading.Timer(PATIENCE, os.killpg, (process.pid, signal.SIGTERM))
        stop.start()
        try:
            for line in process.stdout:
                made.output += line
                if ready in line:
                    break
            stop.cancel()
            assert ready in made.output, f"make {words}: no {ready!r} in {PATIENCE:.0f} s but:\n{made.output}"
            yield made
        finally:
            stop.cancel()
            # As a terminal does at Ctrl-C: to the whole group.
            os.killpg(process.pid, signal.SIGINT)
            try:
                made.rest, _ = process.communicate(timeout=PATIENCE)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGTERM)  # leaving the context would wait for it
                raise
