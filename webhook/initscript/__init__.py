"""The shell script of the launcher's two init containers.

The files in this folder are for people. A launcher's Pod gets their text without indentation, comments and
blank lines, because each such Pod is stored with it. Both containers run the same text, which is in an
annotation and, from there, in a variable of each container; the rule table has their commands.
"""

from functools import cache
from importlib import resources
from typing import Final

VERSION: Final = "5"
"""Increases with every change of behaviour; its comment is the only one that stays in the text."""


@cache
def text() -> str:
    """Returns the script of both init containers; its first argument selects the container."""
    common, wait, init = (
        _strip(resources.files(__name__).joinpath(f"{name}.sh").read_text(encoding="utf-8"))
        for name in ("common", "wait", "init")
    )
    header = f"# ultraserver-webhook init script, version {VERSION}"
    return "\n".join([header, *common, "if [[ ${1-} == wait ]]; then", *wait, "fi", *init]) + "\n"


def _strip(source: str) -> list[str]:
    """Returns the lines of code, without indentation. `common.sh` has the rules for the sources."""
    lines = (line.strip() for line in source.splitlines())
    return [line for line in lines if line and not line.startswith("#")]
