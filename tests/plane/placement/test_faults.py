"""What goes wrong between a job and its nodes, on the real control plane: it ends whole all the same."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from contract.keys import GATE, JOB, ON_NODE_FAILURE, OPENED, PLACE
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


def gated(stage: Stage, key: Key, workers: int) -> list[Object]:
    """Returns the workers of a job, when all of them are there and wait."""

    def waiting(pods: list[Object]) -> bool:
        match = named(pods, "-worker-")
        return len(match) == workers and all(map(gates_of, match))

    return named(stage.follow(key, waiting), "-worker-")


def named(pods: list[Object], part: str) -> list[Object]:
    return [pod for pod in pods if part in pod["metadata"]["name"]]


def launcher(stage: Stage, key: Key) -> Object:
    """Returns the launcher's pod, which is made a moment after the workers."""
    return named(stage.follow(key, lambda pods: named(pods, "-launcher")), "-launcher")[0]


def gates_of(pod: Object) -> list[str]:
    return [gate["name"] for gate in pod["spec"].get("schedulingGates") or ()]


def units(stage: Stage, key: Key) -> set[str]:
    """Returns the UltraServers of a job."""
    on = stage.standings()[key].nodes
    return {stage.labels[name][nodes.SERVER_ID_4] for name in on}


def server(stage: Stage, number: int) -> str:
    """Returns the id of an UltraServer."""
    return sorted(
        {label[nodes.SERVER_ID_4] for label in stage.labels.values() if nodes.SERVER_ID_4 in label}
    )[number]


def members(stage: Stage, server_id: str) -> list[str]:
    """Its nodes."""
    return sorted(name for name, label in stage.labels.items() if label.get(nodes.SERVER_ID_4) == server_id)


def filled(stage: Stage) -> Key:
    """Returns a job that takes every UltraServer there is."""
    return stage.apply("filler", 24)


def test_a_leader_killed_in_the_middle_is_followed(stage: Stage) -> None:
    keys = [stage.apply(f"train-{number}", 8) for number in range(3)]
    for key in keys:
        gated(stage, key, 8)
    leader = stage.start_program(lease_seconds=3)
    stage.plane.kubectl.wait_for(
        lambda pods: any(OPENED in pod["metadata"].get("annotations", {}) for pod in pods["items"]),
        *("pods", "-A", "-l", f"{ROLE}=worker"),
    )
    os.kill(leader.pid, signal.SIGKILL)
    stage.start_program(lease_seconds=3)
    stage.wait(all_whole)


def test_two_simultaneous_leaders_end_with_whole_jobs(stage: Stage) -> None:
    # Leases of their own: nothing tells one about the other but what both write. What they pin against each
    # other is given up soon.
    for number in range(2):
        stage.start_program(stage.plane.kubeconfig, lease=f"lease-{number}", bound_seconds=3)
    for number, workers in enumerate((4, 8, 2, 4, 1)):
        stage.apply(f"train-{number}", workers)
    stage.wait(all_whole)


@pytest.mark.soak
def test_the_api_server_may_restart(stage: Stage) -> None:
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
def test_a_node_that_turns_sick_between_opening_and_binding_costs_a_little_time(stage: Stage) -> None:
    plane: BreakablePlane = stage.plane  # type: ignore[assignment]
    with plane.without("kube-scheduler"):
        stage.start_program(bound_seconds=4, interval_seconds=1)
        key = stage.apply("train", 4)
        pods = stage.follow(key, lambda pods: len(pods) == 5 and not any(map(gates_of, pods)))
        pinned = pods[-1]["spec"]["nodeSelector"][nodes.SERVER_ID_4]
        stage.cordon(members(stage, pinned)[2])
    stage.wait(all_whole)
    assert pinned not in units(stage, key)


