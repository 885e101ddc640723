"""Holds the namespaces of a plane with real nodes, and removes them when the plane ends.

``namespaces`` runs this script as ``keeper.py FOLDER CGROUP``. Standard input is a pipe from the starter.
When the starter ends, even by SIGKILL, the pipe closes. Then the keeper kills the first process of the PID
namespace, which is ``keeper.py init``. So the kernel ends all processes, mounts and interfaces of all nodes.
Finally the keeper removes the control groups and the folder on disk.

A killed keeper removes nothing. So each keeper locks its control group and its folder. At the start of the
next plane, ``remove_leftovers`` removes the control groups and folders that no process has locked.
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
"""The prefix of the names of control groups."""
LOCK_HIERARCHY = "memory"
"""The hierarchy with the lock of a keeper. The control group is created there first, and removed last."""
IN_USE = {errno.EBUSY, errno.ENOTEMPTY, errno.ENOENT}
PATIENCE = 60.0
UNSHARE_OPTIONS = ["--net", "--mount", "--pid", "--uts", "--ipc", "--mount-proc", "--propagation=private"]


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


def lock(folder: Path, operation: int) -> int | None:
    """Locks a folder, or a control group, until the descriptor is closed or this process has ended.

    Args:
        folder: The folder or control group.
        operation: ``LOCK_EX`` waits for the lock, ``LOCK_EX | LOCK_NB`` does not.

    Returns:
        The descriptor; None if the folder does not exist, or another process has the lock.
    """
    with contextlib.ExitStack() as undo:
        try:
            descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
            undo.callback(os.close, descriptor)
            fcntl.flock(descriptor, operation)
            if os.path.samestat(os.fstat(descriptor), folder.stat()):
                undo.pop_all()
                return descriptor
        except (FileNotFoundError, BlockingIOError):
            return None
    return None


def create_locked(folder: Path, mode: int) -> int:
    """Creates and locks a folder or a control group; returns its descriptor."""
    while True:
        with contextlib.suppress(FileExistsError):
            folder.mkdir(mode)
        # Another process may have removed the folder before this process locked it.
        if (descriptor := lock(folder, fcntl.LOCK_EX)) is not None:
            return descriptor


def remove_leftovers(parent: Path) -> None:
    """Removes the control groups, and the folders in ``parent``, whose keepers were killed.

    Raises:
        OSError: A control group or folder cannot be removed.
    """
    for path in [*CGROUPS.glob(f"{LOCK_HIERARCHY}/{PREFIX}*"), *parent.iterdir()]:
        if (descriptor := lock(path, fcntl.LOCK_EX | fcntl.LOCK_NB)) is None:
            continue
        try:
            if path.parent == parent:
                remove_folder(path)
            else:
                remove_cgroups(path.name)
        finally:
            os.close(descriptor)


def remove_cgroups(name: str) -> None:
    """Removes the control groups ``name`` of every hierarchy."""
    for top in sorted(CGROUPS.glob(f"*/{name}"), key=lambda top: top.parent.name == LOCK_HIERARCHY):
        for folder, _, _ in os.walk(top, topdown=False):
            _remove(Path(folder), Path.rmdir)


def remove_folder(folder: Path) -> None:
    """Removes a folder with its contents."""
    _remove(folder, shutil.rmtree)


def _remove(folder: Path, remove: Callable[[Path], None]) -> None:
    """Removes a folder, and retries while processes that are ending still use it."""
    deadline = time.monotonic() + PATIENCE
    while folder.exists():
        try:
            remove(folder)
        except OSError as error:
            if error.errno not in IN_USE or time.monotonic() > deadline:
                raise
            time.sleep(0.1)  # noqa: TID251 - there is no event, and this script cannot import testbed


def main() -> None:
    """Creates the namespaces, prints the id of the first process, and cleans up when standard input ends."""
    # Ctrl-C in a terminal reaches this process too, but the starter decides when its programs stop.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    folder, cgroup = Path(sys.argv[1]), sys.argv[2]
    try:
        # The descriptors are never closed: the locks end with this process.
        create_locked(CGROUPS / LOCK_HIERARCHY / cgroup, 0o755)
        create_locked(folder, 0o700)
        _hold_namespaces()
    finally:
        remove_cgroups(cgroup)
        remove_folder(folder)


def _hold_namespaces() -> None:
    # Without --kill-child and the parent's death signal, a killed keeper would leave everything running.
    command = ["setpriv", "--pdeathsig=KILL", "unshare", *UNSHARE_OPTIONS, "--fork", "--kill-child"]
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
