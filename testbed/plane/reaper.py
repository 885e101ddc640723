"""Stops the programs of a control plane when the process that started it has ended in any way.

It runs as a script, with the seconds between SIGTERM and SIGKILL as its argument. Standard input is a pipe
from the starter. A line ``+PID`` names a process group that has begun, and ``-PID`` one that has ended. When
the starter ends, even by SIGKILL, the pipe closes. Then the remaining groups are stopped, the newest first.
"""

import contextlib
import os
import signal
import sys
import time
from pathlib import Path


def is_alive(group: int) -> bool:
    """Returns whether a process group has a member that has not ended.

    For ``killpg``, members that have ended exist until the first process of the machine reaps them. Some
    machines do that only every other second.
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
    state, _, group_id = text.rpartition(")")[2].split()[:3]
    return int(group_id) == group and state not in {"Z", "X"}


def stop_group(group: int, grace: float) -> None:
    """Ends a process group with SIGTERM and, after a time, SIGKILL."""
    for sign in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(group, sign)
        deadline = time.monotonic() + grace
        while time.monotonic() < deadline:
            if not is_alive(group):
                return
            time.sleep(0.05)  # noqa: TID251 - the end of a whole group has no event


def main() -> None:
    """Reads lines until the starter has ended, and then stops the remaining groups."""
    # Ctrl-C in a terminal is for the starter, which may stop its programs itself.
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
