"""The whole story: installed with kubectl, a plain job, and what its ranks are told on four nodes."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import pytest

from tests.cluster import nodes
from tests.cluster.realnodes import story
from tests.cluster.realnodes.plugin import DEVICES, RESOURCE
from tests.initscript.topology import servers

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.cluster.kubectl import Kubectl
    from tests.cluster.realnodes.plane import RealPlane
    from tests.cluster.realnodes.plugin import NeuronPlugin


def table(title: str, log: str) -> list[list[str]]:
    """The rows of a table in the log of the init container, its heading left out."""
    _, _, rest = log.partition(f"{title}\n")
    rows, _, _ = rest.partition("\n\n")
    return [line.split() for line in rows.splitlines()[1:]]


@pytest.fixture
def job(installed: Kubectl, mended: dict[str, NeuronPlugin]) -> Iterator[Kubectl]:
    """The README's job, applied; kubectl for its namespace."""
    inside = installed.in_namespace("default")
    for name in mended:
        story.offered(inside, name, RESOURCE, DEVICES)
    inside.run("apply", "-f", str(story.JOB))
    yield inside
    inside.run("delete", "-f", str(story.JOB))


def test_the_readmes_job_computes_on_one_ultraserver_in_topology_order(
    job: Kubectl, real_plane: RealPlane
) -> None:
    launcher = story.ended(job)
    name = launcher["metadata"]["name"]
    logs = {each: job.run("logs", name, "-c", each).stdout for each in story.containers(launcher)}
    assert launcher["status"]["phase"] == "Succeeded", logs
    workers = job.get_json("pods", "-l", story.WORKERS)["items"]
    on = {item["metadata"]["name"]: item["spec"]["nodeName"] for item in workers}
    assert sorted(on.values()) == sorted(real_plane.nodes)
    labels = {node["metadata"]["name"]: node["metadata"]["labels"] for node in job.get_json("nodes")["items"]}
    assert len({labels[node][nodes.SERVER_ID_4] for node in on.values()}) == 1

    assert "All 4 workers answer ssh" in logs["wait-hostfilename"]
    said = logs["ultraserver-init-container"]
    assert said.startswith("Using 4-node config\n\nNumber of worker nodes: 4\n")
    ranks = {
        int(found["rank"]): found
        for line in logs["mpitest"].splitlines()
        if (found := dict(re.findall(r"(\w+)=(\S*)", line))).get("rank")
    }
    assert sorted(ranks) == [0, 1, 2, 3]
    in_order = [f"{ranks[place]['host']}.demo.default.svc" for place in range(4)]
    sysfs = dict(zip(real_plane.nodes, servers(4), strict=True))
    for place, rank in sorted(ranks.items()):
        of_node = sysfs[on[rank["host"]]]
        assert of_node["node_id_4"] == str(place)
        assert rank["NEURON_GLOBAL_TOPOID"] == str(place)
        assert rank["NEURON_GLOBAL_TOPOID0_HOST"] == in_order[0]
        assert rank["NEURON_RT_ULTRASERVER_MODE"] == "1"
        assert rank["NEURON_RT_ULTRASERVER_SERVER_ID"] == of_node["server_id_4"]
        assert rank["NEURON_RT_ULTRASERVER_NODE_ID"] == of_node["node_id_4"]
    assert [row[-1] for row in table("Sorted nodes:", said)] == in_order
    _, _, hostfile = said.partition("Updated hostfile (/root/ultraserver_init/new_hostfile):\n")
    assert hostfile.splitlines() == [f"{host} slots=1" for host in in_order]


def test_the_serving_pods_run_restricted_with_a_read_only_root(installed: Kubectl) -> None:
    for pod in installed.get_json("pods", "-l", "app.kubernetes.io/component=serving")["items"]:
        name = pod["metadata"]["name"]
        assert installed.run("exec", name, "--", "id", "-u").stdout.strip() == "65532"
        refused = installed.run("exec", name, "--", "touch", "/opt/x", check=False)
        assert "Read-only file system" in refused.stderr
    privileged = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "root"},
        "spec": {"containers": [{"name": "main", "image": "x", "securityContext": {"privileged": True}}]},
    }
    refused = installed.run("create", "-f", "-", stdin=json.dumps(privileged), check=False)
    assert 'violates PodSecurity "restricted' in refused.stderr
