"""What is left of a plane with real nodes after its end: nothing, however it ended."""

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
from tests.nodes.processes import about, alive, children, offspring, processes, spaces

REPOSITORY = Path(__file__).resolve().parents[2]
SLEEP = {"name": "main", "image": BUSYBOX, "command": ["busybox", "sleep", "600"]}
POD = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "runs"}, "spec": {"containers": [SLEEP]}}
pytestmark = pytest.mark.soak


def mounts() -> list[str]:
    return Path("/proc/self/mounts").read_text(encoding="utf-8").splitlines()


def interfaces() -> list[str]:
    shown = subprocess.run(["ip", "-json", "link"], check=True, capture_output=True, text=True).stdout
    return [item["ifname"] for item in json.loads(shown)]


def within(namespaces: set[str]) -> list[int]:
    """Returns the processes in any of some namespaces."""
    return [process for process in processes() if spaces(process) & namespaces]


@contextlib.contextmanager
def started(folder: Path) -> Iterator[subprocess.Popen[str]]:
    """Yields what ``make cluster NODES=1`` runs."""
    process = subprocess.Popen(
        # It ends with this test run: a session of its own does not, by itself.
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
    """A keeper, the first process that it holds, and what it removes."""

    pid: int
    first: int
    folder: Path
    groups: str


def keeper_among(family: list[int]) -> Keeper:
    for process in family:
        words = about(process, "cmdline").split("\0")
        if str(KEEPER) in words and "init" not in words:
            folder, groups = words[words.index(str(KEEPER)) + 1 :][:2]
            (first,) = children(process)
            return Keeper(process, first, Path(folder), groups)
    raise LookupError(f"no keeper among {family}")


class Plane(NamedTuple):
    """A running plane with a container: its credentials, its processes and the namespaces they are in."""

    credentials: Path
    starter: subprocess.Popen[str]
    family: list[int]
    keeper: Keeper
    inside: set[str]

    def wait_ended(self) -> None:
        """Waits until none of its processes is left."""
        self.starter.wait(PATIENCE)
        until(lambda: not within(self.inside) and not any(map(alive, self.family)), "all of it to end")


@pytest.fixture
def plane(tools: Path, node_tools: Path, tmp_path: Path) -> Iterator[Plane]:
    """A plane with one node, and processes, mounts, interfaces and control groups of a container."""
    assert node_tools.is_dir()
    with started(tmp_path) as starter:
        text = starter.stdout
        assert text is not None
        config = next(line.partition("=")[2].strip() for line in text if "export KUBECONFIG=" in line)
        kubectl = Kubectl(tools / "kubectl", Path(config), "default")
        kubectl.create(POD)
        kubectl.wait_for(lambda obj: obj["status"]["phase"] == "Running", "pod", "runs", timeout=PATIENCE)
        family = offspring(starter.pid)
        held = keeper_among(family)
        inside = set().union(*(spaces(process) for process in offspring(held.first)))
        assert len(within(inside)) > 10
        assert list(CGROUPS.glob(f"*/{held.groups}/*/kubepods"))
        assert held.folder.is_dir()
        yield Plane(Path(config), starter, family, held, inside)


def left(keeper: Keeper) -> list[Path]:
    """Returns what there is of what a keeper removes."""
    return [path for path in (keeper.folder, *CGROUPS.glob(f"*/{keeper.groups}")) if path.exists()]


@pytest.fixture
def machine() -> tuple[list[str], list[str]]:
    """Mounts and interfaces before a test."""
    return mounts(), interfaces()


@pytest.mark.parametrize("sign", [signal.SIGINT, signal.SIGKILL], ids=["stopped", "killed"])
def test_nothing_is_left_of_a_plane(
    sign: signal.Signals, machine: tuple[list[str], list[str]], plane: Plane
) -> None:
    plane.starter.send_signal(sign)
    plane.wait_ended()
    assert (mounts(), interfaces()) == machine
    assert left(plane.keeper) == []
    assert plane.credentials.exists() == (sign == signal.SIGKILL)
    with Namespaces():
        assert not plane.credentials.exists()


def test_what_a_killed_keeper_leaves_is_gone_when_the_next_plane_starts(
    machine: tuple[list[str], list[str]], plane: Plane
) -> None:
    # As when a whole container is killed: no process is left that could remove anything.
    os.kill(plane.keeper.pid, signal.SIGKILL)
    plane.starter.kill()
    plane.wait_ended()
    assert (mounts(), interfaces()) == machine
    assert len(left(plane.keeper)) > 1
    with Namespaces():
        assert left(plane.keeper) == []
        assert not plane.credentials.exists()


def test_what_a_living_keeper_holds_stays_when_the_next_plane_starts(node_tools: Path) -> None:
    assert node_tools.is_dir()
    with Namespaces() as first, Namespaces() as second:
        for each in (first, second):
            assert each.folder.is_dir()
            assert [*CGROUPS.glob(f"*/{each.cgroup}")]
