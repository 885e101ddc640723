"""Stops the programs of a control plane when the process that started it has ended in any way.

This script has one argument, the seconds between SIGTERM and SIGKILL. Standard input is a pipe from the
starter. The line ``+PID`` adds a process group, and the line ``-PID`` removes an ended group. When the
starter ends, even by SIGKILL, the pipe closes. Then the script stops the remaining groups, the newest first.
"""

import contextlib
import os
import signal
import sys
import time
from pathlib import Path


def is_alive(group: int) -> bool:
    """Returns whether a process group has a member that has not ended.

    For ``killpg``, members that have ended exist until the first process of the machine reaps them. On some
    machines, this takes up to two seconds.
    """
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return any(_is_live_member(group, stat) for stat in Path("/proc").glob("[0-9]*/stat"))


def _is_live_member(group: int, stat: Path) -> bool:
    try:
        text = stat.read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return False
    state, _, group_id = text.rpartition(")")[2].split()[:3]
    return int(group_id) == group and state not in {"Z", "X"}


def stop_group(group: int, grace: float) -> None:
    """Ends a process group with SIGTERM and, if necessary, with SIGKILL after ``grace`` seconds."""
    for signal_number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(group, signal_number)
        deadline = time.monotonic() + grace
        while time.monotonic() < deadline:
            if not is_alive(group):
                return
            time.sleep(0.05)  # noqa: TID251 - the end of a whole group has no event


def main() -> None:
    """Reads lines until the starter has ended, and then stops the remaining groups."""
    # Ctrl-C in a terminal reaches this process too, but the starter may stop its programs itself.
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
