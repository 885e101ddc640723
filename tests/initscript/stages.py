"""How the packaged table has the two containers run the text."""

from typing import Final, Literal

Stage = Literal["wait", "init"]
"""The container that waits for the workers, and the one that sets them up."""

VARIABLE: Final = "ULTRASERVER_SCRIPT"
"""Has the text, in the environment of both containers."""

RUN: Final = f'eval "${{{VARIABLE}:?is the annotation ultraserver-webhook.io/init-script, which is gone}}"'
"""What bash runs: a Pod whose annotation somebody took away must not pass."""


def command(stage: Stage) -> list[str]:
    """The ``command`` of one of the containers."""
    return ["bash", "-c", RUN, "ultraserver-init", stage]
