"""One control plane with the controllers of the other kinds, and webhook and guard as the component has them.

mpi-operator is missing, as its MPIJob and training-operator's are two definitions of one name. T9k's operator
is not public: ``test_t9k.py`` makes its Pods.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pytest
import yaml

from testbed.plane import nodes, webhook
from testbed.plane.controllers import Controllers
from testbed.plane.controlplane import ControlPlane, established
from testbed.plane.jobs import end
from tests.plane.guard import people
from tests.plane.kinds.jobs import labelled_set

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from testbed.plane.kubectl import Kubectl

ULTRASERVERS = 6
OWN = webhook.REPOSITORY / "tests" / "data" / "kinds"
"""Definitions that this project wrote itself, as the real ones are not public."""
COMPONENT = webhook.REPOSITORY / "manifests" / "components" / "kinds"
T9K = "mpijobs.batch.tensorstack.dev"
MAKERS = (
    *("trainjobs", "jobsets", "leaderworkersets", "pytorchjobs", "mpijobs.kubeflow.org"),
    *("jobs.batch", "statefulsets.apps"),
)
"""Everything that makes Pods, or makes what does."""
_numbers = itertools.count()


class KindsPlane(ControlPlane):
    """A control plane whose kinds of job are those of the component."""

    def _define_jobs(self) -> None:
        self._others = Controllers(self)
        self._others.define()
        for path in sorted(OWN.glob("*.yaml")):
            self.kubectl.create(yaml.safe_load(path.read_text(encoding="utf-8")))
        self.kubectl.wait_for(established, "crd", T9K)

    def _start_operator(self) -> None:
        self._others.start()


@pytest.fixture(scope="package")
def plane(
    tools: Path, controller_tools: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ControlPlane]:
    """The control plane with six UltraServers and two plain machines."""
    assert controller_tools is None
    with KindsPlane(tmp_path_factory.mktemp("kinds"), tools) as running:
        nodes.create(running.kubectl, nodes.ultraserver_nodes(ULTRASERVERS) + nodes.plain_nodes(2))
        asked = webhook.start(running.programs, running.folder / "webhook")
        inside = running.kubectl.create_namespace("webhook-probe")
        probe = {**webhook.PROBE, "apiVersion": "kubeflow.org/v1"}
        document = webhook.configuration(asked, component=COMPONENT / "mutating.yaml")
        probes = (people.WORKER, labelled_set("another.job"))
        with (
            webhook.registered(inside, document, probe),
            people.guarding(running.kubectl, inside, *probes, more=COMPONENT / "guard.yaml"),
        ):
            yield running


@pytest.fixture
def namespace(plane: ControlPlane) -> Iterator[Kubectl]:
    """Kubectl for a new namespace; what is in it is deleted after the test, so that its nodes are free."""
    inside = plane.kubectl.create_namespace(f"kinds-{next(_numbers)}")
    yield inside
    # Before their Pods, or they would be made again.
    inside.delete(",".join(MAKERS))
    for kind in MAKERS:
        inside.wait_for(lambda found: not found["items"], kind)
    end(inside, "pods")
