"""The shell that runs in the launcher's two init containers, and how it is handed to them.

The sources beside this module are read by people; what travels in a job is their text without indentation,
comment lines and blank lines, because it is stored in every job that it is added to.
"""

from functools import cache
from importlib import resources
from typing import Final, Literal

VERSION: Final = "1"
"""Goes up with every change of behaviour; it is the one comment that stays in the text."""

Stage = Literal["wait", "init"]

STAGES: Final[tuple[Stage, ...]] = ("wait", "init")
"""Every script; the rule table quotes each as ``$(script.STAGE)``."""

_SOURCES: Final[dict[Stage, tuple[str, ...]]] = {
    "wait": ("common.sh", "wait.sh"),
    "init": ("common.sh", "init.sh"),
}


@cache
def text(stage: Stage) -> str:
    """The script of one init container.

    Args:
        stage: `wait` for the container that waits for the workers, `init` for the one that sets them up.

    Returns:
        The text to be run by `bash -c`.
    """
    header = f"# ultraserver-webhook {stage} script, version {VERSION}"
    folder = resources.files(__name__)
    sources = (folder.joinpath(name).read_text(encoding="utf-8") for name in _SOURCES[stage])
    return "\n".join([header, *(line for source in sources for line in _strip(source))]) + "\n"


def command(stage: Stage) -> list[str]:
    """The whole command of one init container.

    Args:
        stage: As for `text`.

    Returns:
        What goes into the container's `command`; the words after the script are for those who read a pod.
    """
    return ["bash", "-c", text(stage), "ultraserver-init", stage]


def _strip(source: str) -> list[str]:
    """The lines of a source that do something, without their indentation.

    Args:
        source: A script that keeps to the rules at the head of `common.sh`.

    Returns:
        Its lines.
    """
    lines = (line.strip() for line in source.splitlines())
    return [line for line in lines if line and not line.startswith("#")]
