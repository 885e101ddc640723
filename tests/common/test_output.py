"""One function of every program writes to people, and what it writes commands nothing."""

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
EXIT = "common/output.py"
WRITE = {
    "print",
    *(f"click.{name}" for name in ("echo", "secho", "style", "confirm", "prompt", "echo_via_pager")),
    *(f"sys.{name}.{how}" for name in ("stdout", "stderr") for how in ("write", "writelines", "buffer")),
}
LAST = {name.rpartition(".")[2] for name in WRITE}
HOSTILE = "x\x1b[2J\u202e\x9b2J\n::error::y ##[group]"


def written(path: Path) -> Iterator[str]:
    """Yields where a module names what writes to a terminal or a pipe."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        last = getattr(node, "attr", getattr(node, "id", ""))
        if isinstance(node, ast.expr) and last in LAST and ast.unparse(node) in WRITE:
            yield f"{path}:{node.lineno}: {last}"
        if isinstance(node, ast.ImportFrom):
            yield from (
                f"{path}:{node.lineno}: {alias.name}"
                for alias in node.names
                if f"{node.module}.{alias.name}" in WRITE
            )


def test_no_module_but_one_writes_to_people() -> None:
    """Protects terminals and pipelines: what is escaped at the exit cannot be forgotten elsewhere."""
    files = [file for package in PRODUCT for file in (REPOSITORY / package).rglob("*.py")]
    assert len(files) > 100
    entries = [line for file in files if not file.match(EXIT) for line in written(file)]
    assert entries == [], "write with common.output.say"
    assert [*written(REPOSITORY / EXIT)]


@pytest.mark.parametrize(
    "program", [cli.main, certs.__main__.main, placement.__main__.main, kubectl_ultraserver.__main__.main]
)
def test_errors_of_arguments_and_of_commands_are_printable_in_every_program(program: Program) -> None:
    """Protects terminals from what click repeats, and from messages of an API server."""
    for words in ([HOSTILE], ["run", f"--{HOSTILE}"], ["open", HOSTILE, "--kubeconfig", HOSTILE]):
        result = CliRunner().invoke(program, words)
        assert result.exit_code
        assert result.output.replace("\n", "").isprintable(), (words, result.output)
        assert "\n::" not in result.output


def test_foreign_colours_are_escaped_and_own_ones_can_be_switched_off(
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
def test_no_command_is_put_together_from_coloured_parts_of_a_line(parts: list[str], *, colour: bool) -> None:
    """Protects pipelines from what `clean` saw as parts, and a pipe gets as one line without colours."""
    text = "".join(style(part, fg="red", bold=True) for part in parts)
    for written in (text, parts[0] + text.removeprefix(style(parts[0], fg="red", bold=True))):
        command = click.command()(lambda written=written: say(written))
        output = click.unstyle(CliRunner().invoke(command, color=colour).output)
        assert not [line for line in output.splitlines() if line.lstrip().startswith("::") or "##[" in line]
        assert output.endswith("x\n")
