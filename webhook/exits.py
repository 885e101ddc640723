"""Where text leaves the program for people: nothing that somebody wrote commands a terminal or a pipeline."""

import re
import secrets
from typing import Any

import click

from common.texts import printable

_ESCAPE = f"\0{secrets.token_hex(8)}"
"""Stands for the escape character of our colours until the text leaves: no file can contain it."""
_NOT_OURS = re.compile(r"[^\n\t]+")
_COMMAND = re.compile(r"^([ \t]*)::", re.MULTILINE)


def style(text: str, **how: Any) -> str:  # noqa: ANN401 - click's
    """The text with colours, as `click.style` has it, for `say`."""
    return click.style(text, **how).replace("\x1b", _ESCAPE)


def ansi(text: str) -> str:
    """The text with its colours as terminals read them, where everything in it is printable already."""
    return text.replace(_ESCAPE, "\x1b")


def shown(text: str) -> str:
    """The text made printable, its line ends and tabs kept."""
    return _NOT_OURS.sub(lambda part: printable(part[0]), text)


def clean(text: str) -> str:
    """The text without anything that is not printable but line ends and tabs, and without GitHub's commands.

    It stands there as Python escapes it. JSON in ASCII and YAML of `dump_yaml` stay as they are.
    """
    return _COMMAND.sub(r"\1\\x3a:", shown(text)).replace("##[", r"#\u0023[")


def say(text: str, *, err: bool = False, nl: bool = True, commands: bool = False) -> None:
    """Print a text.

    Args:
        text: May contain anything.
        err: Whether it goes to standard error.
        nl: Whether a line end follows.
        commands: Whether its lines are commands for GitHub, of which every part is escaped.
    """
    cleaned = map(shown if commands else clean, text.split(_ESCAPE))
    click.echo("\x1b".join(cleaned), err=err, nl=nl)
