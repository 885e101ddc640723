"""Prints text for people, and escapes terminal control sequences and commands of GitHub workflows."""

import os
import re
import secrets
import sys
from typing import Any, Final

import click

from common.texts import printable

ESCAPE: Final = f"\0{secrets.token_hex(8)}"
"""The placeholder of ESC in colours, which `say` replaces. It is random, so no input contains it."""
_COLOURS: Final = {
    "+++": None,
    "---": None,
    "@@": "cyan",
    "+": "green",
    "-": "red",
    "  placed": "green",
    "  not placed": "yellow",
    "  refused": "red",
    "  warning": "yellow",
    "  hint": "yellow",
    "  failed": "red",
}
"""The colours of a preview's lines, by the beginning of the line; None means bold."""
_LINE_PART = re.compile(r"[^\n\t]+")
_COLOUR = rf"(?:{ESCAPE}\[[\d;]*m)*"
# `::name` at the start of a line, and `##[name]`, are commands of GitHub workflows.
_COMMAND = re.compile(rf"^((?:{ESCAPE}\[[\d;]*m|[ \t])*):({_COLOUR}:)", re.MULTILINE)
_GROUP = re.compile(rf"#({_COLOUR})#({_COLOUR}\[)")


class Program(click.Group):
    """The commands of a program."""

    group_class = type  # subgroups are programs, too

    def invoke(self, ctx: click.Context) -> Any:  # noqa: ANN401 - click's types
        """Runs a command, and makes click's error messages printable."""
        try:
            return super().invoke(ctx)
        except click.ClickException as error:
            error.message = clean(error.message)  # type: ignore[misc]  # final in the types of click
            raise


def _escaped(text: str) -> str:
    """Returns the text made printable, except line ends, tabs and the colours of `style`."""
    return ESCAPE.join(_LINE_PART.sub(lambda part: printable(part[0]), piece) for piece in text.split(ESCAPE))


def style(text: str, **attributes: Any) -> str:  # noqa: ANN401 - click's types
    """Returns printable text with the colours of `click.style`; print it with `say`."""
    return click.style(_escaped(text), **attributes).replace("\x1b", ESCAPE)


def colour_lines(text: str) -> str:
    """Returns the text of a preview in colours. `say` drops the colours unless it prints to a terminal."""
    return "".join(_line(line) for line in text.splitlines(keepends=True))


def _line(line: str) -> str:
    start = next((start for start in _COLOURS if line.startswith(start)), None)
    if start is None:
        return line
    length, colour = len(start) if start.startswith(" ") else len(line), _COLOURS[start]
    return style(line[:length], fg=colour, bold=not colour or None) + line[length:]


def clean(text: str) -> str:
    """Returns the text with escapes for unprintable characters, and for the beginnings of GitHub commands.

    Line ends and tabs stay. ASCII JSON and the YAML of `webhook.documents.dump` stay as they are. The search
    for commands ignores colours, because a pipe receives the lines without colours.
    """
    return _GROUP.sub(r"#\1\\u0023\2", _COMMAND.sub(r"\1\\x3a\2", _escaped(text)))


def say(text: str, *, err: bool = False, nl: bool = True, workflow_commands: bool = False) -> None:
    """Prints a text, in colours if a terminal shows it and ``NO_COLOR`` is not set.

    Args:
        text: The text, which may contain any characters.
        err: Whether to print to standard error.
        nl: Whether a line end follows.
        workflow_commands: Whether the lines are commands of GitHub workflows, with escaped values.
    """
    cleaned = (_escaped if workflow_commands else clean)(text).replace(ESCAPE, "\x1b")
    click.echo(cleaned, err=err, nl=nl, color=False if os.environ.get("NO_COLOR") else None)


def progress(text: str) -> None:
    """Shows a line on a terminal, in place of the previous line; an empty text removes the line."""
    if sys.stderr.isatty():
        click.echo(f"\r\033[K{printable(text)}", err=True, nl=False)
