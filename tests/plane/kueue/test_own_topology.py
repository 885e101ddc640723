"""Jobs whose authors ask Kueue for a topology of their own, next to the blocks that the webhook adds."""

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
from tests.plane.kueue.jobs import healthy, wait_said, wait_whole
from tests.rules.tables import EXTENDS

LAYER: Final = "topology.k8s.aws/network-node-layer-3"
ASKS: Final = "kueue.x-k8s.io/podset-"

pytestmark = pytest.mark.limit(90, "Kueue comes back to what it could not admit when its own backoff is over")


@pytest.fixture(scope="module")
def layered(whole_stage: Stage) -> str:
    """A queue whose Topology has a network layer of three UltraServers above an UltraServer."""
    servers = sorted(healthy(whole_stage))
    for name, label in whole_stage.labels.items():
        if (server := label.get(nodes.SERVER_ID_4)) in servers:
            value = f"layer-{servers.index(server) // 3}"
            change = {"op": "add", "path": f"/metadata/labels/{LAYER.replace('/', '~1')}", "value": value}
            whole_stage.api.patch(f"/api/v1/nodes/{name}", [change])
    topology, flavor, anywhere, queue, local = yaml.safe_load_all(program.EXAMPLE.read_text(encoding="utf-8"))
    topology["spec"]["levels"].insert(0, {"nodeLabel": LAYER})
    flavor["spec"]["topologyName"] = topology["metadata"]["name"] = "layers"
    flavor["metadata"]["name"] = queue["metadata"]["name"] = local["spec"]["clusterQueue"] = "layers"
    queue["spec"]["resourceGroups"][0]["flavors"][1]["name"] = "layers"
    local["metadata"] = {"name": "layers", "namespace": TEAMS[0]}
    assert anywhere["metadata"]["name"] == "any-node"
    for part in (topology, flavor, queue, local):
        whole_stage.plane.kubectl.create(part)
    return "layers"


@pytest.fixture
def queued(stage: Stage, layered: str) -> Iterator[Stage]:
    stage.queue = layered
    yield stage
    stage.queue = program.LOCAL_QUEUE


def asking(workers: int, **asked: str) -> Object:
    document = copy.deepcopy(mpijob(workers))
    own = {ASKS + key.replace("_", "-"): value for key, value in asked.items()}
    template(document, "Worker").setdefault("metadata", {})["annotations"] = own
    return document


@pytest.mark.parametrize(
    ("workers", "requests"),
    [
        (4, {"preferred_topology": LAYER}),
        (8, {"required_topology": LAYER}),
        (4, {"unconstrained_topology": "true"}),
    ],
)
def test_kueue_takes_blocks_within_the_topology_of_the_author(
    queued: Stage, workers: int, requests: dict[str, str]
) -> None:
    """Slices are allowed with each of these, and Kueue admits the job onto whole UltraServers."""
    key, stored = queued.create(asking(workers, **requests))
    assert {key.removeprefix(ASKS) for key in template(stored, "Worker")["metadata"]["annotations"]} >= {
        *(name.replace("_", "-") for name in requests),
        "slice-required-topology",
        "slice-size",
    }
    wait_whole(queued, key)


@pytest.mark.parametrize("strict", ["preferred_topology", "required_topology"])
def test_kueue_takes_no_blocks_above_the_topology_of_the_author(queued: Stage, strict: str) -> None:
    """So the webhook adds none next to a node, or it would keep the job from ever starting."""
    slices = {"slice_required_topology": nodes.SERVER_ID_4, "slice_size": "4"}
    key, _ = queued.create(asking(4, **{strict: "kubernetes.io/hostname"}, **slices))
    wait_said(queued, key, "is above the podset topology kubernetes.io/hostname")


@pytest.fixture
def installed(stage: Stage) -> Iterator[Callable[[str], list[tuple[str, str]]]]:
    """What ``check`` says of levels, by a text at the end of an installation's rule table."""
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
    layered: str, installed: Callable[[str], list[tuple[str, str]]]
) -> None:
    assert layered
    has = (
        f"the rule table uses Kueue's level {key}; a Topology has it"
        for key in (nodes.SERVER_ID_2, nodes.SERVER_ID_4)
    )
    assert installed("") == [("pass", text) for text in has]
    level = "topology.k8s.aws/ultraserver-id"
    ((status, text),) = installed(f"values: {{kueueLevel: {level}}}\n")
    assert status == "warn"
    assert text.startswith(
        f"the rule table uses Kueue's level {level}; no Topology has it, only kubernetes.io/hostname, "
    )
