"""Builds the shell script of the launcher's two init containers from the files in this folder.

Every launcher's Pod is stored with the script, in an annotation. To keep the Pod small, the script has no
indentation, no comment lines and no blank lines. Each of the two containers gets the annotation's text as an
environment variable, and runs the text. The rule table has the commands for this.
"""

from functools import cache
from importlib import resources
from typing import Final

VERSION: Final = "5"
"""The version of the script, in the script's first line. It increases with every change of behaviour."""


@cache
def text() -> str:
    """Returns the script of both init containers. The first argument of the script selects the container."""
    common, wait, init = (
        _strip(resources.files(__name__).joinpath(f"{name}.sh").read_text(encoding="utf-8"))
        for name in ("common", "wait", "init")
    )
    header = f"# ultraserver-webhook init script, version {VERSION}"
    return "\n".join([header, *common, "if [[ ${1-} == wait ]]; then", *wait, "fi", *init]) + "\n"


def _strip(source: str) -> list[str]:
    """Returns the lines of code in a file, without indentation. `common.sh` has the rules for such files."""
    lines = (line.strip() for line in source.splitlines())
    return [line for line in lines if line and not line.startswith("#")]
