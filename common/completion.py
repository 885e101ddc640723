"""Completes command lines with click's support for shells."""

from collections.abc import Sequence

import click
from click.shell_completion import BashComplete, FishComplete, ShellComplete, ZshComplete

SHELLS = {"bash": BashComplete, "zsh": ZshComplete, "fish": FishComplete}
WORDS_ONLY, WITH_FILES = 4, 0
"""Numbers in the last line for kubectl (Cobra's ``ShellCompDirective``): add no file names, or add them."""


def script(shell: str, program: click.Command, name: str) -> str:
    """Returns the script that completes the program's command line in a shell."""
    return SHELLS[shell](program, {}, name, f"_{name.replace('-', '_').upper()}_COMPLETE").source()


def for_kubectl(program: click.Command, words: Sequence[str]) -> list[str]:
    """Returns the lines that kubectl reads from a plugin's completion. The last word may be incomplete."""
    *complete_words, incomplete = words or [""]
    items = ShellComplete(program, {}, "kubectl", "").get_completions(complete_words, incomplete)
    plain_items = [item for item in items if item.type == "plain"]
    directive = WORDS_ONLY if plain_items else WITH_FILES
    return [*(f"{item.value}\t{item.help or ''}".rstrip() for item in plain_items), f":{directive}"]
