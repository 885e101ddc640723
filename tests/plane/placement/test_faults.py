"""Tests of faults on a real control plane, after which jobs are placed whole, and of the program's rights."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from contract.keys import GATE, JOB, ON_NODE_FAILURE, OPENED, PLACEMENT
from kube.api import ApiError, ConflictError, Object
from testbed.experiment.judge import Key, all_whole
from testbed.experiment.stage import TEAMS, Stage
from testbed.mpijob import mpijob
from testbed.plane import nodes
from testbed.plane.jobs import ROLE
from testbed.plane.placement import ACCOUNT, POLICY
from testbed.plane.webhook import REPOSITORY
from testbed.waiting import until
from tests.plane.guard import people
from tests.plane.placement.conftest import BreakablePlane


def wait_until_gated(stage: Stage, key: Key, workers: int) -> list[Object]:
    """Waits until all workers of a job exist and are gated, and returns them."""

    def waiting(pods: list[Object]) -> bool:
        workers_of_job = pods_with_name(pods, "-worker-")
        return len(workers_of_job) == workers and all(map(gates_of, workers_of_job))

    return pods_with_name(stage.follow(key, waiting), "-worker-")


def pods_with_name(pods: list[Object], part: str) -> list[Object]:
    return [pod for pod in pods if part in pod["metadata"]["name"]]


def wait_for_launcher(stage: Stage, key: Key) -> Object:
    """Waits until the launcher's pod exists, which the operator creates after the workers, and returns it."""
    return pods_with_name(stage.follow(key, lambda pods: pods_with_name(pods, "-launcher")), "-launcher")[0]


def gates_of(pod: Object) -> list[str]:
    return [gate["name"] for gate in pod["spec"].get("schedulingGates") or ()]


def servers_of(stage: Stage, key: Key) -> set[str]:
    """Returns the UltraServers of a job."""
    standing = stage.job_placements()[key]
    return {stage.labels[name][nodes.SERVER_ID_4] for name in standing.nodes}


def nodes_of(stage: Stage, server_id: str) -> list[str]:
    """Returns the nodes of an UltraServer."""
    return sorted(name for name, label in stage.labels.items() if label.get(nodes.SERVER_ID_4) == server_id)


def create_filler(stage: Stage) -> Key:
    """Creates a job that takes every UltraServer, and returns its key."""
    return stage.apply("filler", 24)


def test_another_replica_continues_after_a_killed_leader(stage: Stage) -> None:
    keys = [stage.apply(f"train-{number}", 8) for number in range(3)]
    for key in keys:
        wait_until_gated(stage, key, 8)
    leader = stage.start_program(lease_seconds=3)
    stage.plane.kubectl.wait_for(
        lambda pods: any(OPENED in pod["metadata"].get("annotations", {}) for pod in pods["items"]),
        *("pods", "-A", "-l", f"{ROLE}=worker"),
    )
    os.kill(leader.pid, signal.SIGKILL)
    stage.start_program(lease_seconds=3)
    stage.wait(all_whole)


def test_two_simultaneous_leaders_end_with_whole_jobs(stage: Stage) -> None:
    # With different Leases, each program sees the other only by its writes. Jobs that do not get all their
    # nodes are evicted after ``bound_seconds``.
    for number in range(2):
        stage.start_program(stage.plane.kubeconfig, lease=f"lease-{number}", bound_seconds=3)
    for number, workers in enumerate((4, 8, 2, 4, 1)):
        stage.apply(f"train-{number}", workers)
    stage.wait(all_whole)


@pytest.mark.soak
def test_jobs_are_placed_after_the_api_server_restarts(stage: Stage) -> None:
    plane: BreakablePlane = stage.plane  # type: ignore[assignment]
    running = stage.start_program()
    stage.apply("before", 4)
    stage.wait(all_whole)
    with plane.without("kube-apiserver"):
        until(lambda: "cannot watch" in running.tail(), "a warning of the program")
    stage.apply("after", 8)
    stage.wait(all_whole)
    assert running in plane.programs.running


