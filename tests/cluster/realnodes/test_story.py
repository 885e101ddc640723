"""The whole story: installed with kubectl, a plain job, and what its ranks are told on four nodes."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.cluster import nodes
from tests.cluster.realnodes.plugin import DEVICES
from tests.cluster.realnodes.test_device_plugin import offered
from tests.initscript.topology import servers

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.cluster.kubectl import Kubectl, Object
    from tests.cluster.realnodes.plane import RealPlane
    from tests.cluster.realnodes.plugin import NeuronPlugin

REPOSITORY = Path(__file__).resolve().parents[3]
NAMESPACE = "ultraserver-webhook"
ROLLOUT = ("rollout", "status", "--timeout=240s")
SECONDS = 240.0
LAUNCHER = "training.kubeflow.org/job-name=demo,training.kubeflow.org/job-role=launcher"
WORKERS = "training.kubeflow.org/job-name=demo,training.kubeflow.org/job-role=worker"


@pytest.fixture(scope="module")
def installed(real_plane: RealPlane, product_images: None) -> Kubectl:
    """The product, installed as docs/install.md says, and kubectl for its namespace."""
    assert product_images is None
    kubectl = real_plane.kubectl
    kubectl.run("apply", "-k", str(REPOSITORY / "manifests" / "overlays" / "eks"))
    own = kubectl.in_namespace(NAMESPACE)
    for name in ("ultraserver-webhook-certs", "ultraserver-webhook"):
        own.run(*ROLLOUT, f"deployment/{name}")
    return own


@pytest.fixture
def job(installed: Kubectl, mended: dict[str, NeuronPlugin]) -> Iterator[Kubectl]:
    """The README's job, applied; kubectl for its namespace."""
    inside = installed.in_namespace("default")
    for name in mended:
        offered(inside, name, DEVICES)
    inside.run("apply", "-f", str(REPOSITORY / "examples" / "four-node.yaml"))
    yield inside
    inside.run("delete", "-f", str(REPOSITORY / "examples" / "four-node.yaml"))


def ended(job: Kubectl) -> Object:
    """The launcher's Pod, once it has ended."""

    def over(found: Object) -> bool:
        return any(item["status"]["phase"] in {"Succeeded", "Failed"} for item in found["items"])

    found = job.wait_for(over, "pods", "-l", LAUNCHER, timeout=SECONDS)
    pod: Object = found["items"][0]
    return pod


def test_the_readmes_job_computes_on_one_ultraserver_in_topology_order(
    job: Kubectl, real_plane: RealPlane
) -> None:
    launcher = ended(job)
    name = launcher["metadata"]["name"]
    logs = {
        container["name"]: job.run("logs", name, "-c", container["name"]).stdout
        for kind in ("initContainers", "containers")
        for container in launcher["spec"][kind]
    }
    assert launcher["status"]["phase"] == "Succeeded", logs
    workers = job.get_json("pods", "-l", WORKERS)["items"]
    on = {item["metadata"]["name"]: item["spec"]["nodeName"] for item in workers}
    assert sorted(on.values()) == sorted(real_plane.nodes)
    labels = {node["metadata"]["name"]: node["metadata"]["labels"] for node in job.get_json("nodes")["items"]}
    assert len({labels[node][nodes.SERVER_ID_4] for node in on.values()}) == 1

    assert "Using 4-node config" in logs["ultraserver-init-container"]
    ranks = {
        int(found["rank"]): found
        for line in logs["mpitest"].splitlines()
        if (found := dict(re.findall(r"(\w+)=(\S*)", line))).get("rank")
    }
    assert sorted(ranks) == [0, 1, 2, 3]
    sysfs = dict(zip(real_plane.nodes, servers(4), strict=True))
    for place, rank in sorted(ranks.items()):
        of_node = sysfs[on[rank["host"]]]
        assert of_node["node_id_4"] == str(place)
        assert rank["NEURON_GLOBAL_TOPOID"] == str(place)
        assert rank["NEURON_GLOBAL_TOPOID0_HOST"].startswith(ranks[0]["host"])
        assert rank["NEURON_RT_ULTRASERVER_MODE"] == "1"
        assert rank["NEURON_RT_ULTRASERVER_SERVER_ID"] == of_node["server_id_4"]
        assert rank["NEURON_RT_ULTRASERVER_NODE_ID"] == of_node["node_id_4"]


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
