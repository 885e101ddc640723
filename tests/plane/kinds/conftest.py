"""A control plane with the controllers of other kinds, and with the webhook and guard of the value ``kinds``.

mpi-operator is missing, because its MPIJob and training-operator's MPIJob have the same definition name.
T9k's operator is not public: ``test_t9k.py`` creates its Pods.
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
from testbed.plane.controlplane import ControlPlane, is_established
from testbed.plane.jobs import delete_all
from testbed.plane.kubectl import Kubectl
from testbed.waiting import until
from tests.plane.guard import people
from tests.plane.kinds.jobs import CONTAINER, RUNTIME, labelled_set, named, template, trainjob

ULTRASERVERS = 6
OWN_DEFINITIONS = webhook.REPOSITORY / "tests" / "data" / "kinds"
"""Definitions by this project for kinds whose real definitions are not public."""
VALUES = {"kinds": ["all"]}
T9K = "mpijobs.batch.tensorstack.dev"
OWNER_KINDS = (
    *("trainjobs", "jobsets", "leaderworkersets", "pytorchjobs", "mpijobs.kubeflow.org"),
    *("jobs.batch", "statefulsets.apps"),
)
"""The kinds whose controllers create Pods, or create objects whose controllers create Pods."""
WHOLE = "whole"
"""The label of namespaces whose jobs whole-job admission places."""
_numbers = itertools.count()


class KindsPlane(ControlPlane):
    """A control plane with the kinds of job of the value ``kinds``, except mpi-operator's MPIJob."""

    def _define_jobs(self) -> None:
        self._others = Controllers(self)
        self._others.define()
        for path in sorted(OWN_DEFINITIONS.glob("*.yaml")):
            self.kubectl.create(yaml.safe_load(path.read_text(encoding="utf-8")))
        self.kubectl.wait_for(is_established, "crd", T9K)

    def _start_operator(self) -> None:
        self._others.start()


@pytest.fixture(scope="package")
def plane(
    tools: Path, controller_tools: None, helm: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ControlPlane]:
    """The control plane with six UltraServers, two plain nodes, the webhook and the guard."""
    assert (controller_tools, helm) == (None, None)
    with KindsPlane(tmp_path_factory.mktemp("kinds"), tools) as running:
        nodes.create(running.kubectl, nodes.ultraserver_nodes(ULTRASERVERS) + nodes.plain_nodes(2))
        server = webhook.start(running.programs, running.folder / "webhook")
        inside = running.kubectl.create_namespace("webhook-probe")
        probe = {**webhook.PROBE, "apiVersion": "kubeflow.org/v1"}
        document = webhook.configuration(server, values=VALUES)
        for hook in document["webhooks"]:
            expressions = hook["namespaceSelector"]["matchExpressions"]
            without_label = {"key": WHOLE, "operator": "DoesNotExist"}
            hook["namespaceSelector"] = {"matchExpressions": [*expressions, without_label]}
        forged = (people.WORKER, labelled_set("another.job"))
        with (
            webhook.register(inside, document, probe),
            people.guarding(running.kubectl, inside, *forged, values=VALUES),
        ):
            yield running


@pytest.fixture(scope="package")
def whole(plane: ControlPlane) -> Iterator[None]:
    """Runs a second webhook, with the rows of whole-job admission, and the placement program."""
    server = webhook.start(plane.programs, plane.folder / "whole", placement.ROWS, "whole-webhook")
    inside = plane.kubectl.create_namespace("whole-probe", {WHOLE: ""})
    selected = {"matchLabels": {WHOLE: ""}}
    document = webhook.configuration(server, "whole", selected, values=VALUES)
    with webhook.register(inside, document, {**webhook.PROBE, "apiVersion": "kubeflow.org/v1"}):
        # The guard may already have created this namespace.
        plane.kubectl.apply(
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": placement.NAMESPACE}}
        )
        placement.start(plane, "whole-placement", plane.kubeconfig, failed_seconds=2, interval_seconds=1)
        yield


@pytest.fixture(scope="package")
def runtime(plane: ControlPlane) -> None:
    """The runtime with the pod templates of TrainJobs: a smaller torch-distributed of Kubeflow Trainer."""
    pod = template(containers=[{"name": "node", "image": CONTAINER["image"]}], restartPolicy="Never")
    ancestor = {"labels": {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}}
    node = {
        "name": "node",
        "template": {"metadata": ancestor, "spec": {"template": pod, "backoffLimitPerIndex": 3}},
    }
    kind = "trainer.kubeflow.org/v1alpha1/ClusterTrainingRuntime"
    spec = {"mlPolicy": {"numNodes": 1}, "template": {"spec": {"replicatedJobs": [node]}}}
    training_runtime = named(kind, spec, RUNTIME)
    training_runtime["metadata"]["labels"] = {"trainer.kubeflow.org/framework": "torch"}
    plane.kubectl.create(training_runtime)
    # Trainer's webhook refuses jobs until its cache has their runtime: this takes a second on a busy machine.
    probe, dry_run = json.dumps(trainjob(1)), ("create", "--dry-run=server", "-f", "-")
    inside = plane.kubectl.in_namespace("default")
    until(
        lambda: inside.run(*dry_run, stdin=probe, check=False).returncode == 0,
        f"TrainJobs with the runtime {RUNTIME}",
    )


@pytest.fixture
def namespace(plane: ControlPlane) -> Iterator[Kubectl]:
    """Kubectl for a new namespace. Its jobs and Pods are deleted after the test, so that nodes are free."""
    yield from _namespace(plane, {})


@pytest.fixture
def whole_namespace(plane: ControlPlane, whole: None) -> Iterator[Kubectl]:
    """Kubectl for a new namespace whose jobs whole-job admission places."""
    assert whole is None
    yield from _namespace(plane, {WHOLE: ""})


def _namespace(plane: ControlPlane, labels: dict[str, str]) -> Iterator[Kubectl]:
    inside = plane.kubectl.create_namespace(f"kinds-{next(_numbers)}", labels)
    yield inside

    def has_no_owners() -> bool:
        # A controller may still create an object whose owner is gone. Garbage collection takes minutes.
        inside.delete(",".join(OWNER_KINDS))
        return not any(inside.get_json(kind)["items"] for kind in OWNER_KINDS)

    # The owners are deleted before the Pods, because controllers would create the Pods again.
    until(has_no_owners, "the end of all objects that own Pods", every=0.5)
    delete_all(inside, "pods")
