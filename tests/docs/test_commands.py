"""Every command that a document shows is run, here or where ``session`` says, and prints what is shown."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from testbed.plane.process import free_ports
from tests.docs import session
from tests.docs.blocks import REPOSITORY, Step, blocks_of, documents


@pytest.mark.limit(15, "commands with a pipe are processes")
@pytest.mark.parametrize("document", session.documents_with(session.is_run_here))
def test_commands_print_what_is_shown(document: str, tmp_path: Path) -> None:
    folder, status = session.folder_with_examples(tmp_path), 0
    for block in blocks_of(document):
        session.write_file(block, folder)
        for step in filter(session.is_run_here, block.steps()):
            printed, status = session.run_cheaply(step.command, folder, status)
            # 1 is an answer (a difference, a wrong table); more is a mistake unless the document says so.
            assert status <= 1 or "$ echo $?" in block.text, f"{step.where}\n{printed}"
            session.assert_printed(step, printed)


@pytest.mark.limit(5, "starts the program")
def test_a_process_prints_and_returns_what_the_program_does_in_this_one(tmp_path: Path) -> None:
    folder = session.folder_with_examples(tmp_path)
    line = "ultraserver-webhook preview examples/four-node.yaml"
    assert session.is_one_program(line)
    assert session.run(line, folder) == session.run_in_process(line, folder)


@dataclass(frozen=True)
class Served:
    """``make run`` as it is running: its port, and what it printed."""

    port: int
    output: str

    def own(self, command: str) -> str:
        """Returns a documented command, for this server instead of the documented one."""
        return command.replace("8080", str(self.port))

    def documented(self, printed: str) -> str:
        """Returns what was printed, as a document would show it."""
        return printed.replace(str(self.port), "8080")


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    """``make run``, with the environment that the tests run in and a port of its own."""
    (port,) = free_ports(1)
    own = ("--old-file=.venv/.run", "run", f"PORT={port}")
    with session.make("Ctrl-C stops it.", *own) as made:
        yield Served(port, made.output)


def is_on_loopback(step: Step) -> bool:
    return step.command.startswith(session.ON_LOOPBACK)


@pytest.mark.program("curl")
@pytest.mark.limit(5, "curl is a process")
@pytest.mark.parametrize("document", session.documents_with(is_on_loopback))
def test_make_run_and_its_clients_print_what_is_shown(document: str, tmp_path: Path, served: Served) -> None:
    folder = session.folder_with_examples(tmp_path)
    for block in blocks_of(document):
        session.write_file(block, folder)
        for step in filter(is_on_loopback, block.steps()):
            if step.command.startswith("make run"):
                session.assert_printed(step, served.documented(served.output))
                continue
            printed, status = session.run_cheaply(served.own(step.command), folder)
            assert status == 0, f"{step.where}\n{printed}"
            session.assert_printed(step, served.documented(printed))


def test_ci_runs_what_is_left_to_it() -> None:
    script = (REPOSITORY / ".ci" / "run").read_text(encoding="utf-8")
    for command, where in session.CI.items():
        # Whole words: `make release-before` does not make a release, and a comment runs nothing.
        runs = re.search(rf"^[^#\n]*\b{re.escape(command)}(?![\w-])", script, re.MULTILINE)
        assert where != ".ci/run" or runs, f"{where} does not run {command}"


def test_no_document_shows_a_command_outside_of_a_session() -> None:
    for document in documents():
        for block in blocks_of(document):
            shown = [line for line in block.text.splitlines() if line.startswith("$ ")]
            assert block.language == "console" or not shown, f"{block.where}: use console"
