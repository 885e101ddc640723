"""Tests of whole-job admission for other kinds of job, with their real controllers."""

from __future__ import annotations

import contextlib
import copy
import json
import sys
from collections.abc import Iterator

import pytest

import contract.placement
from contract import keys
from placement.observe.read import ENDED_PHASES
from testbed.plane.controlplane import ControlPlane
from testbed.plane.kubectl import Kubectl, KubectlError, Object
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
"""The job of each kind, and the number of its workers."""


@pytest.mark.parametrize(("document", "workers"), JOBS.values(), ids=JOBS.keys())
def test_a_job_is_admitted_whole_when_units_for_all_its_workers_are_free(
    document: Object, workers: int, whole_namespace: Kubectl, servers: dict[str, str], runtime: None
) -> None:
    assert runtime is None
    whole_namespace.create(document)
    # The launcher of an MPIJob requests ephemeral storage, which no node has, so it is never bound.
    pods = wait_count(whole_namespace, workers)
    whole_namespace.wait_for(
        lambda obj: not any("schedulingGates" in pod["spec"] for pod in obj["items"]), "pods"
    )
    units: dict[tuple[str, int], set[str]] = {}
    for pod in pods:
        metadata = pod["metadata"]
        if (placement := contract.placement.read(metadata)) is None:
            continue
        number = placement.number(pod)
        assert number is not None
        assert keys.OPENED in metadata["annotations"], "the Pod is not pinned"
        assert keys.BLOCK not in metadata["labels"]
        block = (contract.placement.job_id(metadata, placement.group), number // placement.size)
        units.setdefault(block, set()).add(servers[pod["spec"]["nodeName"]])
    assert [len(block_units) for block_units in units.values()] == [1] * (workers // 4)
    assert len(set.union(*units.values())) == len(units)
    eventually(whole_namespace, ["verify", "train"], lambda obj: obj["whole"])


@pytest.mark.limit(40, "the Job's controller waits ten seconds before it replaces a Pod that failed")
def test_a_failed_pod_is_replaced_and_admitted_when_other_pods_have_succeeded(
    whole_namespace: Kubectl,
) -> None:
    """The Job controller replaces the Pod, and the gate is removed although other Pods have ended."""
    whole_namespace.create(job(4, completionMode="Indexed"))
    failed, _, *succeeded = wait_count(whole_namespace, 4)  # the second Pod keeps running
    for pod in succeeded:
        set_phase(whole_namespace, pod, "Succeeded")
    set_phase(whole_namespace, failed, "Failed")
    index = f"{INDEX}={failed['metadata']['annotations'][INDEX]}"
    (replacement,) = wait_count(whole_namespace, 1, "-l", index, "--field-selector", "status.phase=Pending")
    assert replacement["metadata"]["uid"] != failed["metadata"]["uid"]
    assert keys.OPENED in replacement["metadata"]["annotations"], "the Pod is not pinned"


def set_phase(inside: Kubectl, pod: Object, phase: str) -> None:
    """Writes the phase of a Pod, because no kubelet runs."""
    inside.run(
        "patch",
        "pod",
        pod["metadata"]["name"],
        "--subresource=status",
        "--type=merge",
        "-p",
        json.dumps({"status": {"phase": phase}}),
    )


CHOICES = ("move", "restart")
KEPT = {"LeaderWorkerSet": (4, 4), "LeaderWorkerSet of groups of two UltraServers": (0, 0)}
"""By kind, how many Pods stay after a move and a restart; for other kinds 4 and 0. Groups restart whole."""


def job_with_choice(kind: str, choice: str) -> Object:
    """Returns a job that moves or restarts if a node fails. Its name is the choice."""
    document = copy.deepcopy(JOBS[kind][0])
    spec, annotations = document["spec"], {keys.ON_NODE_FAILURE: choice}
    document["metadata"] = {"name": choice, "annotations": annotations}
    if kind == "Job":
        spec["backoffLimitPerIndex"] = 3
    elif kind == "JobSet":
        spec["replicatedJobs"][0]["template"]["spec"]["backoffLimitPerIndex"] = 3
    elif kind == "MPIJob v1":
        spec["mpiReplicaSpecs"]["Worker"]["restartPolicy"] = "ExitCode"
    elif kind == "TrainJob":
        spec["annotations"] = annotations
    return document


@pytest.mark.limit(120, "controllers wait ten seconds, and then twice as long, before they replace Pods")
@pytest.mark.parametrize("kind", JOBS)
def test_a_job_leaves_a_node_that_is_not_ready(
    kind: str, whole_namespace: Kubectl, plane: ControlPlane, runtime: None
) -> None:
    """One job moves and another job restarts, as docs/placement.md describes for the kind."""
    assert runtime is None
    workers = 2 * JOBS[kind][1]
    for choice in CHOICES:
        whole_namespace.create(job_with_choice(kind, choice))
    pods = wait_count(whole_namespace, workers)
    act_as_kubelets(whole_namespace, set())
    # The first Pod of each job in the order of names. In a group, this is the leader.
    first_pods = [
        next(pod for pod in pods if pod["metadata"]["name"].startswith(choice)) for choice in CHOICES
    ]
    dead = {pod["spec"]["nodeName"] for pod in first_pods}
    log = plane.programs.logs / "whole-placement.log"
    with contextlib.ExitStack() as undo:
        undo.callback(lambda: sys.stdout.write(log.read_text()[-4000:]))  # pytest shows it if the test fails
        for node in dead:
            undo.enter_context(not_ready(plane.kubectl, node))
        until(
            lambda: is_whole(whole_namespace, workers, dead),
            f"{workers} Pods on nodes other than {dead}",
            100,
        )
    # An ended Pod may be listed until its Job has counted it.
    after = unended(whole_namespace.get_json("pods")["items"])
    kept = tuple(len(uids(pods, choice) & uids(after, choice)) for choice in CHOICES)
    assert kept == KEPT.get(kind, (4, 0))


def unended(pods: list[Object]) -> list[Object]:
    """Returns the Pods that have not ended."""
    return [pod for pod in pods if pod["status"]["phase"] not in ENDED_PHASES]


def uids(pods: list[Object], job: str) -> set[str]:
    """Returns the uids of a job's Pods."""
    return {pod["metadata"]["uid"] for pod in pods if pod["metadata"]["name"].startswith(job)}


def act_as_kubelets(inside: Kubectl, dead: set[str]) -> list[Object]:
    """Starts and ends the Pods of a namespace as kubelets do, except on dead nodes; returns the Pods."""
    pods = list(inside.get_json("pods")["items"])
    for pod in pods:
        ending, name = "deletionTimestamp" in pod["metadata"], pod["metadata"]["name"]
        if not (node := pod["spec"].get("nodeName")) or node in dead:
            continue
        with contextlib.suppress(KubectlError):  # the Pod does not exist any more
            if ending or pod["status"]["phase"] == "Pending":
                set_phase(inside, pod, "Failed" if ending else "Running")
            if ending:
                inside.run("delete", "pod", name, "--grace-period=0", "--force", "--wait=false")
    return pods


def is_whole(inside: Kubectl, workers: int, dead: set[str]) -> bool:
    """Returns whether all workers are bound to nodes with kubelets, and no Pod is being deleted."""
    pods = unended(act_as_kubelets(inside, dead))
    used_nodes = [node for pod in pods if (node := pod["spec"].get("nodeName"))]
    ending = any("deletionTimestamp" in pod["metadata"] for pod in pods)
    return not ending and dead.isdisjoint(used_nodes) and len(used_nodes) == workers


@contextlib.contextmanager
def not_ready(admin: Kubectl, node: str) -> Iterator[None]:
    """Sets a node to not Ready, as the node lifecycle controller does, and undoes this at the end."""

    def report(status: str) -> None:
        condition = {"status": {"conditions": [{"type": "Ready", "status": status}]}}
        admin.run("patch", "node", node, "--subresource=status", "-p", json.dumps(condition))

    report("Unknown")
    try:
        yield
    finally:
        report("True")