def test_a_job_that_cannot_be_bound_is_evicted_also_after_a_message_of_the_scheduler(stage: Stage) -> None:
    """What the scheduler writes into a pod is another version of it, by which it is deleted."""
    stage.start_program(bound_seconds=4, interval_seconds=1)
    spec = mpijob(4, worker_spec={"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "none"}}]})
    key = stage.apply("stuck", 4, mpiReplicaSpecs=spec["spec"]["mpiReplicaSpecs"])
    first = {pod["metadata"]["uid"] for pod in gated(stage, key, 4)}
    stage.follow(key, lambda obj: first.isdisjoint(pod["metadata"]["uid"] for pod in named(obj, "-worker-")))


def test_a_worker_that_is_deleted_while_it_waits_is_recreated_and_waits(stage: Stage) -> None:
    stage.start_program()
    filler = filled(stage)
    stage.wait(all_whole)
    key = stage.apply("train", 4)
    victim = gated(stage, key, 4)[2]
    stage.api.delete(f"/api/v1/namespaces/{key[0]}/pods/{victim['metadata']['name']}")
    assert victim["metadata"]["uid"] not in {pod["metadata"]["uid"] for pod in gated(stage, key, 4)}
    stage.finish(filler)
    stage.wait(all_whole)


@pytest.mark.limit(60, "mpi-operator's pauses double while the Service of the job before is there")
def test_a_job_that_is_deleted_and_applied_again_at_once_is_placed_whole(stage: Stage) -> None:
    stage.start_program(bound_seconds=5, interval_seconds=1)
    key = stage.apply("train", 8)
    stage.wait(all_whole)
    stage.finish(key)
    stage.apply("train", 4)
    stage.wait(lambda jobs: all_whole(jobs) and jobs[key].workers == 4)


def test_glass_that_is_broken_lets_one_job_through(stage: Stage) -> None:
    first, second = stage.apply("train", 4), stage.apply("other", 4)
    for key in (first, second):
        gated(stage, key, 4)
    launcher(stage, first)
    command = [sys.executable, "-m", "placement", "open", "team-a/train"]
    command += ["--kubeconfig", str(stage.plane.kubeconfig)]
    done = subprocess.run(command, cwd=REPOSITORY, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == 5
    stage.wait(lambda jobs: jobs[first].placed)
    assert not stage.standings()[second].nodes


@pytest.fixture(params=["guard off", "guard enforced"])
def policy(stage: Stage, helm: None, request: pytest.FixtureRequest) -> Iterator[str]:
    """The policy that bounds the account: one of its own, or the guard's for Pods."""
    del helm
    admin = stage.plane.kubectl
    if request.param == "guard off":
        yield "ultraserver-placement-account"
        return
    own = [admin.get_json(kind, "ultraserver-placement-account") for kind in (POLICY, f"{POLICY}Binding")]
    admin.run("delete", f"{POLICY},{POLICY}Binding", "ultraserver-placement-account")
    forged = people.WORKER, people.REPELLING, people.plain_job(people.GATES)
    with people.guarding(admin, admin.in_namespace(TEAMS[0]), *forged):
        yield "ultraserver-webhook-guard-pods"
    for part in own:
        admin.create(part | {"metadata": {key: part["metadata"][key] for key in ("name", "labels")}})


def states(kind: str, **states: Object) -> Object:
    """Returns the status of a pod of one container in these states, while its phase is Pending."""
    return {
        kind: [{"name": "first", "image": "i", "imageID": "", "ready": False, "restartCount": 0} | states]
    }


def opened(stage: Stage, path: str, spec: Object) -> list[str]:
    """Returns the names of admitted pods with a container that ran; ``pulls`` waits for its image."""
    ran = {"terminated": {"exitCode": 1}}
    one = {
        "begins": {"phase": "Running"},
        "prepares": states("initContainerStatuses", state={"running": {}}),
        "failed": states("initContainerStatuses", state={"waiting": {}}, lastState=ran),
        "debugged": states("ephemeralContainerStatuses", state=ran),
        "pulls": states("containerStatuses", state={"waiting": {"reason": "ImagePullBackOff"}}),
    }
    for name, status in one.items():
        metadata = {"name": name, "annotations": {OPENED: "2026-11-21T12:00:00Z"}}
        stage.api.create(path, {"metadata": metadata, "spec": spec})
        added = [{"op": "add", "path": f"/status/{key}", "value": value} for key, value in status.items()]
        stage.api.patch(f"{path}/{name}/status", added)
    return [name for name in one if name != "pulls"]


def test_the_account_may_touch_only_pods_that_wait_and_only_where_they_go(stage: Stage, policy: str) -> None:
    key = stage.apply("train", 4)
    waiting = gated(stage, key, 4)[0]
    path = f"/api/v1/namespaces/{key[0]}/pods"
    container = {"name": "c", "image": "example.invalid/c"}
    plain = {"metadata": {"name": "plain"}, "spec": {"containers": [container]}}
    stage.api.create(path, plain)
    first = container | {"name": "first"}
    began = opened(stage, path, {"containers": [container], "initContainers": [first]})
    waits = {
        "schedulingGates": [{"name": GATE}, {"name": "kueue.x-k8s.io/topology"}],
        "initContainers": [first],
        "containers": [container],
    }
    stage.api.create(path, {"metadata": {"name": "waits"}, "spec": waits})
    before = [{"op": "replace", "path": "/spec/initContainers/0/image", "value": "example.invalid/evil"}]
    tolerant = [{"op": "add", "path": "/spec/tolerations/-", "value": {"operator": "Exists"}}]
    kept = [{"op": "add", "path": "/metadata/finalizers", "value": ["example.com/kept"]}]
    image = [{"op": "replace", "path": "/spec/containers/0/image", "value": "example.invalid/evil"}]
    note = [{"op": "add", "path": "/metadata/annotations", "value": {}}]
    label = [{"op": "remove", "path": f"/metadata/labels/{JOB.replace('/', '~1')}"}]
    owner = [{"op": "remove", "path": "/metadata/ownerReferences"}]
    generated = [{"op": "add", "path": "/metadata/generateName", "value": "other"}]
    deadline = [{"op": "add", "path": "/spec/activeDeadlineSeconds", "value": 1}]
    wish = {"weight": 1, "preference": {"matchExpressions": [{"key": "x", "operator": "Exists"}]}}
    preferred = "/spec/affinity/nodeAffinity/preferredDuringSchedulingIgnoredDuringExecution"
    affinity = [{"op": "add", "path": preferred, "value": [wish]}]
    role = [{"op": "add", "path": "/metadata/annotations/iam.amazonaws.com~1role", "value": "admin"}]
    place = [{"op": "remove", "path": f"/metadata/annotations/{PLACE.replace('/', '~1')}"}]
    zone = [{"op": "add", "path": "/spec/nodeSelector/zone", "value": "a"}]
    empty = [{"op": "add", "path": "/spec/nodeSelector/zone", "value": ""}]
    queue = [{"op": "remove", "path": "/spec/schedulingGates/1"}]
    its = waiting["metadata"]["name"]
    api = stage.as_program()

    def refused() -> bool:
        with contextlib.suppress(ApiError):
            return not api.patch(f"{path}/plain?dryRun=All", note)
        return True

    until(refused, "the API server to know the policy")
    for name, operations in (
        *(("plain", operations) for operations in (image, note)),
        *(("waits", operations) for operations in (before, tolerant, kept, queue)),
        *((its, operations) for operations in (image, label, owner, generated, deadline, affinity)),
        *((its, operations) for operations in (role, place, zone, empty)),
    ):
        with pytest.raises(ApiError, match=f"ValidatingAdmissionPolicy '{policy}'"):
            api.patch(f"{path}/{name}", operations)
    stage.api.create("/api/v1/namespaces/kube-system/pods", plain)
    with pytest.raises(ApiError, match=f"ValidatingAdmissionPolicy '{policy}'"):
        api.patch("/api/v1/namespaces/kube-system/pods/plain", image)
    with pytest.raises(ApiError, match="the pod was not admitted by this program"):
        api.delete("/api/v1/namespaces/kube-system/pods/plain")
    stage.end("kube-system", "plain")
    # Not even one that it has pinned, while that waits: it could then delete any.
    key_of_unit = f"/spec/nodeSelector/{nodes.SERVER_ID_4.replace('/', '~1')}"
    pin = [
        {"op": "add", "path": f"/metadata/annotations/{OPENED.replace('/', '~1')}", "value": "now"},
        {"op": "add", "path": key_of_unit, "value": "none"},
    ]
    api.patch(f"{path}/{its}", pin)
    for name in ("plain", *began, its):
        with pytest.raises(ApiError, match="the pod was not admitted by this program"):
            api.delete(f"{path}/{name}")
    api.delete(f"{path}/pulls")
    for name in ("plain", *began, "pulls", "waits"):
        stage.end(key[0], name)


@pytest.mark.usefixtures("policy")
def test_the_account_deletes_pods_that_have_started_only_if_their_author_chose_so(stage: Stage) -> None:
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

    until(lambda: refused("stays"), "the API server to know the policy")
    for name in ("stays", "moves-later"):
        with pytest.raises(ApiError, match="the pod was not admitted by this program"):
            api.delete(f"{path}/{name}")
    for name in ("moves", "restarts"):
        api.delete(f"{path}/{name}", grace_seconds=0)
    for name in choices:
        stage.end(TEAMS[0], name)


def test_the_account_records_what_its_own_program_does_and_nothing_else(stage: Stage) -> None:
    """An Event as the kubelet's, or the Lease of another program, is none of its business."""
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

    def refused_at_last() -> bool:
        with contextlib.suppress(ApiError):
            return not api.create(f"{leases}?dryRun=All", {"metadata": {"name": "other"}})
        return True

    with contextlib.suppress(ConflictError):  # of a test before
        api.create(leases, {"metadata": {"name": ACCOUNT}})

    until(refused_at_last, "the API server to know the policy")
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
    gated(stage, key, 4)
    team = stage.plane.kubectl.in_namespace(key[0])
    team.run("create", "rolebinding", "alice", "--clusterrole=edit", "--user=alice")
    forged = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "forged", "annotations": {OPENED: "2026-11-21T12:00:00Z"}},
        "spec": {"containers": [{"name": "c", "image": "example.invalid/c"}]},
    }
    alice, rehearsal = team.acting_as("alice"), "--dry-run=server"

    def refused_at_last() -> bool:
        done = alice.run("create", "-f", "-", rehearsal, stdin=json.dumps(forged), check=False)
        return "is written by whole-job admission only" in done.stderr

    until(refused_at_last, "the API server to know the policy")
    one = f"{key[1]}-worker-0"
    refused = alice.run("annotate", "pod", one, f"{OPENED}=2026", rehearsal, check=False)
    assert "is written by whole-job admission only" in refused.stderr
    # Other resources by which a client can write a pod's annotations.
    doors = "pods/status,pods/binding,bindings"
    team.run("create", "role", "doors", "--verb=*", f"--resource={doors}")
    team.run("create", "rolebinding", "doors", "--role=doors", "--user=alice")
    patch = json.dumps({"metadata": forged["metadata"] | {"name": one}})
    by_status = ("patch", "pod", one, "--subresource=status", "--type=merge", "-p", patch, rehearsal)
    assert "is written by whole-job admission only" in alice.run(*by_status, check=False).stderr
    target = {"apiVersion": "v1", "kind": "Node", "name": "none"}
    metadata = forged["metadata"] | {"name": one, "namespace": key[0]}
    binding = {"apiVersion": "v1", "kind": "Binding", "metadata": metadata, "target": target}
    for door in (f"pods/{one}/binding", "bindings"):
        raw = f"--raw=/api/v1/namespaces/{key[0]}/{door}"
        refused = alice.run("create", raw, "-f", "-", stdin=json.dumps(binding), check=False)
        text = "is written by whole-job admission only"
        if policy != "ultraserver-placement-account":  # the guard names all keys of ours in a Binding
            text = f"metadata.annotations[{OPENED}] of a Binding would be written to the Pod"
        assert text in refused.stderr
    team.run("delete", "rolebinding,role", "doors")
    stage.start_program()
    stage.wait(all_whole)
    alice.run("label", "pod", one, "note=mine", rehearsal)
    later = alice.run("annotate", "pod", one, f"{OPENED}=2026", "--overwrite", rehearsal, check=False)
    assert "is written by whole-job admission only" in later.stderr
    team.run("delete", "rolebinding", "alice")
