"""Functions for fleets: the programs that this machine lacks, keys, and commands in namespaces."""

import functools
import shutil
import subprocess
from pathlib import Path

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
PROGRAMS = ("sshd", "ssh", "ssh-keygen", "mpirun", "ip", "unshare", "nsenter", "setpriv")


@functools.cache
def missing() -> list[str]:
    """Returns the programs and rights that this machine lacks for a fleet."""
    lacking = [name for name in PROGRAMS if shutil.which(name, path=PATH) is None]
    if not lacking:
        probe = subprocess.run(
            ["unshare", "--mount", "--net", "--pid", "--fork", "true"], check=False, capture_output=True
        )
        lacking = ["the right to make namespaces"] if probe.returncode else []
    return lacking


def keygen(path: Path, *kind: str) -> None:
    """Creates an ssh key pair."""
    subprocess.run(["ssh-keygen", "-q", *kind, "-N", "", "-f", path], check=True)


def child(pid: int) -> int:
    """Returns the first child of a process."""
    return int(Path(f"/proc/{pid}/task/{pid}/children").read_text().split()[0])


def enter(pid: int, *spaces: str) -> list[str]:
    """Returns the beginning of a command that runs in namespaces of a process."""
    return ["nsenter", *(f"--{space}" for space in spaces), f"--target={pid}", "--"]
