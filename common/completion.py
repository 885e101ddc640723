"""Completion of command lines, by click's own support for shells."""

from collections.abc import Sequence

import click
from click.shell_completion import BashComplete, FishComplete, ShellComplete, ZshComplete

SHELLS = {"bash": BashComplete, "zsh": ZshComplete, "fish": FishComplete}
WORDS_ONLY, WITH_FILES = 4, 0
"""What kubectl reads in the last line (Cobra's ``ShellCompDirective``): whether the shell may offer files."""


def script(shell: str, program: click.Command, name: str) -> str:
    """Returns the script that completes the program's command line in a shell."""
    return SHELLS[shell](program, {}, name, f"_{name.replace('-', '_').upper()}_COMPLETE").source()


def for_kubectl(program: click.Command, words: Sequence[str]) -> list[str]:
    """Returns the lines that kubectl reads from a plugin's completion; the last word is still incomplete."""
    *before, last = words or [""]
    items = ShellComplete(program, {}, "kubectl", "").get_completions(before, last)
    texts = [item for item in items if item.type == "plain"]
    directive = WORDS_ONLY if texts else WITH_FILES
    return [*(f"{item.value}\t{item.help or ''}".rstrip() for item in texts), f":{directive}"]
