"""Whole-job admission of other kinds of job, by the kind's real controller."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator

import pytest

from contract import keys, place
from testbed.plane.controlplane import ControlPlane
from testbed.plane.kubectl import Kubectl, Object
from testbed.plane.plugin import eventually
from testbed.waiting import until
from tests.plane.bound import wait_count
from tests.plane.kinds.jobs import job, jobset, leaderworkerset, mpijob_v1, pytorchjob, trainjob

INDEX = "batch.kubernetes.io/job-completion-index"
JOBS: dict[str, tuple[Object, int]] = {
    "LeaderWorkerSet": (leaderworkerset(2, 4), 8),
    "LeaderWorkerSet of groups of two UltraServers": (leaderworkerset(1, 8), 8),
    "PyTorchJob": (pytorchjob(7), 8),
    "MPIJob v1": (mpijob_v1(8), 8),
    "Job": (job(8, completionMode="Indexed"), 8),
    "JobSet": (jobset(2, 4), 8),
    "TrainJob": (trainjob(8), 8),
}
"""By kind: the job, and how many of its Pods take nodes."""


@pytest.mark.parametrize(("made", "workers"), JOBS.values(), ids=JOBS.keys())
def test_a_job_waits_until_all_of_it_has_a_place_and_is_opened_whole(
    made: Object, workers: int, whole_namespace: Kubectl, servers: dict[str, str], runtime: None
) -> None:
    assert runtime is None
    whole_namespace.create(made)
    # The launcher of an MPIJob asks for ephemeral storage, which no node here has: it waits for that only.
    pods = wait_count(whole_namespace, workers)
    whole_namespace.wait_for(
        lambda obj: not any("schedulingGates" in pod["spec"] for pod in obj["items"]), "pods"
    )
    units: dict[tuple[str, int], set[str]] = {}
    for pod in pods:
        metadata = pod["metadata"]
        if (result := place.read(metadata)) is None:
            continue
        number = result.number(pod)
        assert number is not None
        assert keys.OPENED in metadata["annotations"], "it is not pinned"
        assert keys.BLOCK not in metadata["labels"]
        block = (place.job(metadata, result.group), number // result.size)
        units.setdefault(block, set()).add(servers[pod["spec"]["nodeName"]])
    assert [len(on) for on in units.values()] == [1] * (workers // 4)
    assert len(set.union(*units.values())) == len(units)
    eventually(whole_namespace, ["verify", "train"], lambda obj: obj["whole"])


@pytest.mark.limit(40, "the Job's controller waits ten seconds before it replaces a Pod that failed")
def test_a_pod_of_a_job_that_failed_comes_back_when_others_have_succeeded(whole_namespace: Kubectl) -> None:
    """The Job's controller replaces it, and its gate is taken off although not all pods are there."""
    whole_namespace.create(job(4, completionMode="Indexed"))
    first, _, *others = wait_count(whole_namespace, 4)  # one goes on
    for pod in others:
        ends(whole_namespace, pod, "Succeeded")
    ends(whole_namespace, first, "Failed")
    index = f"{INDEX}={first['metadata']['annotations'][INDEX]}"
    (again,) = wait_count(whole_namespace, 1, "-l", index, "--field-selector", "status.phase=Pending")
    assert again["metadata"]["uid"] != first["metadata"]["uid"]
    assert keys.OPENED in again["metadata"]["annotations"], "it is not pinned"


def ends(inside: Kubectl, pod: Object, phase: str) -> None:
    """Says what a kubelet would, of which there is none here."""
    inside.run(
        "patch",
        "pod",
        pod["metadata"]["name"],
        "--subresource=status",
        "--type=merge",
        "-p",
        json.dumps({"status": {"phase": phase}}),
    )


MOVED = {kind: JOBS[kind] for kind in ("PyTorchJob", "MPIJob v1")}


@pytest.mark.limit(90, "controllers wait up to ten seconds before they replace Pods that were deleted")
@pytest.mark.parametrize(("made", "workers"), MOVED.values(), ids=MOVED.keys())
def test_a_block_leaves_a_node_that_is_not_ready(
    made: Object, workers: int, whole_namespace: Kubectl, plane: ControlPlane
) -> None:
    metadata = made["metadata"] | {"annotations": {keys.ON_NODE_FAILURE: "move"}}
    whole_namespace.create(made | {"metadata": metadata})
    before = [pod for pod in wait_count(whole_namespace, workers) if place.read(pod["metadata"])]
    for pod in before:
        ends(whole_namespace, pod, "Running")
    node = before[0]["spec"]["nodeName"]
    with not_ready(plane.kubectl, node):
        until(lambda: elsewhere(whole_namespace, workers, node), f"{workers} Pods without {node}", 80)


def elsewhere(inside: Kubectl, workers: int, node: str) -> bool:
    """Ends Pods as kubelets do, and returns whether all have a node again."""
    items = inside.get_json("pods")["items"]
    ending = [pod["metadata"]["name"] for pod in items if "deletionTimestamp" in pod["metadata"]]
    if ending:
        inside.run("delete", "pods", *ending, "--grace-period=0", "--force", "--ignore-not-found")
    on = [pod["spec"].get("nodeName") for pod in items if pod["status"]["phase"] in {"Pending", "Running"}]
    return not ending and node not in on and len([name for name in on if name]) == workers


@contextlib.contextmanager
def not_ready(admin: Kubectl, node: str) -> Iterator[None]:
    """Says of a node what the node lifecycle controller would."""
    for status in ("Unknown", "True"):
        condition = {"status": {"conditions": [{"type": "Ready", "status": status}]}}
        admin.run("patch", "node", node, "--subresource=status", "-p", json.dumps(condition))
        if status == "Unknown":
            yield
