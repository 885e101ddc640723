"""Tests the README: a release is installed, and the ranks of its job compute on four nodes."""

import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from testbed.nodes import story
from testbed.nodes.plane import RealPlane
from testbed.nodes.plugin import NeuronPlugin
from testbed.plane.kubectl import Kubectl
from tests.docs.blocks import text_of
from tests.nodes.commands import run
from tests.nodes.product.job import INIT, WAIT, Job


def table(title: str, log: str) -> list[list[str]]:
    """Returns the rows of a table in the log of the init container, without the heading."""
    _, _, rest = log.partition(f"{title}\n")
    rows, _, _ = rest.partition("\n\n")
    return [line.split() for line in rows.splitlines()[1:]]


@pytest.fixture
def demo(installed: Kubectl, real_plane: RealPlane, plugins: dict[str, NeuronPlugin]) -> Iterator[Job]:
    """The README's job, which kubectl has created."""
    story.wait_for_all_devices(installed, plugins)
    kubectl = installed.in_namespace("default")
    kubectl.run("apply", "-f", str(story.JOB))
    yield Job(kubectl, real_plane)
    kubectl.run("delete", "-f", str(story.JOB))


@pytest.fixture
def run_command(real_plane: RealPlane, release_folder: Path, tmp_path: Path) -> Callable[[str], str]:
    """Runs a command of a user who has kubectl, the release's plugin, and a Python without packages."""
    shutil.copy(release_folder / "kubectl-ultraserver.pyz", tmp_path / "kubectl-ultraserver")
    (tmp_path / "kubectl-ultraserver").chmod(0o755)
    (tmp_path / "python3").symlink_to(Path(sys.executable).resolve())

    def run_command(command: str) -> str:
        output, status = run(command, tmp_path, real_plane.kubectl, [str(tmp_path)])
        assert status == 0, output
        return output

    return run_command


def test_the_readmes_job_is_verified_and_computes_on_one_ultraserver_in_topology_order(
    demo: Job, plugins: dict[str, NeuronPlugin], run_command: Callable[[str], str]
) -> None:
    demo.wait_until_placed()
    verdict = run_command("kubectl ultraserver verify demo").splitlines()[-1]
    assert verdict.startswith("mpijob default/demo: placed whole: 4 workers on 1 UltraServer")
    assert verdict in text_of("README.md").splitlines()
    assert "[fail]" not in run_command("kubectl ultraserver check")
    demo.assert_computes(plugins)
    nodes = demo.wait_until_placed()
    assert sorted(nodes.values()) == sorted(plugins)
    assert "All 4 workers answer ssh" in demo.log(WAIT)
    text = demo.log(INIT)
    assert text.startswith("Using 4-node config\n\nNumber of worker nodes: 4\n")
    in_order = [f"{rank['host']}.demo.default.svc" for rank in demo.ranks()]
    assert [row[-1] for row in table("Sorted nodes:", text)] == in_order
    _, _, hostfile = text.partition("Updated hostfile (/root/ultraserver_init/new_hostfile):\n")
    assert hostfile.splitlines() == [f"{host} slots=1" for host in in_order]
    # The scheduler chooses which worker is on which node.
    chosen = {"worker": (r"demo-worker-\d", "WORKER"), "node id": (r"^(1,3,4 +\w+ +)\d", r"\1ID")}
    demo.assert_documented("done", text, chosen)
