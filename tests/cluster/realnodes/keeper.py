"""Holds the namespaces of one plane with real nodes, and removes every trace of them at its end.

Run as a script by ``namespaces``: ``keeper.py FOLDER CGROUP``. Standard input is a pipe from the starter;
when the starter ends, even by SIGKILL, the pipe closes. The first process of the PID namespace is killed
then, and with it every process of every node, every mount and every interface. What is left are the control
groups and the folder on disk, which are removed here. ``keeper.py init`` is that first process.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

CGROUPS = Path("/sys/fs/cgroup")
PATIENCE = 60.0
SPACES = ["--net", "--mount", "--pid", "--uts", "--ipc", "--mount-proc", "--propagation=private"]


def init() -> None:
    """The first process of the namespace: reaps what is left to it until it is killed."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    while True:
        signal.sigwait({signal.SIGCHLD})
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass


def remove_cgroups(name: str) -> None:
    """Removes the control groups ``name`` of every hierarchy; their processes may still be ending."""
    deadline = time.monotonic() + PATIENCE
    for top in CGROUPS.glob(f"*/{name}"):
        for folder, _, _ in os.walk(top, topdown=False):
            while True:
                try:
                    Path(folder).rmdir()
                except FileNotFoundError:
                    break
                except OSError as error:
                    if error.errno != errno.EBUSY or time.monotonic() > deadline:
                        raise
                    time.sleep(0.1)
                else:
                    break


def main() -> None:
    """Makes the namespaces, says the id of their first process, and cleans up when told or left alone."""
    # Ctrl-C in a terminal is for the starter, which may still want to stop things itself.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    folder, cgroup = sys.argv[1:]
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
            outer.wait()
            remove_cgroups(cgroup)
            shutil.rmtree(folder)


if __name__ == "__main__":
    if sys.argv[1:] == ["init"]:
        init()
    main()
