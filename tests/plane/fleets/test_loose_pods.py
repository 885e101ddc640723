"""Pods of no placed job next to jobs, on the real scheduler: they keep off each other's UltraServers."""

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
def more_is_sent(plane: ControlPlane, running: RunningWebhook) -> Iterator[None]:
    """The default with other kinds and bare Pods."""
    with installed(plane, running, {"kinds": ["all"], "pods": True}):
        yield


def bare(devices: int, **more: Any) -> Object:
    """Returns a Pod of a person's own."""
    metadata = {"name": f"bare-{next(_numbers)}"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec(devices, **more)}


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
    name = inside.create(pod)["metadata"]["name"]
    obj = inside.wait_for(lambda got: got["spec"].get("nodeName"), "pod", name)
    return str(obj["spec"]["nodeName"])


def refused(inside: Kubectl, *select: str) -> str:
    """Returns why the scheduler finds no node for the Pods, once it says so of all of them."""

    def unschedulable(obj: Object) -> list[str]:
        conditions = [row for pod in obj["items"] for row in pod.get("status", {}).get("conditions", ())]
        return [row["message"] for row in conditions if row.get("reason") == "Unschedulable"]

    stored = inside.wait_for(
        lambda got: got["items"] and len(unschedulable(got)) == len(got["items"]), "pods", *select
    )
    return " ".join(unschedulable(stored))


@pytest.mark.parametrize("kind", ["MPIJob", "Job"])
def test_jobs_and_loose_pods_keep_off_each_others_ultraservers(
    namespace: Callable[..., Kubectl], servers: dict[str, str], kind: str
) -> None:
    jobs, people = namespace(), namespace()

    def pair(name: str) -> tuple[str, ...]:
        """Starts a job of two nodes, on which it leaves room; how its Pods are selected."""
        asks = {keys.INJECT: "true"}
        if kind == "MPIJob":
            jobs.create(mpijob(2, name=name, amount=8, annotations=asks))
            return ("-l", f"training.kubeflow.org/job-name={name},{ROLE}=worker")
        jobs.create(batch_job(name, 2, 8, annotations=asks))
        return ("-l", f"job-name={name}")

    first = {servers[pod["spec"]["nodeName"]] for pod in wait_count(jobs, 2, *pair("first"))}
    loose = servers[node_of(people, bare(1, **TRN2U))]
    assert loose not in first
    # Each pair of the other two UltraServers takes a job; no other job finds one, though the loose Pod's
    # UltraServer has a free pair.
    for name in ("second", "third", "fourth"):
        assert loose not in {servers[pod["spec"]["nodeName"]] for pod in wait_count(jobs, 2, *pair(name))}
    assert "anti-affinity" in refused(jobs, *pair("fifth"))
    # Others like it share its UltraServer; when that is full, one waits, though the nodes of jobs have room.
    assert {servers[node_of(people, bare(devices, **TRN2U))] for devices in (16, 16, 16, 15)} == {loose}
    people.create(bare(1, **TRN2U) | {"metadata": {"name": "late", "labels": {"late": "yes"}}})
    assert "anti-affinity" in refused(people, "-l", "late=yes")


def test_without_a_choice_of_their_own_they_go_to_nodes_in_no_ultraserver_first(
    namespace: Callable[..., Kubectl], servers: dict[str, str]
) -> None:
    people = namespace()
    for devices in (8, 8):
        assert node_of(people, bare(devices)) not in servers
    chosen = {"nodeSelector": {nodes.INSTANCE_TYPE: nodes.TRN1}}
    people.create(bare(1, **chosen) | {"metadata": {"name": "full", "labels": {"full": "yes"}}})
    assert "Insufficient aws.amazon.com/neuron" in refused(people, "-l", "full=yes")
    assert node_of(people, bare(8)) in servers
