"""The shell that runs in the launcher's two init containers, and how it is handed to them.

The sources beside this module are read by people; what travels in a job is their text without indentation,
comment lines and blank lines, because it is stored in every job that it is added to. It is one text for both
containers, in an annotation that each has as a variable.
"""

from functools import cache
from importlib import resources
from typing import Final, Literal

VERSION: Final = "2"
"""Goes up with every change of behaviour; it is the one comment that stays in the text."""

Stage = Literal["wait", "init"]
"""The container that waits for the workers, and the one that sets them up."""

VARIABLE: Final = "ULTRASERVER_SCRIPT"
"""Has the text, in the environment of both containers."""

RUN: Final = f'eval "${{{VARIABLE}:?is the annotation ultraserver-webhook.io/init-script, which is gone}}"'
"""What bash runs: a Pod whose annotation somebody took away must not pass."""


@cache
def text() -> str:
    """The script of both init containers: the first word after its name says which of them it is."""
    common, wait, init = (
        _strip(resources.files(__name__).joinpath(f"{name}.sh").read_text(encoding="utf-8"))
        for name in ("common", "wait", "init")
    )
    header = f"# ultraserver-webhook init script, version {VERSION}"
    return "\n".join([header, *common, "if [[ ${1-} == wait ]]; then", *wait, "fi", *init]) + "\n"


def command(stage: Stage) -> list[str]:
    """What goes into the ``command`` of one of the containers."""
    return ["bash", "-c", RUN, "ultraserver-init", stage]


def _strip(source: str) -> list[str]:
    """The lines of a source that do something, without their indentation.

    Args:
        source: A script that keeps to the rules at the head of `common.sh`.

    Returns:
        Its lines.
    """
    lines = (line.strip() for line in source.splitlines())
    return [line for line in lines if line and not line.startswith("#")]
