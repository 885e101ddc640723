"""Tests of jobs whose authors request a topology from Kueue, in addition to the webhook's blocks."""

import copy
from collections.abc import Callable, Iterator
from typing import Final

import pytest
import yaml

from kube.api import Object
from kubectl_ultraserver.check.gather import CHECKS_AFTER, Gatherer
from kubectl_ultraserver.objects import NAME
from testbed.experiment.stage import TEAMS, Stage
from testbed.mpijob import mpijob
from testbed.plane import kueue as program
from testbed.plane import nodes
from testbed.plane.jobs import template
from tests.plane.kueue.jobs import healthy_servers, wait_for_message, wait_until_whole
from tests.rules.tables import EXTENDS

LAYER: Final = "topology.k8s.aws/network-node-layer-3"
PREFIX: Final = "kueue.x-k8s.io/podset-"

pytestmark = pytest.mark.limit(90, "Kueue tries again to admit a job only after its own backoff")


@pytest.fixture(scope="module")
def queue_with_layers(package_stage: Stage) -> str:
    """The name of a queue whose Topology has a network layer above UltraServers, three in each layer."""
    servers = sorted(healthy_servers(package_stage))
    for name, label in package_stage.labels.items():
        if (server := label.get(nodes.SERVER_ID_4)) in servers:
            value = f"layer-{servers.index(server) // 3}"
            change = {"op": "add", "path": f"/metadata/labels/{LAYER.replace('/', '~1')}", "value": value}
            package_stage.api.patch(f"/api/v1/nodes/{name}", [change])
    topology, flavor, any_node, queue, local = yaml.safe_load_all(program.EXAMPLE.read_text(encoding="utf-8"))
    topology["spec"]["levels"].insert(0, {"nodeLabel": LAYER})
    flavor["spec"]["topologyName"] = topology["metadata"]["name"] = "layers"
    flavor["metadata"]["name"] = queue["metadata"]["name"] = local["spec"]["clusterQueue"] = "layers"
    queue["spec"]["resourceGroups"][0]["flavors"][1]["name"] = "layers"
    local["metadata"] = {"name": "layers", "namespace": TEAMS[0]}
    assert any_node["metadata"]["name"] == "any-node"
    for document in (topology, flavor, queue, local):
        package_stage.plane.kubectl.create(document)
    return "layers"


@pytest.fixture
def stage_with_layers(stage: Stage, queue_with_layers: str) -> Iterator[Stage]:
    stage.queue = queue_with_layers
    yield stage
    stage.queue = program.LOCAL_QUEUE


def job_with_topology(workers: int, **requests: str) -> Object:
    document = copy.deepcopy(mpijob(workers))
    annotations = {PREFIX + key.replace("_", "-"): value for key, value in requests.items()}
    template(document, "Worker").setdefault("metadata", {})["annotations"] = annotations
    return document


@pytest.mark.parametrize(
    ("workers", "requests"),
    [
        (4, {"preferred_topology": LAYER}),
        (8, {"required_topology": LAYER}),
        (4, {"unconstrained_topology": "true"}),
    ],
)
def test_kueue_accepts_blocks_within_the_topology_that_the_author_requests(
    stage_with_layers: Stage, workers: int, requests: dict[str, str]
) -> None:
    """Kueue allows blocks with each of these annotations, and admits the job onto whole UltraServers."""
    key, stored = stage_with_layers.create(job_with_topology(workers, **requests))
    assert {key.removeprefix(PREFIX) for key in template(stored, "Worker")["metadata"]["annotations"]} >= {
        *(name.replace("_", "-") for name in requests),
        "slice-required-topology",
        "slice-size",
    }
    wait_until_whole(stage_with_layers, key)


@pytest.mark.parametrize("annotation", ["preferred_topology", "required_topology"])
def test_kueue_refuses_blocks_above_the_topology_that_the_author_requests(
    stage_with_layers: Stage, annotation: str
) -> None:
    """So the webhook adds no blocks to a job that requests single nodes: the job would never start."""
    slices = {"slice_required_topology": nodes.SERVER_ID_4, "slice_size": "4"}
    key, _ = stage_with_layers.create(
        job_with_topology(4, **{annotation: "kubernetes.io/hostname"}, **slices)
    )
    wait_for_message(stage_with_layers, key, "is above the podset topology kubernetes.io/hostname")


@pytest.fixture
def check_levels(stage: Stage) -> Iterator[Callable[[str], list[tuple[str, str]]]]:
    """A function that adds a text to the rule table, and returns the lines of ``check`` about levels."""
    admin = stage.plane.kubectl
    admin.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAME}})
    inside, name = admin.in_namespace(NAME), f"{NAME}-rules"
    rows = program.ROWS.read_text(encoding="utf-8")

    def lines(text: str) -> list[tuple[str, str]]:
        data = {"15-kueue.yaml": rows, "rules.yaml": EXTENDS + text}
        inside.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data})
        return [(line.status, line.text) for line in CHECKS_AFTER["levels"](Gatherer(stage.api, TEAMS[0]))]

    yield lines
    inside.delete("configmap", name)


def test_check_reports_a_level_that_no_topology_has(
    queue_with_layers: str, check_levels: Callable[[str], list[tuple[str, str]]]
) -> None:
    assert queue_with_layers
    texts = (
        f"the rule table uses Kueue's level {key}; a Topology has it"
        for key in (nodes.SERVER_ID_2, nodes.SERVER_ID_4)
    )
    assert check_levels("") == [("pass", text) for text in texts]
    level = "topology.k8s.aws/ultraserver-id"
    ((status, text),) = check_levels(f"values: {{kueueLevel: {level}}}\n")
    assert status == "warn"
    assert text.startswith(
        f"the rule table uses Kueue's level {level}; no Topology has it, only kubernetes.io/hostname, "
    )
