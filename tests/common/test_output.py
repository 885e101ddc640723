"""Tests that all programs print with one module, which escapes control sequences and GitHub commands."""

import ast
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

import certs.__main__
import kubectl_ultraserver.__main__
import placement.__main__
from common.output import Program, say, style
from testbed.chart import REPOSITORY
from webhook import cli

PRODUCT = ("webhook", "certs", "placement", "kube", "common", "contract", "kubectl_ultraserver")
OUTPUT_MODULE = "common/output.py"
WRITERS = {
    "print",
    *(f"click.{name}" for name in ("echo", "secho", "style", "confirm", "prompt", "echo_via_pager")),
    *(f"sys.{name}.{how}" for name in ("stdout", "stderr") for how in ("write", "writelines", "buffer")),
}
WRITER_NAMES = {name.rpartition(".")[2] for name in WRITERS}
HOSTILE = "x\x1b[2J\u202e\x9b2J\n::error::y ##[group]"


def find_writers(path: Path) -> Iterator[str]:
    """Yields the position of each use of a function that writes to standard output or standard error."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        name = getattr(node, "attr", getattr(node, "id", ""))
        if isinstance(node, ast.expr) and name in WRITER_NAMES and ast.unparse(node) in WRITERS:
            yield f"{path}:{node.lineno}: {name}"
        if isinstance(node, ast.ImportFrom):
            yield from (
                f"{path}:{node.lineno}: {alias.name}"
                for alias in node.names
                if f"{node.module}.{alias.name}" in WRITERS
            )


def test_only_one_module_writes_to_standard_output_and_standard_error() -> None:
    """Protects terminals and pipelines from output that is not escaped."""
    files = [file for package in PRODUCT for file in (REPOSITORY / package).rglob("*.py")]
    assert len(files) > 100
    uses = [line for file in files if not file.match(OUTPUT_MODULE) for line in find_writers(file)]
    assert uses == [], "write with common.output.say"
    assert [*find_writers(REPOSITORY / OUTPUT_MODULE)]


@pytest.mark.parametrize(
    "program", [cli.main, certs.__main__.main, placement.__main__.main, kubectl_ultraserver.__main__.main]
)
def test_errors_of_arguments_and_of_commands_are_printable_in_every_program(program: Program) -> None:
    """Protects terminals from arguments that click repeats, and from messages of an API server."""
    for words in ([HOSTILE], ["run", f"--{HOSTILE}"], ["admit", HOSTILE, "--kubeconfig", HOSTILE]):
        result = CliRunner().invoke(program, words)
        assert result.exit_code
        assert result.output.replace("\n", "").isprintable(), (words, result.output)
        assert "\n::" not in result.output


def test_colours_in_a_text_are_escaped_and_colours_of_the_program_can_be_switched_off(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    command = click.command()(lambda: say(style(HOSTILE, fg="red")))
    assert CliRunner().invoke(command, color=True).output.count("\x1b") == 2
    assert "\x1b" not in CliRunner().invoke(command).output
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b" not in CliRunner().invoke(command, color=True).output


@pytest.mark.parametrize("colour", [True, False], ids=["terminal", "pipe"])
@pytest.mark.parametrize(
    "parts",
    [
        ["::error::x"],
        [":", ":error::x"],
        ["", " ", "::mask::x"],
        ["a\n", "::error::x"],
        ["#", "#", "[group]x"],
    ],
)
def test_coloured_parts_of_a_line_do_not_form_a_command(parts: list[str], *, colour: bool) -> None:
    """Protects pipelines: a pipe gets the line without the colours that separate the parts of a command."""
    text = "".join(style(part, fg="red", bold=True) for part in parts)
    for line in (text, parts[0] + text.removeprefix(style(parts[0], fg="red", bold=True))):
        command = click.command()(lambda line=line: say(line))
        output = click.unstyle(CliRunner().invoke(command, color=colour).output)
        assert not [line for line in output.splitlines() if line.lstrip().startswith("::") or "##[" in line]
        assert output.endswith("x\n")
