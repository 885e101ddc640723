"""A control plane of its own, whose nodes are UltraServers and others, with nothing registered at first."""

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
    """Three UltraServers, a trn1 node, and a plain machine."""
    assert helm is None
    with ControlPlane(tmp_path_factory.mktemp("fleets"), tools) as running:
        result = nodes.ultraserver_nodes(ULTRASERVERS) + nodes.trn1_nodes(1) + nodes.plain_nodes(1)
        nodes.create(running.kubectl, result)
        # It opts in, for every installation.
        running.kubectl.create_namespace("probe", {webhook.INJECT: "enabled"})
        yield running


@pytest.fixture(scope="package")
def running(plane: ControlPlane) -> RunningWebhook:
    """The webhook with the rows of the component pods; no one asks it yet."""
    rows = chart.RULES / "20-pods.yaml"
    return webhook.start(plane.programs, plane.folder / "webhook", rows)


@pytest.fixture
def namespace(plane: ControlPlane) -> Iterator[Callable[..., Kubectl]]:
    """Makes namespaces with these labels; what is in them is deleted after the test."""
    made: list[Kubectl] = []

    def make(**labels: str) -> Kubectl:
        result = {f"ultraserver-webhook.io/{key}": value for key, value in labels.items()}
        made.append(plane.kubectl.create_namespace(f"fleets-{next(_numbers)}", result))
        return made[-1]

    yield make
    for inside in made:
        inside.delete("deployments,daemonsets,cronjobs")
        clear(inside)
