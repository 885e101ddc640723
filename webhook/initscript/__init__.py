"""The shell that runs in the launcher's two init containers.

The sources beside this module are for people. A launcher's Pod has their text without indentation, comment
lines and blank lines, because each such Pod is stored with it. It is one text for both containers, in an
annotation that each has as a variable: the rule table says how they run it.
"""

from functools import cache
from importlib import resources
from typing import Final

VERSION: Final = "3"
"""Goes up with every change of behaviour; it is the one comment that stays in the text."""


@cache
def text() -> str:
    """The script of both init containers: the first word after its name says which of them it is."""
    common, wait, init = (
        _strip(resources.files(__name__).joinpath(f"{name}.sh").read_text(encoding="utf-8"))
        for name in ("common", "wait", "init")
    )
    header = f"# ultraserver-webhook init script, version {VERSION}"
    return "\n".join([header, *common, "if [[ ${1-} == wait ]]; then", *wait, "fi", *init]) + "\n"


def _strip(source: str) -> list[str]:
    """The lines that do something, unindented. The source keeps to the rules at the head of `common.sh`."""
    lines = (line.strip() for line in source.splitlines())
    return [line for line in lines if line and not line.startswith("#")]
