"""A control plane with UltraServer nodes and other nodes. At first, no webhook is registered."""

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from testbed import chart
from testbed.plane import nodes, webhook
from testbed.plane.controlplane import ControlPlane
from testbed.plane.jobs import clear
from testbed.plane.kubectl import Kubectl
from testbed.plane.webhook import RunningWebhook

ULTRASERVERS = 3
_numbers = itertools.count()


@pytest.fixture(scope="package")
def plane(tools: Path, helm: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A control plane with three UltraServers, a trn1 node and a node without devices."""
    assert helm is None
    with ControlPlane(tmp_path_factory.mktemp("fleets"), tools) as running:
        documents = nodes.ultraserver_nodes(ULTRASERVERS) + nodes.trn1_nodes(1) + nodes.plain_nodes(1)
        nodes.create(running.kubectl, documents)
        # This namespace opts in, so that it also works with the value `optIn`.
        running.kubectl.create_namespace("probe", {webhook.INJECT: "enabled"})
        yield running


@pytest.fixture(scope="package")
def running(plane: ControlPlane) -> RunningWebhook:
    """The webhook with the rows of the value ``pods``. It is not registered yet."""
    rows = chart.RULES / "20-pods.yaml"
    return webhook.start(plane.programs, plane.folder / "webhook", rows)


@pytest.fixture
def namespace(plane: ControlPlane) -> Iterator[Callable[..., Kubectl]]:
    """Creates namespaces with labels. Jobs and Pods in them are deleted after the test."""
    created: list[Kubectl] = []

    def create(**labels: str) -> Kubectl:
        full_labels = {f"ultraserver-webhook.io/{key}": value for key, value in labels.items()}
        created.append(plane.kubectl.create_namespace(f"fleets-{next(_numbers)}", full_labels))
        return created[-1]

    yield create
    for inside in created:
        inside.delete("deployments,daemonsets,cronjobs")
        clear(inside)
