"""Tests that a plane with real nodes leaves nothing on this machine, however it ends."""

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from testbed.images.images import BUSYBOX
from testbed.nodes.keeper import CGROUPS
from testbed.nodes.namespaces import KEEPER, Namespaces
from testbed.plane.kubectl import Kubectl
from testbed.waiting import PATIENCE, until
from tests.nodes.processes import children, foreign_namespaces, is_running, process_tree, processes, read_proc

REPOSITORY = Path(__file__).resolve().parents[2]
SLEEP = {"name": "main", "image": BUSYBOX, "command": ["busybox", "sleep", "600"]}
POD = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "runs"}, "spec": {"containers": [SLEEP]}}
pytestmark = pytest.mark.soak


def mounts() -> list[str]:
    return Path("/proc/self/mounts").read_text(encoding="utf-8").splitlines()


def interfaces() -> list[str]:
    links = subprocess.run(["ip", "-json", "link"], check=True, capture_output=True, text=True).stdout
    return [item["ifname"] for item in json.loads(links)]


def processes_in(namespaces: set[str]) -> list[int]:
    """Returns the processes that are in one of these namespaces."""
    return [process for process in processes() if foreign_namespaces(process) & namespaces]


@contextlib.contextmanager
def start_cluster(folder: Path) -> Iterator[subprocess.Popen[str]]:
    """Yields the program that ``make cluster NODES=1`` runs."""
    process = subprocess.Popen(
        # A process in its own session does not end with this test run, so setpriv ends it.
        ["setpriv", "--pdeathsig=TERM", sys.executable, "-m", "testbed.nodes", "--nodes=1"],
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


class Keeper(NamedTuple):
    """A keeper, its first process in the namespaces, and the folder and control groups that it removes."""

    pid: int
    first: int
    folder: Path
    groups: str


def find_keeper(family: list[int]) -> Keeper:
    for process in family:
        words = read_proc(process, "cmdline").split("\0")
        if str(KEEPER) in words and "init" not in words:
            folder, groups = words[words.index(str(KEEPER)) + 1 :][:2]
            (first,) = children(process)
            return Keeper(process, first, Path(folder), groups)
    raise LookupError(f"no keeper among {family}")


class Plane(NamedTuple):
    """A running plane with a container: its kubeconfig, its processes, its keeper and its namespaces."""

    credentials: Path
    starter: subprocess.Popen[str]
    family: list[int]
    keeper: Keeper
    namespaces_of_plane: set[str]

    def wait_for_end(self) -> None:
        """Waits until all processes of the plane have ended."""
        self.starter.wait(PATIENCE)
        until(
            lambda: not processes_in(self.namespaces_of_plane) and not any(map(is_running, self.family)),
            "all processes of the plane to end",
        )


@pytest.fixture
def plane(tools: Path, node_tools: Path, tmp_path: Path) -> Iterator[Plane]:
    """A plane with one node and a container, so that it has mounts, interfaces and control groups."""
    assert node_tools.is_dir()
    with start_cluster(tmp_path) as starter:
        text = starter.stdout
        assert text is not None
        config = next(line.partition("=")[2].strip() for line in text if "export KUBECONFIG=" in line)
        kubectl = Kubectl(tools / "kubectl", Path(config), "default")
        kubectl.create(POD)
        kubectl.wait_for(lambda obj: obj["status"]["phase"] == "Running", "pod", "runs", timeout=PATIENCE)
        family = process_tree(starter.pid)
        keeper = find_keeper(family)
        namespaces_of_plane = set().union(
            *(foreign_namespaces(process) for process in process_tree(keeper.first))
        )
        assert len(processes_in(namespaces_of_plane)) > 10
        assert list(CGROUPS.glob(f"*/{keeper.groups}/*/kubepods"))
        assert keeper.folder.is_dir()
        yield Plane(Path(config), starter, family, keeper, namespaces_of_plane)


def remains_of(keeper: Keeper) -> list[Path]:
    """Returns the folder and the control groups of a keeper that still exist."""
    return [path for path in (keeper.folder, *CGROUPS.glob(f"*/{keeper.groups}")) if path.exists()]


@pytest.fixture
def machine() -> tuple[list[str], list[str]]:
    """The mounts and interfaces of this machine before a test."""
    return mounts(), interfaces()


@pytest.mark.parametrize("sign", [signal.SIGINT, signal.SIGKILL], ids=["stopped", "killed"])
def test_a_plane_leaves_nothing_when_it_is_stopped_or_killed(
    sign: signal.Signals, machine: tuple[list[str], list[str]], plane: Plane
) -> None:
    plane.starter.send_signal(sign)
    plane.wait_for_end()
    assert (mounts(), interfaces()) == machine
    assert remains_of(plane.keeper) == []
    assert plane.credentials.exists() == (sign == signal.SIGKILL)
    with Namespaces():
        assert not plane.credentials.exists()


def test_the_next_plane_removes_the_remains_of_a_killed_keeper(
    machine: tuple[list[str], list[str]], plane: Plane
) -> None:
    # If a whole container is killed, no process is left that could clean up.
    os.kill(plane.keeper.pid, signal.SIGKILL)
    plane.starter.kill()
    plane.wait_for_end()
    assert (mounts(), interfaces()) == machine
    assert len(remains_of(plane.keeper)) > 1
    with Namespaces():
        assert remains_of(plane.keeper) == []
        assert not plane.credentials.exists()


def test_the_next_plane_keeps_the_folder_and_control_groups_of_a_running_keeper(node_tools: Path) -> None:
    assert node_tools.is_dir()
    with Namespaces() as first, Namespaces() as second:
        for namespaces in (first, second):
            assert namespaces.folder.is_dir()
            assert [*CGROUPS.glob(f"*/{namespaces.cgroup}")]
