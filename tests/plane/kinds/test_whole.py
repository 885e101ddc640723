"""Whole-job admission of other kinds of job, by the kind's real controller."""

from __future__ import annotations

import contextlib
import copy
import json
from collections.abc import Iterator

import pytest

from contract import keys, place
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
        block = (place.job_id(metadata, result.group), number // result.size)
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


CHOICES = ("move", "restart")
KEPT = {"LeaderWorkerSet": (4, 4), "LeaderWorkerSet of groups of two UltraServers": (0, 0)}
"""How many Pods stay after a move and a restart, if not four and none: a group is recreated as a whole."""


def leaving(kind: str, choice: str) -> Object:
    """Returns a job that leaves failed nodes, and is named after how."""
    made = copy.deepcopy(JOBS[kind][0])
    spec, chosen = made["spec"], {keys.ON_NODE_FAILURE: choice}
    made["metadata"] = {"name": choice, "annotations": chosen}
    if kind == "Job":
        spec["backoffLimitPerIndex"] = 3
    elif kind == "JobSet":
        spec["replicatedJobs"][0]["template"]["spec"]["backoffLimitPerIndex"] = 3
    elif kind == "MPIJob v1":
        spec["mpiReplicaSpecs"]["Worker"]["restartPolicy"] = "ExitCode"
    elif kind == "TrainJob":
        spec["annotations"] = chosen
    return made


@pytest.mark.limit(120, "controllers wait ten seconds, and then twice as long, before they replace Pods")
@pytest.mark.parametrize("kind", JOBS)
def test_a_job_leaves_a_node_that_is_not_ready(
    kind: str, whole_namespace: Kubectl, plane: ControlPlane, runtime: None
) -> None:
    """One job moves and another restarts, as docs/placement.md says of the kind."""
    assert runtime is None
    workers = 2 * JOBS[kind][1]
    for choice in CHOICES:
        whole_namespace.create(leaving(kind, choice))
    pods = wait_count(whole_namespace, workers)
    kubelets(whole_namespace, set())
    # By name, the first Pod of each job: of a group, its leader.
    first = [next(pod for pod in pods if pod["metadata"]["name"].startswith(choice)) for choice in CHOICES]
    dead = {pod["spec"]["nodeName"] for pod in first}
    with contextlib.ExitStack() as undo:
        for node in dead:
            undo.enter_context(not_ready(plane.kubectl, node))
        until(lambda: whole_again(whole_namespace, workers, dead), f"{workers} Pods without {dead}", 100)
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


def kubelets(inside: Kubectl, dead: set[str]) -> list[Object]:
    """Does what the kubelets of all nodes but some do with the Pods of a namespace, and returns these."""
    pods = list(inside.get_json("pods")["items"])
    for pod in pods:
        ending, name = "deletionTimestamp" in pod["metadata"], pod["metadata"]["name"]
        if not (node := pod["spec"].get("nodeName")) or node in dead:
            continue
        with contextlib.suppress(KubectlError):  # it is gone
            if ending or pod["status"]["phase"] == "Pending":
                ends(inside, pod, "Failed" if ending else "Running")
            if ending:
                inside.run("delete", "pod", name, "--grace-period=0", "--force", "--wait=false")
    return pods


def whole_again(inside: Kubectl, workers: int, dead: set[str]) -> bool:
    """Returns whether all Pods have nodes, none of them a dead one."""
    pods = unended(kubelets(inside, dead))
    on = [node for pod in pods if (node := pod["spec"].get("nodeName"))]
    ending = any("deletionTimestamp" in pod["metadata"] for pod in pods)
    return not ending and dead.isdisjoint(on) and len(on) == workers


@contextlib.contextmanager
def not_ready(admin: Kubectl, node: str) -> Iterator[None]:
    """Says of a node what the node lifecycle controller would."""

    def report(status: str) -> None:
        condition = {"status": {"conditions": [{"type": "Ready", "status": status}]}}
        admin.run("patch", "node", node, "--subresource=status", "-p", json.dumps(condition))

    report("Unknown")
    try:
        yield
    finally:
        report("True")
