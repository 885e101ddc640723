"""Tests with the real scheduler that loose Pods and jobs stay off each other's UltraServers."""

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from contract import keys
from testbed.mpijob import mpijob
from testbed.plane import nodes
from testbed.plane.controlplane import ControlPlane
from testbed.plane.jobs import ROLE
from testbed.plane.kubectl import Kubectl, Object
from testbed.plane.webhook import RunningWebhook
from tests.plane.bound import wait_count
from tests.plane.fleets.installed import installed
from tests.plane.fleets.pods import spec

TRN2U = {"nodeSelector": {nodes.INSTANCE_TYPE: nodes.TRN2U}}
_numbers = itertools.count()


@pytest.fixture(scope="module", autouse=True)
def registered(plane: ControlPlane, running: RunningWebhook) -> Iterator[None]:
    """Registers the webhooks for all kinds of job and for Pods."""
    with installed(plane, running, {"kinds": ["all"], "pods": True}):
        yield


def loose_pod(devices: int, **fields: Any) -> Object:
    """Returns a Pod that a user creates without a job."""
    metadata = {"name": f"bare-{next(_numbers)}"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec(devices, **fields)}


def batch_job(name: str, pods: int, devices: int, **metadata: Any) -> Object:
    template = {"spec": spec(devices, restartPolicy="Never")}
    counts = {"parallelism": pods, "completions": pods}
    metadata["name"] = name
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": metadata,
        "spec": counts | {"template": template},
    }


def node_of(inside: Kubectl, pod: Object) -> str:
    """Creates a Pod, waits until it is bound, and returns its node."""
    name = inside.create(pod)["metadata"]["name"]
    bound = inside.wait_for(lambda obj: obj["spec"].get("nodeName"), "pod", name)
    return str(bound["spec"]["nodeName"])


def unschedulable(inside: Kubectl, *select: str) -> str:
    """Waits until the scheduler finds no node for any of the Pods, and returns its messages."""

    def messages(obj: Object) -> list[str]:
        conditions = [row for pod in obj["items"] for row in pod.get("status", {}).get("conditions", ())]
        return [row["message"] for row in conditions if row.get("reason") == "Unschedulable"]

    stored = inside.wait_for(
        lambda obj: obj["items"] and len(messages(obj)) == len(obj["items"]), "pods", *select
    )
    return " ".join(messages(stored))


@pytest.mark.parametrize("kind", ["MPIJob", "Job"])
def test_jobs_and_loose_pods_keep_off_each_others_ultraservers(
    namespace: Callable[..., Kubectl], servers: dict[str, str], kind: str
) -> None:
    jobs, users = namespace(), namespace()

    def create_pair(name: str) -> tuple[str, ...]:
        """Creates a job of two workers with half of a node's devices each; returns a selector of its Pods."""
        annotations = {keys.INJECT: "true"}
        if kind == "MPIJob":
            jobs.create(mpijob(2, name=name, amount=8, annotations=annotations))
            return ("-l", f"training.kubeflow.org/job-name={name},{ROLE}=worker")
        jobs.create(batch_job(name, 2, 8, annotations=annotations))
        return ("-l", f"job-name={name}")

    first = {servers[pod["spec"]["nodeName"]] for pod in wait_count(jobs, 2, *create_pair("first"))}
    loose = servers[node_of(users, loose_pod(1, **TRN2U))]
    assert loose not in first
    # The other two UltraServers have four pairs of nodes, so they have room for four jobs. A fifth job waits,
    # although the UltraServer of the loose Pod has a free pair.
    for name in ("second", "third", "fourth"):
        assert loose not in {
            servers[pod["spec"]["nodeName"]] for pod in wait_count(jobs, 2, *create_pair(name))
        }
    assert "anti-affinity" in unschedulable(jobs, *create_pair("fifth"))
    # Other loose Pods share this UltraServer. If it is full, they wait, although nodes of jobs have room.
    assert {servers[node_of(users, loose_pod(devices, **TRN2U))] for devices in (16, 16, 16, 15)} == {loose}
    users.create(loose_pod(1, **TRN2U) | {"metadata": {"name": "late", "labels": {"late": "yes"}}})
    assert "anti-affinity" in unschedulable(users, "-l", "late=yes")


def test_loose_pods_without_a_node_selector_prefer_nodes_outside_ultraservers(
    namespace: Callable[..., Kubectl], servers: dict[str, str]
) -> None:
    users = namespace()
    for devices in (8, 8):
        assert node_of(users, loose_pod(devices)) not in servers
    trn1 = {"nodeSelector": {nodes.INSTANCE_TYPE: nodes.TRN1}}
    users.create(loose_pod(1, **trn1) | {"metadata": {"name": "full", "labels": {"full": "yes"}}})
    assert "Insufficient aws.amazon.com/neuron" in unschedulable(users, "-l", "full=yes")
    assert node_of(users, loose_pod(8)) in servers
