"""Tests that commands print the output in the document. ``session`` lists commands that run elsewhere."""

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
def test_commands_print_the_output_in_the_document(document: str, tmp_path: Path) -> None:
    folder, status = session.folder_with_examples(tmp_path), 0
    for block in blocks_of(document):
        session.write_file(block, folder)
        for step in filter(session.is_run_here, block.steps()):
            output, status = session.run_cheaply(step.command, folder, status)
            # Status 1 is a result (a difference, a wrong table). A higher status must be in the document.
            assert status <= 1 or "$ echo $?" in block.text, f"{step.where}\n{output}"
            session.assert_printed(step, output)


@pytest.mark.limit(5, "starts the program")
def test_a_command_has_the_same_result_in_a_process_as_in_this_process(tmp_path: Path) -> None:
    folder = session.folder_with_examples(tmp_path)
    line = "ultraserver-webhook preview examples/four-node.yaml"
    assert session.is_one_program(line)
    assert session.run(line, folder) == session.run_in_process(line, folder)


@dataclass(frozen=True)
class RunningServer:
    """A running ``make run``: its port, and its output until it is ready."""

    port: int
    output: str

    def with_own_port(self, command: str) -> str:
        """Returns a command of a document with the port of this server."""
        return command.replace("8080", str(self.port))

    def with_documented_port(self, output: str) -> str:
        """Returns an output with the port in the documents."""
        return output.replace(str(self.port), "8080")


@pytest.fixture(scope="module")
def make_run() -> Iterator[RunningServer]:
    """Runs ``make run`` with the environment of the tests and another port."""
    (port,) = free_ports(1)
    arguments = ("--old-file=.venv/.run", "run", f"PORT={port}")
    with session.make("Ctrl-C stops it.", *arguments) as result:
        yield RunningServer(port, result.output)


def is_on_loopback(step: Step) -> bool:
    return step.command.startswith(session.ON_LOOPBACK)


@pytest.mark.program("curl")
@pytest.mark.limit(5, "curl is a process")
@pytest.mark.parametrize("document", session.documents_with(is_on_loopback))
def test_make_run_and_its_clients_print_the_output_in_the_document(
    document: str, tmp_path: Path, make_run: RunningServer
) -> None:
    folder = session.folder_with_examples(tmp_path)
    for block in blocks_of(document):
        session.write_file(block, folder)
        for step in filter(is_on_loopback, block.steps()):
            if step.command.startswith("make run"):
                session.assert_printed(step, make_run.with_documented_port(make_run.output))
                continue
            output, status = session.run_cheaply(make_run.with_own_port(step.command), folder)
            assert status == 0, f"{step.where}\n{output}"
            session.assert_printed(step, make_run.with_documented_port(output))


def test_ci_runs_the_commands_that_the_tests_leave_to_ci() -> None:
    script = (REPOSITORY / ".ci" / "run").read_text(encoding="utf-8")
    for command, where in session.CI.items():
        # `make release-before` is another command than `make release`, and a comment runs nothing.
        runs = re.search(rf"^[^#\n]*\b{re.escape(command)}(?![\w-])", script, re.MULTILINE)
        assert where != ".ci/run" or runs, f"{where} does not run {command}"


def test_no_document_shows_a_prompt_outside_of_a_console_block() -> None:
    for document in documents():
        for block in blocks_of(document):
            command_lines = [line for line in block.text.splitlines() if line.startswith("$ ")]
            assert block.language == "console" or not command_lines, f"{block.where}: use console"
