"""One control plane with the definitions of the other kinds, and the webhook as the component registers it.

Their operators do not run here: ``operators.py`` makes the Pods as their source says. mpi-operator is missing
too, as its MPIJob and training-operator's are two definitions of one name.
"""

from __future__ import annotations

import itertools
import os
from typing import TYPE_CHECKING

import pytest

from tests.cluster import nodes, webhook
from tests.cluster.controlplane import ControlPlane, established
from tests.cluster.jobs import clear
from tests.cluster.tools import definitions

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.cluster.kubectl import Kubectl

ULTRASERVERS = 6
OWN = webhook.REPOSITORY / "tests" / "data" / "kinds"
"""Definitions that this project wrote itself, as the real ones are not public."""
COMPONENT = webhook.REPOSITORY / "manifests" / "components" / "kinds" / "mutating.yaml"
_numbers = itertools.count()


class KindsPlane(ControlPlane):
    """A control plane whose kinds of job are those of the component."""

    def _define_jobs(self) -> None:
        for path in (*definitions.files(), *sorted(OWN.glob("*.yaml"))):
            self.kubectl.run("create", "-f", str(path))
        for found in self.kubectl.get_json("crds")["items"]:
            self.kubectl.wait_for(established, "crd", found["metadata"]["name"])

    def _start_operator(self) -> None:
        """None runs here."""


@pytest.fixture(scope="package")
def plane(tools: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """The control plane with six UltraServers and two plain machines."""
    if lacking := definitions.missing():
        reason = f"{', '.join(lacking)} is not there: make cluster-tools"
        if os.environ.get("REQUIRE_CLUSTER") == "1":
            pytest.fail(reason, pytrace=False)
        pytest.skip(reason)
    with KindsPlane(tmp_path_factory.mktemp("kinds"), tools) as running:
        nodes.create(running.kubectl, nodes.ultraserver_nodes(ULTRASERVERS) + nodes.plain_nodes(2))
        asked = webhook.start(running.programs, running.folder / "webhook")
        inside = running.kubectl.create_namespace("webhook-probe")
        probe = {**webhook.PROBE, "apiVersion": "kubeflow.org/v1"}
        with webhook.registered(inside, webhook.configuration(asked, component=COMPONENT), probe):
            yield running


@pytest.fixture
def namespace(plane: ControlPlane) -> Iterator[Kubectl]:
    """Kubectl for a new namespace; what is in it is deleted after the test, so that its nodes are free."""
    inside = plane.kubectl.create_namespace(f"kinds-{next(_numbers)}")
    yield inside
    clear(inside)


@pytest.fixture(scope="package")
def servers(plane: ControlPlane) -> dict[str, str]:
    """The UltraServer of every node that is in one, by the node's name."""
    found = plane.kubectl.get_json("nodes")["items"]
    labels = {node["metadata"]["name"]: node["metadata"]["labels"] for node in found}
    return {name: each[nodes.SERVER_ID_4] for name, each in labels.items() if nodes.SERVER_ID_4 in each}
