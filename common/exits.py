"""Where text leaves a program for people: nothing that somebody wrote commands a terminal or a pipeline."""

import os
import re
import secrets
import sys
from typing import Any, Final

import click

from common.texts import printable

ESCAPE: Final = f"\0{secrets.token_hex(8)}"
"""Stands for the escape character of our colours until the text leaves: no file can contain it."""
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
"""Of lines of a preview, by their beginning; without a colour they are bold."""
_NOT_OURS = re.compile(r"[^\n\t]+")
_COLOUR = rf"(?:{ESCAPE}\[[\d;]*m)*"
_COMMAND = re.compile(rf"^((?:{ESCAPE}\[[\d;]*m|[ \t])*):({_COLOUR}:)", re.MULTILINE)
_GROUP = re.compile(rf"#({_COLOUR})#({_COLOUR}\[)")


class Program(click.Group):
    """The commands of a program."""

    group_class = type

    def invoke(self, ctx: click.Context) -> Any:  # noqa: ANN401 - click's
        """Runs a command; what click says of an error is printable."""
        try:
            return super().invoke(ctx)
        except click.ClickException as error:
            error.message = clean(error.message)  # type: ignore[misc]  # final in the types of click
            raise


def shown(text: str) -> str:
    """The text made printable, its line ends and tabs kept, and colours of `style` left."""
    return ESCAPE.join(_NOT_OURS.sub(lambda found: printable(found[0]), part) for part in text.split(ESCAPE))


def style(text: str, **how: Any) -> str:  # noqa: ANN401 - click's
    """The text made printable, with colours as `click.style` has them, for `say`."""
    return click.style(shown(text), **how).replace("\x1b", ESCAPE)


def coloured(text: str) -> str:
    """A preview, with its sentence and diff, in colours; `say` takes them away where nobody sees them."""
    return "".join(_line(line) for line in text.splitlines(keepends=True))


def _line(line: str) -> str:
    start = next((start for start in _COLOURS if line.startswith(start)), None)
    if start is None:
        return line
    length, colour = len(start) if start.startswith(" ") else len(line), _COLOURS[start]
    return style(line[:length], fg=colour, bold=not colour or None) + line[length:]


def clean(text: str) -> str:
    """The text without anything that is not printable but line ends and tabs, and without GitHub's commands.

    It stands there as Python escapes it. JSON in ASCII and YAML of `dump_yaml` stay as they are. Colours
    do not count: a pipe gets the lines without them.
    """
    return _GROUP.sub(r"#\1\\u0023\2", _COMMAND.sub(r"\1\\x3a\2", shown(text)))


def say(text: str, *, err: bool = False, nl: bool = True, commands: bool = False) -> None:
    """Print a text, in colours where somebody sees them and ``NO_COLOR`` is not set.

    Args:
        text: May contain anything.
        err: Whether it goes to standard error.
        nl: Whether a line end follows.
        commands: Whether its lines are commands for GitHub, of which every part is escaped.
    """
    cleaned = (shown if commands else clean)(text).replace(ESCAPE, "\x1b")
    click.echo(cleaned, err=err, nl=nl, color=False if os.environ.get("NO_COLOR") else None)


def progress(text: str) -> None:
    """Shows a line at a terminal, in place of what was shown before, until the next one."""
    if sys.stderr.isatty():
        click.echo(f"\r\033[K{printable(text)}", err=True, nl=False)
