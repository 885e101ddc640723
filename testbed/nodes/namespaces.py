"""Creates the Linux namespaces of a plane, which are removed when the process that created them ends."""

import contextlib
import os
import secrets
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Self

from testbed.kits import build
from testbed.kits.kit import CACHE
from testbed.nodes import keeper
from testbed.nodes.keeper import CGROUPS
from testbed.plane.process import ClusterError

KEEPER = Path(__file__).with_name("keeper.py")
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
PROGRAMS = ("unshare", "nsenter", "setpriv", "ip", "mount", "runc", "nft", "conntrack", "busybox")
CNI = Path("/usr/lib/cni")
FOLDERS = CACHE / "real-nodes"


def why_unusable() -> str:
    """Returns why this machine cannot have real nodes; empty if it can."""
    if build.OTHER:
        return f"KUBERNETES={build.OTHER} builds only a control plane, without nodes"
    if os.geteuid():
        return "namespaces, mounts and control groups need root"
    missing = [name for name in PROGRAMS if shutil.which(name, path=PATH) is None]
    if not (CNI / "bridge").is_file():
        missing.append(f"{CNI}/bridge (containernetworking-plugins)")
    if missing:
        return f"{', '.join(missing)} missing; .ci/run installs the packages"
    if not (CGROUPS / "memory" / "cgroup.procs").is_file():
        return f"{CGROUPS} has no hierarchies of version 1, and version 2 is not supported"
    return ""


@contextlib.contextmanager
def scratch() -> Iterator[Path]:
    """Yields a temporary folder. If this process is killed, the start of the next plane removes it."""
    FOLDERS.mkdir(parents=True, exist_ok=True)
    folder = FOLDERS.resolve() / secrets.token_hex(4)
    lock = keeper.create_locked(folder, 0o700)
    try:
        yield folder
    finally:
        keeper.remove_folder(folder)
        os.close(lock)


class Namespaces:
    """The namespaces of a plane. Use it as a context manager.

    Attributes:
        cgroup: The name of the plane's control group, in every hierarchy.
        folder: The folder of the nodes' data, on a disk. It is removed at the end.
    """

    def __init__(self) -> None:
        name = secrets.token_hex(4)
        self.cgroup = f"{keeper.PREFIX}{name}"
        self.folder = FOLDERS.resolve() / name
        self._keeper: subprocess.Popen[str] | None = None
        self.first_process = 0
        """The id of the first process in the namespaces, in the PID namespace of this process."""

    def __enter__(self) -> Self:
        if reason := why_unusable():
            raise ClusterError(f"no real nodes here: {reason}")
        FOLDERS.mkdir(parents=True, exist_ok=True)
        try:
            keeper.remove_leftovers(FOLDERS.resolve())
        except OSError as error:
            raise ClusterError(f"leftovers of a plane that was killed cannot be removed: {error}") from error
        self._keeper = subprocess.Popen(
            [sys.executable, "-S", str(KEEPER), str(self.folder), self.cgroup],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        line = _pipe(self._keeper.stdout).readline()
        if not line:
            self.__exit__()
            raise ClusterError("no real nodes here: the namespaces could not be created, see above")
        self.first_process = int(line)
        return self

    def __exit__(self, *_: object) -> None:
        if self._keeper is None:
            return
        _pipe(self._keeper.stdin).close()
        code = self._keeper.wait()
        _pipe(self._keeper.stdout).close()
        if code:
            raise ClusterError(
                f"control groups {self.cgroup} or {self.folder} could not be removed, see above"
            )

    @property
    def keeper(self) -> int:
        """The process id of the keeper; 0 before it is started."""
        return self._keeper.pid if self._keeper else 0

    def enter(self, process: int | None = None) -> list[str]:
        """Returns the prefix of a command that runs in these namespaces or in the namespaces of a process."""
        target = self.first_process if process is None else process
        return ["nsenter", f"--target={target}", "--net", "--mount", "--pid", "--uts", "--ipc", "--"]

    def run(self, command: Sequence[str], process: int | None = None) -> str:
        """Runs a command in the namespaces, and returns its standard output.

        Raises:
            ClusterError: The exit status is not zero.
        """
        result = subprocess.run(
            [*self.enter(process), *command],
            check=False,
            capture_output=True,
            text=True,
            env={"PATH": PATH},
        )
        if result.returncode:
            raise ClusterError(f"{' '.join(command)} failed:\n{result.stdout}{result.stderr}")
        return result.stdout


def _pipe(pipe: IO[str] | None) -> IO[str]:
    if pipe is None:
        raise ClusterError("the keeper has no pipes")
    return pipe
