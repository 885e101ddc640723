"""The whole story: installed with kubectl, a plain job, and what its ranks are told on four nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.cluster.realnodes import story
from tests.cluster.realnodes.job import INIT, WAIT, Job

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.cluster.kubectl import Kubectl
    from tests.cluster.realnodes.plugin import NeuronPlugin


def table(title: str, log: str) -> list[list[str]]:
    """The rows of a table in the log of the init container, its heading left out."""
    _, _, rest = log.partition(f"{title}\n")
    rows, _, _ = rest.partition("\n\n")
    return [line.split() for line in rows.splitlines()[1:]]


@pytest.fixture
def job(installed: Kubectl, mended: dict[str, NeuronPlugin]) -> Iterator[Kubectl]:
    """The README's job, applied; kubectl for its namespace."""
    story.all_offered(installed, mended)
    inside = installed.in_namespace("default")
    inside.run("apply", "-f", str(story.JOB))
    yield inside
    inside.run("delete", "-f", str(story.JOB))


def test_the_readmes_job_computes_on_one_ultraserver_in_topology_order(
    job: Kubectl, plugins: dict[str, NeuronPlugin]
) -> None:
    demo = Job(job)
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


def test_the_serving_pods_run_restricted_with_a_read_only_root(installed: Kubectl) -> None:
    pods = installed.get_json("pods", "-l", "app.kubernetes.io/component=serving")["items"]
    assert pods
    for pod in pods:
        name = pod["metadata"]["name"]
        assert installed.run("exec", name, "--", "id", "-u").stdout.strip() == "65532"
        refused = installed.run("exec", name, "--", "touch", "/opt/x", check=False)
        assert "Read-only file system" in refused.stderr
