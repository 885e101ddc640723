"""How the packaged table has the two containers run the text."""

from typing import Final, Literal

Stage = Literal["wait", "init"]
"""The container that waits for the workers, and the one that sets them up."""

VARIABLE: Final = "ULTRASERVER_SCRIPT"
"""Has the text, in the environment of both containers."""

RUN: Final = (
    f'eval "${{{VARIABLE}:?is empty, the webhook did not see this Pod: delete it when the webhook is up}}"'
)
"""What bash runs: a Pod whose annotation a user took away must not pass."""


def command(stage: Stage) -> list[str]:
    """Returns the ``command`` of one of the containers."""
    return ["bash", "-c", RUN, "ultraserver-init", stage]
