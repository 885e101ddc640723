"""What is left of a plane with real nodes after its end: nothing, however it ended."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.cluster.kubectl import Kubectl
from tests.cluster.realnodes.keeper import CGROUPS
from tests.cluster.realnodes.namespaces import KEEPER
from tests.cluster.realnodes.test_nodes import pod
from tests.waiting import PATIENCE, until

if TYPE_CHECKING:
    from collections.abc import Iterator

REPOSITORY = Path(__file__).resolve().parents[3]
SPACES = ("pid", "mnt", "net")


def mounts() -> list[str]:
    return Path("/proc/self/mounts").read_text(encoding="utf-8").splitlines()


def interfaces() -> list[str]:
    shown = subprocess.run(["ip", "-json", "link"], check=True, capture_output=True, text=True).stdout
    return [item["ifname"] for item in json.loads(shown)]


def spaces(process: int) -> set[str]:
    """The namespaces of a process that this one does not share."""
    found = set()
    for space in SPACES:
        link = Path(f"/proc/{process}/ns/{space}").readlink()
        if link != Path(f"/proc/self/ns/{space}").readlink():
            found.add(str(link))
    return found


def processes() -> Iterator[int]:
    return (int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit())


def within(namespaces: set[str]) -> list[int]:
    """The processes in any of some namespaces."""
    found = []
    for process in processes():
        try:
            if spaces(process) & namespaces:
                found.append(process)
        except OSError:  # It has ended meanwhile.
            continue
    return found


def offspring(process: int) -> list[int]:
    """A process's descendants, itself included."""
    children = Path(f"/proc/{process}/task/{process}/children").read_text(encoding="ascii").split()
    return [process, *(deeper for child in children for deeper in offspring(int(child)))]


@contextlib.contextmanager
def started(folder: Path) -> Iterator[subprocess.Popen[str]]:
    """``make cluster NODES=1``."""
    process = subprocess.Popen(
        # It ends with this test run: a session of its own does not, by itself.
        ["setpriv", "--pdeathsig=TERM", sys.executable, "-m", "tests.cluster.realnodes", "--nodes=1"],
        cwd=REPOSITORY,
        env={**os.environ, "TMPDIR": str(folder)},
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    with process:
        try:
            yield process
        finally:
            process.kill()


def keeper(family: list[int]) -> tuple[int, Path, str]:
    """The first process that a keeper holds, its folder, and the name of its control groups."""
    for process in family:
        words = Path(f"/proc/{process}/cmdline").read_text(encoding="utf-8").split("\0")
        if str(KEEPER) in words and "init" not in words:
            folder, cgroup = words[words.index(str(KEEPER)) + 1 :][:2]
            (child,) = Path(f"/proc/{process}/task/{process}/children").read_text(encoding="ascii").split()
            return int(child), Path(folder), cgroup
    raise LookupError(f"no keeper among {family}")


@pytest.mark.parametrize("sign", [signal.SIGINT, signal.SIGKILL], ids=["stopped", "killed"])
def test_nothing_is_left_of_a_plane(
    sign: signal.Signals, tools: Path, node_tools: Path, tmp_path: Path
) -> None:
    assert node_tools.is_dir()
    before = mounts(), interfaces()
    with started(tmp_path) as plane:
        said = plane.stdout
        assert said is not None
        config = next(line.partition("=")[2].strip() for line in said if "export KUBECONFIG=" in line)
        kubectl = Kubectl(tools / "kubectl", Path(config), "default")
        # Containers make processes, mounts, interfaces and control groups of their own.
        kubectl.create(pod("runs", "exec busybox sleep 600"))
        kubectl.wait_for(lambda found: found["status"]["phase"] == "Running", "pod", "runs", timeout=PATIENCE)
        family = offspring(plane.pid)
        first, folder, cgroup = keeper(family)
        inside = set().union(*(spaces(process) for process in offspring(first)))
        groups = list(CGROUPS.glob(f"*/{cgroup}/*/kubepods"))
        assert len(within(inside)) > 10
        assert groups
        assert folder.is_dir()
        plane.send_signal(sign)
        plane.wait(PATIENCE)
        until(lambda: not within(inside) and not any(Path(f"/proc/{process}").exists() for process in family))
    assert (mounts(), interfaces()) == before
    assert not folder.exists()
    assert not [*CGROUPS.glob(f"*/{cgroup}")]
