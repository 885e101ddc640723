"""The command with which the two init containers of the packaged table run the init script."""

from typing import Final, Literal

Stage = Literal["wait", "init"]
"""`wait` waits for the workers, and `init` sets them up."""

VARIABLE: Final = "ULTRASERVER_SCRIPT"
"""The environment variable of both containers that contains the script."""

RUN: Final = (
    f'eval "${{{VARIABLE}:?is empty, the webhook did not see this Pod: delete it when the webhook is up}}"'
)
"""The command that bash runs. It fails if the variable is empty, for example without the Pod's annotation."""


def command(stage: Stage) -> list[str]:
    """Returns the ``command`` of the init container for a stage."""
    return ["bash", "-c", RUN, "ultraserver-init", stage]
