"""One control plane with the controllers of other kinds; webhook and guard are as the value kinds has them.

mpi-operator is missing, as its MPIJob and training-operator's are two definitions of one name. T9k's operator
is not public: ``test_t9k.py`` makes its Pods.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from testbed.plane import nodes, placement, webhook
from testbed.plane.controllers import Controllers
from testbed.plane.controlplane import ControlPlane, established
from testbed.plane.jobs import end
from testbed.plane.kubectl import Kubectl
from testbed.waiting import until
from tests.plane.guard import people
from tests.plane.kinds.jobs import CONTAINER, RUNTIME, labelled_set, named, template, trainjob

ULTRASERVERS = 6
OWN = webhook.REPOSITORY / "tests" / "data" / "kinds"
"""Definitions that this project wrote itself, as the real ones are not public."""
VALUES = {"kinds": ["all"]}
T9K = "mpijobs.batch.tensorstack.dev"
MAKERS = (
    *("trainjobs", "jobsets", "leaderworkersets", "pytorchjobs", "mpijobs.kubeflow.org"),
    *("jobs.batch", "statefulsets.apps"),
)
"""Everything that makes Pods, or makes what does."""
WHOLE = "whole"
"""Label of namespaces whose jobs whole-job admission places."""
_numbers = itertools.count()


class KindsPlane(ControlPlane):
    """A control plane whose kinds of job are those of the value."""

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
    tools: Path, controller_tools: None, helm: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ControlPlane]:
    """The control plane with six UltraServers and two plain machines."""
    assert (controller_tools, helm) == (None, None)
    with KindsPlane(tmp_path_factory.mktemp("kinds"), tools) as running:
        nodes.create(running.kubectl, nodes.ultraserver_nodes(ULTRASERVERS) + nodes.plain_nodes(2))
        requests = webhook.start(running.programs, running.folder / "webhook")
        inside = running.kubectl.create_namespace("webhook-probe")
        probe = {**webhook.PROBE, "apiVersion": "kubeflow.org/v1"}
        document = webhook.configuration(requests, values=VALUES)
        for hook in document["webhooks"]:
            without = {"key": WHOLE, "operator": "DoesNotExist"}
            hook["namespaceSelector"] = {
                "matchExpressions": [*hook["namespaceSelector"]["matchExpressions"], without]
            }
        probes = (people.WORKER, labelled_set("another.job"))
        with (
            webhook.registered(inside, document, probe),
            people.guarding(running.kubectl, inside, *probes, values=VALUES),
        ):
            yield running


@pytest.fixture(scope="package")
def whole(plane: ControlPlane) -> Iterator[None]:
    """A second webhook, which has the rows of whole-job admission besides, and the program."""
    requests = webhook.start(plane.programs, plane.folder / "whole", placement.ROWS, "whole-webhook")
    inside = plane.kubectl.create_namespace("whole-probe", {WHOLE: ""})
    selected = {"matchLabels": {WHOLE: ""}}
    document = webhook.configuration(requests, "whole", selected, values=VALUES)
    with webhook.registered(inside, document, {**webhook.PROBE, "apiVersion": "kubeflow.org/v1"}):
        # The guard's tests may have made it.
        plane.kubectl.apply(
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": placement.NAMESPACE}}
        )
        placement.start(plane, "whole-placement", plane.kubeconfig, failed_seconds=2, interval_seconds=1)
        yield


@pytest.fixture(scope="package")
def runtime(plane: ControlPlane) -> None:
    """What a TrainJob's pod templates are in: as Kubeflow Trainer's own torch-distributed, smaller."""
    pod = template(containers=[{"name": "node", "image": CONTAINER["image"]}], restartPolicy="Never")
    ancestor = {"labels": {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}}
    node = {
        "name": "node",
        "template": {"metadata": ancestor, "spec": {"template": pod, "backoffLimitPerIndex": 3}},
    }
    kind = "trainer.kubeflow.org/v1alpha1/ClusterTrainingRuntime"
    spec = {"mlPolicy": {"numNodes": 1}, "template": {"spec": {"replicatedJobs": [node]}}}
    match = named(kind, spec, RUNTIME)
    match["metadata"]["labels"] = {"trainer.kubeflow.org/framework": "torch"}
    plane.kubectl.create(match)
    # Trainer's webhook refuses jobs of a runtime until its cache has it: a second on a busy machine.
    probe, dry = json.dumps(trainjob(1)), ("create", "--dry-run=server", "-f", "-")
    inside = plane.kubectl.in_namespace("default")
    until(lambda: inside.run(*dry, stdin=probe, check=False).returncode == 0, f"Trainer to know {RUNTIME}")


@pytest.fixture
def namespace(plane: ControlPlane) -> Iterator[Kubectl]:
    """Kubectl for a new namespace; what is in it is deleted after the test, so that its nodes are free."""
    yield from _namespace(plane, {})


@pytest.fixture
def whole_namespace(plane: ControlPlane, whole: None) -> Iterator[Kubectl]:
    """The same, for jobs that are placed whole."""
    assert whole is None
    yield from _namespace(plane, {WHOLE: ""})


def _namespace(plane: ControlPlane, labels: dict[str, str]) -> Iterator[Kubectl]:
    inside = plane.kubectl.create_namespace(f"kinds-{next(_numbers)}", labels)
    yield inside

    def without_makers() -> bool:
        # A controller that has begun makes one more, which nothing collects for minutes: its owner is gone.
        inside.delete(",".join(MAKERS))
        return not any(inside.get_json(kind)["items"] for kind in MAKERS)

    # Before their Pods, or they would be created again.
    until(without_makers, "the end of what makes Pods", every=0.5)
    end(inside, "pods")
