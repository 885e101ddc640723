"""The whole story: installed with kubectl, a plain job, and the variables of its ranks on four nodes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from testbed.nodes import story
from testbed.nodes.plane import RealPlane
from testbed.nodes.plugin import NeuronPlugin
from testbed.plane.kubectl import Kubectl
from tests.nodes.product.job import INIT, WAIT, Job


def table(title: str, log: str) -> list[list[str]]:
    """The rows of a table in the log of the init container, its heading left out."""
    _, _, rest = log.partition(f"{title}\n")
    rows, _, _ = rest.partition("\n\n")
    return [line.split() for line in rows.splitlines()[1:]]


@pytest.fixture
def demo(installed: Kubectl, real_plane: RealPlane, plugins: dict[str, NeuronPlugin]) -> Iterator[Job]:
    """The README's job, applied."""
    story.all_offered(installed, plugins)
    inside = installed.in_namespace("default")
    inside.run("apply", "-f", str(story.JOB))
    yield Job(inside, real_plane)
    inside.run("delete", "-f", str(story.JOB))


def test_the_readmes_job_computes_on_one_ultraserver_in_topology_order(
    demo: Job, plugins: dict[str, NeuronPlugin]
) -> None:
    demo.computes(plugins)
    on = demo.placed()
    assert sorted(on.values()) == sorted(plugins)
    assert "All 4 workers answer ssh" in demo.log(WAIT)
    said = demo.log(INIT)
    assert said.startswith("Using 4-node config\n\nNumber of worker nodes: 4\n")
    in_order = [f"{rank['host']}.demo.default.svc" for rank in demo.ranks()]
    assert [row[-1] for row in table("Sorted nodes:", said)] == in_order
    _, _, hostfile = said.partition("Updated hostfile (/root/ultraserver_init/new_hostfile):\n")
    assert hostfile.splitlines() == [f"{host} slots=1" for host in in_order]
    # The scheduler chooses which worker is on which node.
    chosen = {"worker": (r"demo-worker-\d", "WORKER"), "node id": (r"^(1,3,4 +\w+ +)\d", r"\1ID")}
    demo.prints_as_documented("done", said, chosen)