@pytest.mark.soak
def test_a_job_moves_if_a_node_turns_sick_between_admission_and_binding(stage: Stage) -> None:
    plane: BreakablePlane = stage.plane  # type: ignore[assignment]
    with plane.without("kube-scheduler"):
        stage.start_program(bound_seconds=4, interval_seconds=1)
        key = stage.apply("train", 4)
        pods = stage.follow(key, lambda pods: len(pods) == 5 and not any(map(gates_of, pods)))
        pinned = pods[-1]["spec"]["nodeSelector"][nodes.SERVER_ID_4]
        stage.cordon(nodes_of(stage, pinned)[2])
    stage.wait(all_whole)
    assert pinned not in servers_of(stage, key)


def test_a_job_that_cannot_be_bound_is_evicted_also_after_a_message_of_the_scheduler(stage: Stage) -> None:
    """The scheduler's message changes the pod's resourceVersion, and the eviction uses the new version."""
    stage.start_program(bound_seconds=4, interval_seconds=1)
    spec = mpijob(4, worker_spec={"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "none"}}]})
    key = stage.apply("stuck", 4, mpiReplicaSpecs=spec["spec"]["mpiReplicaSpecs"])
    first = {pod["metadata"]["uid"] for pod in wait_until_gated(stage, key, 4)}
    stage.follow(
        key, lambda obj: first.isdisjoint(pod["metadata"]["uid"] for pod in pods_with_name(obj, "-worker-"))
    )


def test_a_worker_that_is_deleted_while_it_waits_is_recreated_and_waits(stage: Stage) -> None:
    stage.start_program()
    filler = create_filler(stage)
    stage.wait(all_whole)
    key = stage.apply("train", 4)
    victim = wait_until_gated(stage, key, 4)[2]
    stage.api.delete(f"/api/v1/namespaces/{key[0]}/pods/{victim['metadata']['name']}")
    assert victim["metadata"]["uid"] not in {
        pod["metadata"]["uid"] for pod in wait_until_gated(stage, key, 4)
    }
    stage.finish(filler)
    stage.wait(all_whole)


@pytest.mark.limit(
    60, "mpi-operator waits longer before each try, while the Service of the earlier job exists"
)
def test_a_job_that_is_deleted_and_applied_again_at_once_is_placed_whole(stage: Stage) -> None:
    stage.start_program(bound_seconds=5, interval_seconds=1)
    key = stage.apply("train", 8)
    stage.wait(all_whole)
    stage.finish(key)
    stage.apply("train", 4)
    stage.wait(lambda jobs: all_whole(jobs) and jobs[key].workers == 4)


def test_the_command_admit_admits_one_job(stage: Stage) -> None:
    first, second = stage.apply("train", 4), stage.apply("other", 4)
    for key in (first, second):
        wait_until_gated(stage, key, 4)
    wait_for_launcher(stage, first)
    command = [sys.executable, "-m", "placement", "admit", "team-a/train"]
    command += ["--kubeconfig", str(stage.plane.kubeconfig)]
    result = subprocess.run(command, cwd=REPOSITORY, check=False, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    assert len(result.stdout.splitlines()) == 5
    stage.wait(lambda jobs: jobs[first].placed)
    assert not stage.job_placements()[second].nodes


@pytest.fixture(params=["guard off", "guard enforced"])
def policy(stage: Stage, helm: None, request: pytest.FixtureRequest) -> Iterator[str]:
    """The name of the policy that limits the account: its own policy, or the guard's policy for Pods."""
    del helm
    admin = stage.plane.kubectl
    if request.param == "guard off":
        yield "ultraserver-placement-account"
        return
    account_policy = [
        admin.get_json(kind, "ultraserver-placement-account") for kind in (POLICY, f"{POLICY}Binding")
    ]
    admin.run("delete", f"{POLICY},{POLICY}Binding", "ultraserver-placement-account")
    forged = people.WORKER, people.REPELLING, people.plain_job(people.GATES)
    with people.guarding(admin, admin.in_namespace(TEAMS[0]), *forged):
        yield "ultraserver-webhook-guard-pods"
    for document in account_policy:
        admin.create(document | {"metadata": {key: document["metadata"][key] for key in ("name", "labels")}})


def container_status(kind: str, **fields: Object) -> Object:
    """Returns a part of a pod's status, in which a container has these states."""
    return {
        kind: [{"name": "first", "image": "i", "imageID": "", "ready": False, "restartCount": 0} | fields]
    }


def create_admitted_pods(stage: Stage, path: str, spec: Object) -> list[str]:
    """Creates admitted pods, and returns the names of all pods in which a container ran."""
    ran = {"terminated": {"exitCode": 1}}
    status_by_name = {
        "begins": {"phase": "Running"},
        "prepares": container_status("initContainerStatuses", state={"running": {}}),
        "failed": container_status("initContainerStatuses", state={"waiting": {}}, lastState=ran),
        "debugged": container_status("ephemeralContainerStatuses", state=ran),
        "pulls": container_status("containerStatuses", state={"waiting": {"reason": "ImagePullBackOff"}}),
    }
    for name, status in status_by_name.items():
        metadata = {"name": name, "annotations": {OPENED: "2026-11-21T12:00:00Z"}}
        stage.api.create(path, {"metadata": metadata, "spec": spec})
        added = [{"op": "add", "path": f"/status/{key}", "value": value} for key, value in status.items()]
        stage.api.patch(f"{path}/{name}/status", added)
    return [name for name in status_by_name if name != "pulls"]


def test_the_account_may_only_pin_waiting_pods_and_delete_admitted_pods_that_have_not_started(
    stage: Stage, policy: str
) -> None:
    key = stage.apply("train", 4)
    waiting = wait_until_gated(stage, key, 4)[0]
    path = f"/api/v1/namespaces/{key[0]}/pods"
    container = {"name": "c", "image": "example.invalid/c"}
    plain = {"metadata": {"name": "plain"}, "spec": {"containers": [container]}}
    stage.api.create(path, plain)
    first = container | {"name": "first"}
    started = create_admitted_pods(stage, path, {"containers": [container], "initContainers": [first]})
    gated_spec = {
        "schedulingGates": [{"name": GATE}, {"name": "kueue.x-k8s.io/topology"}],
        "initContainers": [first],
        "containers": [container],
    }
    stage.api.create(path, {"metadata": {"name": "waits"}, "spec": gated_spec})
    init_image = [{"op": "replace", "path": "/spec/initContainers/0/image", "value": "example.invalid/evil"}]
    tolerant = [{"op": "add", "path": "/spec/tolerations/-", "value": {"operator": "Exists"}}]
    kept = [{"op": "add", "path": "/metadata/finalizers", "value": ["example.com/kept"]}]
    image = [{"op": "replace", "path": "/spec/containers/0/image", "value": "example.invalid/evil"}]
    annotations = [{"op": "add", "path": "/metadata/annotations", "value": {}}]
    label = [{"op": "remove", "path": f"/metadata/labels/{JOB.replace('/', '~1')}"}]
    owner = [{"op": "remove", "path": "/metadata/ownerReferences"}]
    generated = [{"op": "add", "path": "/metadata/generateName", "value": "other"}]
    deadline = [{"op": "add", "path": "/spec/activeDeadlineSeconds", "value": 1}]
    preference = {"weight": 1, "preference": {"matchExpressions": [{"key": "x", "operator": "Exists"}]}}
    preferred = "/spec/affinity/nodeAffinity/preferredDuringSchedulingIgnoredDuringExecution"
    affinity = [{"op": "add", "path": preferred, "value": [preference]}]
    role = [{"op": "add", "path": "/metadata/annotations/iam.amazonaws.com~1role", "value": "admin"}]
    placement = [{"op": "remove", "path": f"/metadata/annotations/{PLACEMENT.replace('/', '~1')}"}]
    zone = [{"op": "add", "path": "/spec/nodeSelector/zone", "value": "a"}]
    empty = [{"op": "add", "path": "/spec/nodeSelector/zone", "value": ""}]
    queue = [{"op": "remove", "path": "/spec/schedulingGates/1"}]
    worker = waiting["metadata"]["name"]
    api = stage.as_program()

    def refused() -> bool:
        with contextlib.suppress(ApiError):
            return not api.patch(f"{path}/plain?dryRun=All", annotations)
        return True

    until(refused, "the API server to apply the policy")
    for name, operations in (
        *(("plain", operations) for operations in (image, annotations)),
        *(("waits", operations) for operations in (init_image, tolerant, kept, queue)),
        *((worker, operations) for operations in (image, label, owner, generated, deadline, affinity)),
        *((worker, operations) for operations in (role, placement, zone, empty)),
    ):
        with pytest.raises(ApiError, match=f"ValidatingAdmissionPolicy '{policy}'"):
            api.patch(f"{path}/{name}", operations)
    stage.api.create("/api/v1/namespaces/kube-system/pods", plain)
    with pytest.raises(ApiError, match=f"ValidatingAdmissionPolicy '{policy}'"):
        api.patch("/api/v1/namespaces/kube-system/pods/plain", image)
    with pytest.raises(ApiError, match="the pod was not admitted by this program"):
        api.delete("/api/v1/namespaces/kube-system/pods/plain")
    stage.end("kube-system", "plain")
    # The account may not delete a waiting pod that it has pinned: otherwise, it could delete any waiting pod.
    key_of_unit = f"/spec/nodeSelector/{nodes.SERVER_ID_4.replace('/', '~1')}"
    pin = [
        {"op": "add", "path": f"/metadata/annotations/{OPENED.replace('/', '~1')}", "value": "now"},
        {"op": "add", "path": key_of_unit, "value": "none"},
    ]
    api.patch(f"{path}/{worker}", pin)
    for name in ("plain", *started, worker):
        with pytest.raises(ApiError, match="the pod was not admitted by this program"):
            api.delete(f"{path}/{name}")
    api.delete(f"{path}/pulls")
    for name in ("plain", *started, "pulls", "waits"):
        stage.end(key[0], name)


@pytest.mark.usefixtures("policy")
def test_the_account_may_delete_started_pods_only_if_their_author_chose_this(stage: Stage) -> None:
    path = f"/api/v1/namespaces/{TEAMS[0]}/pods"
    spec = {"containers": [{"name": "c", "image": "example.invalid/c"}]}
    choices = {"moves": "move", "restarts": "restart", "stays": "wait", "moves-later": "move"}
    for name, choice in choices.items():
        gates = {"schedulingGates": [{"name": GATE}]} if name == "moves-later" else {}
        metadata = {"name": name, "annotations": {ON_NODE_FAILURE: choice}}
        stage.api.create(path, {"metadata": metadata, "spec": spec | gates})
        if not gates:
            running = {"op": "add", "path": "/status/phase", "value": "Running"}
            stage.api.patch(f"{path}/{name}/status", [running])
    api = stage.as_program()

    def refused(name: str) -> bool:
        with contextlib.suppress(ApiError):
            api.delete(f"{path}/{name}?dryRun=All")
            return False
        return True

    until(lambda: refused("stays"), "the API server to apply the policy")
    for name in ("stays", "moves-later"):
        with pytest.raises(ApiError, match="the pod was not admitted by this program"):
            api.delete(f"{path}/{name}")
    for name in ("moves", "restarts"):
        api.delete(f"{path}/{name}", grace_seconds=0)
    for name in choices:
        stage.end(TEAMS[0], name)


def test_the_account_may_create_only_its_own_lease_and_events_about_pods(stage: Stage) -> None:
    """The account may not create another program's Lease, or Events in the name of the kubelet."""
    api, leases = stage.as_program(), "/apis/coordination.k8s.io/v1/namespaces/ultraserver-webhook/leases"
    about = {"apiVersion": "v1", "kind": "Pod", "namespace": "kube-system", "name": "etcd", "uid": "1"}
    event = {
        "metadata": {"name": "etcd.1"},
        "involvedObject": about,
        "reason": "Waiting",
        "source": {"component": ACCOUNT},
        "reportingComponent": ACCOUNT,
        "reportingInstance": "one",
    }
    events = "/api/v1/namespaces/kube-system/events?dryRun=All"

    def is_refused() -> bool:
        with contextlib.suppress(ApiError):
            return not api.create(f"{leases}?dryRun=All", {"metadata": {"name": "other"}})
        return True

    with contextlib.suppress(ConflictError):  # an earlier test created it
        api.create(leases, {"metadata": {"name": ACCOUNT}})

    until(is_refused, "the API server to apply the policy")
    api.create(events, event)
    for change in (
        {"source": {"component": "kubelet"}},
        {"reportingComponent": "kubelet"},
        {"involvedObject": about | {"kind": "Node"}},
    ):
        with pytest.raises(
            ApiError, match="and Events about Pods, in their namespaces and under its own name"
        ):
            api.create(events, event | change)


def test_only_whole_job_admission_may_mark_a_pod_as_admitted(stage: Stage, policy: str) -> None:
    key = stage.apply("train", 4)
    wait_until_gated(stage, key, 4)
    team = stage.plane.kubectl.in_namespace(key[0])
    team.run("create", "rolebinding", "alice", "--clusterrole=edit", "--user=alice")
    forged = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "forged", "annotations": {OPENED: "2026-11-21T12:00:00Z"}},
        "spec": {"containers": [{"name": "c", "image": "example.invalid/c"}]},
    }
    alice, dry_run = team.acting_as("alice"), "--dry-run=server"

    def is_refused() -> bool:
        result = alice.run("create", "-f", "-", dry_run, stdin=json.dumps(forged), check=False)
        return "is written by whole-job admission only" in result.stderr

    until(is_refused, "the API server to apply the policy")
    worker = f"{key[1]}-worker-0"
    refused = alice.run("annotate", "pod", worker, f"{OPENED}=2026", dry_run, check=False)
    assert "is written by whole-job admission only" in refused.stderr
    # Other resources by which a client can write a pod's annotations.
    resources = "pods/status,pods/binding,bindings"
    team.run("create", "role", "annotators", "--verb=*", f"--resource={resources}")
    team.run("create", "rolebinding", "annotators", "--role=annotators", "--user=alice")
    patch = json.dumps({"metadata": forged["metadata"] | {"name": worker}})
    by_status = ("patch", "pod", worker, "--subresource=status", "--type=merge", "-p", patch, dry_run)
    assert "is written by whole-job admission only" in alice.run(*by_status, check=False).stderr
    target = {"apiVersion": "v1", "kind": "Node", "name": "none"}
    metadata = forged["metadata"] | {"name": worker, "namespace": key[0]}
    binding = {"apiVersion": "v1", "kind": "Binding", "metadata": metadata, "target": target}
    for resource in (f"pods/{worker}/binding", "bindings"):
        raw = f"--raw=/api/v1/namespaces/{key[0]}/{resource}"
        refused = alice.run("create", raw, "-f", "-", stdin=json.dumps(binding), check=False)
        text = "is written by whole-job admission only"
        if policy != "ultraserver-placement-account":  # the guard has its own message for Bindings
            text = f"metadata.annotations[{OPENED}] of a Binding would be written to the Pod"
        assert text in refused.stderr
    team.run("delete", "rolebinding,role", "annotators")
    stage.start_program()
    stage.wait(all_whole)
    alice.run("label", "pod", worker, "note=mine", dry_run)
    later = alice.run("annotate", "pod", worker, f"{OPENED}=2026", "--overwrite", dry_run, check=False)
    assert "is written by whole-job admission only" in later.stderr
    team.run("delete", "rolebinding", "alice")
