"""Holds the namespaces of one plane with real nodes, and removes every trace of them at its end.

Run as a script by ``namespaces``: ``keeper.py FOLDER CGROUP``. Standard input is a pipe from the starter;
when the starter ends, even by SIGKILL, the pipe closes. The first process of the PID namespace is killed
then, and with it every process of every node, every mount and every interface. What is left are the control
groups and the folder on disk, which are removed here. ``keeper.py init`` is that first process.

A keeper that is killed itself removes nothing. So it has a lock on both for as long as it lives, and the next
plane to start removes what is not locked: ``collect``.
"""

import contextlib
import errno
import fcntl
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

CGROUPS = Path("/sys/fs/cgroup")
PREFIX = "real-nodes-"
"""Begins the names of control groups."""
LOCKED = "memory"
"""The hierarchy where a keeper's lock is: its group is made there first and removed there last."""
IN_USE = {errno.EBUSY, errno.ENOTEMPTY, errno.ENOENT}
PATIENCE = 60.0
SPACES = ["--net", "--mount", "--pid", "--uts", "--ipc", "--mount-proc", "--propagation=private"]


def init() -> None:
    """Runs as the first process of the namespace: reaps orphans until it is killed."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    while True:
        signal.sigwait({signal.SIGCHLD})
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass


def lock(folder: Path, how: int) -> int | None:
    """Locks a folder, or a control group, until the descriptor is closed or this process has ended.

    Args:
        folder: what to lock.
        how: ``LOCK_EX`` waits for the lock, ``LOCK_EX | LOCK_NB`` does not.

    Returns:
        The descriptor; none where the folder is gone, or another process has the lock.
    """
    with contextlib.ExitStack() as undo:
        try:
            descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
            undo.callback(os.close, descriptor)
            fcntl.flock(descriptor, how)
            if os.path.samestat(os.fstat(descriptor), folder.stat()):
                undo.pop_all()
                return descriptor
        except (FileNotFoundError, BlockingIOError):
            return None
    return None


def make(folder: Path, mode: int) -> int:
    """Makes a folder, or a control group, that is locked: its descriptor."""
    while True:
        with contextlib.suppress(FileExistsError):
            folder.mkdir(mode)
        # Before it was locked, another process may have collected it.
        if (descriptor := lock(folder, fcntl.LOCK_EX)) is not None:
            return descriptor


def collect(folders: Path) -> None:
    """Removes control groups, and what is in ``folders``, whose keepers were killed.

    Raises:
        OSError: something cannot be removed.
    """
    for left in [*CGROUPS.glob(f"{LOCKED}/{PREFIX}*"), *folders.iterdir()]:
        if (descriptor := lock(left, fcntl.LOCK_EX | fcntl.LOCK_NB)) is None:
            continue
        try:
            if left.parent == folders:
                remove_folder(left)
            else:
                remove_cgroups(left.name)
        finally:
            os.close(descriptor)


def remove_cgroups(name: str) -> None:
    """Removes the control groups ``name`` of every hierarchy."""
    for top in sorted(CGROUPS.glob(f"*/{name}"), key=lambda top: top.parent.name == LOCKED):
        for folder, _, _ in os.walk(top, topdown=False):
            _remove(Path(folder), Path.rmdir)


def remove_folder(folder: Path) -> None:
    """Removes a folder with all that is in it."""
    _remove(folder, shutil.rmtree)


def _remove(folder: Path, by: Callable[[Path], None]) -> None:
    """Removes what processes may still use, and change, which are ending."""
    deadline = time.monotonic() + PATIENCE
    while folder.exists():
        try:
            by(folder)
        except OSError as error:
            if error.errno not in IN_USE or time.monotonic() > deadline:
                raise
            time.sleep(0.1)  # noqa: TID251 - processes end without an event, and this runs without testbed


def main() -> None:
    """Creates the namespaces, prints their first process, and cleans up when standard input ends."""
    # Ctrl-C in a terminal is for the starter, which may still want to stop things itself.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    folder, cgroup = Path(sys.argv[1]), sys.argv[2]
    try:
        # Descriptors that are never closed: the locks end with this process.
        make(CGROUPS / LOCKED / cgroup, 0o755)
        make(folder, 0o700)
        _hold_namespaces()
    finally:
        remove_cgroups(cgroup)
        remove_folder(folder)


def _hold_namespaces() -> None:
    # Without --kill-child and the parent's death signal, a killed keeper would leave everything running.
    command = ["setpriv", "--pdeathsig=KILL", "unshare", *SPACES, "--fork", "--kill-child"]
    command += [sys.executable, "-S", __file__, "init"]
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True) as outer:
        try:
            if outer.stdout and outer.stdout.readline():
                first = Path(f"/proc/{outer.pid}/task/{outer.pid}/children").read_text(encoding="ascii")
                sys.stdout.write(f"{first.split()[0]}\n")
                sys.stdout.flush()
                sys.stdin.read()
                os.kill(int(first), signal.SIGKILL)
        finally:
            outer.kill()


if __name__ == "__main__":
    if sys.argv[1:] == ["init"]:
        init()
    main()
