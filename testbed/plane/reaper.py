"""Stops the programs of a control plane when the process that started it has ended in any way.

Run as a script, with the seconds between SIGTERM and SIGKILL as its argument. Standard input is a pipe from
the starter that says ``+PID`` for every process group begun and ``-PID`` for every one ended. A starter that
ends, even by SIGKILL, closes the pipe: what is left then is stopped, the last begun first.
"""

import contextlib
import os
import signal
import sys
import time
from pathlib import Path


def alive(group: int) -> bool:
    """Returns whether a process group still has a member that has not ended.

    Those that have ended still count for ``killpg``, until the first process of the machine takes notice:
    at once, or, on some machines, every other second.
    """
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return any(_lives_in(group, stat) for stat in Path("/proc").glob("[0-9]*/stat"))


def _lives_in(group: int, stat: Path) -> bool:
    try:
        text = stat.read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return False
    state, _, of = text.rpartition(")")[2].split()[:3]
    return int(of) == group and state not in {"Z", "X"}


def stop_group(group: int, grace: float) -> None:
    """Ends a process group: SIGTERM, time to finish, SIGKILL."""
    for sign in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(group, sign)
        deadline = time.monotonic() + grace
        while time.monotonic() < deadline:
            if not alive(group):
                return
            time.sleep(0.05)  # noqa: TID251 - the end of a whole group has no event


def main() -> None:
    """Listens until the starter is gone, then cleans up."""
    # Ctrl-C in a terminal is for the starter, which may still want to stop things itself.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    grace = float(sys.argv[1])
    groups: list[int] = []
    for line in sys.stdin:
        group = int(line[1:])
        if line.startswith("+"):
            groups.append(group)
        elif group in groups:
            groups.remove(group)
    for group in reversed(groups):
        stop_group(group, grace)


if __name__ == "__main__":
    main()
