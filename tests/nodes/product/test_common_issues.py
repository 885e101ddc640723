"""Jobs to which something happens: they print what the documents say, and end well."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from testbed.nodes import story
from testbed.nodes.plugin import DEVICES, RESOURCE
from tests.nodes.product.job import GATED, GO, INIT, LATE, MAIN, POSTPONED, SSHD, WAIT, Job, mpijob
from tests.nodes.replicas import signal

if TYPE_CHECKING:
    from collections.abc import Iterator

    from testbed.nodes.plugin import NeuronPlugin
    from testbed.plane.kubectl import Kubectl, Object


@pytest.fixture
def beside(job: Job) -> Iterator[Kubectl]:
    """Kubectl for a second namespace, which is deleted after the test."""
    name = f"{job.kubectl.namespace}-beside"
    yield job.kubectl.create_namespace(name)
    job.kubectl.run("delete", "namespace", name, "--wait=false")


def restarts(launcher: Object) -> dict[str, int]:
    """How often each container of a launcher's pod was started again."""
    kinds = ("initContainerStatuses", "containerStatuses")
    return {
        found["name"]: found["restartCount"] for kind in kinds for found in launcher["status"].get(kind, ())
    }


def waits(job: Job, worker: int, why: str) -> None:
    """Waits until whole-job admission says of a worker why it waits."""

    def holds(found: Object) -> bool:
        return any(why in event["message"] for event in found["items"])

    about = f"involvedObject.name={job.name}-worker-{worker},reason=Waiting"
    job.kubectl.wait_for(holds, "events", f"--field-selector={about}")


def made_anew(job: Job, worker: str) -> None:
    """Deletes a worker, and waits until the operator has made it again."""
    uid = job.kubectl.get_json("pod", worker)["metadata"]["uid"]
    job.kubectl.run("delete", "pod", worker)
    job.kubectl.wait_for(lambda found: found["metadata"]["uid"] != uid, "pod", worker)


def test_a_launcher_waits_for_workers_tells_what_is_sick_and_goes_on_once_it_is_mended(
    job: Job, mended: dict[str, NeuronPlugin]
) -> None:
    job.kubectl.create(mpijob(worker=LATE))
    on = job.placed()
    late, prompt = "demo-worker-3", [f"demo-worker-{number}" for number in range(3)]

    # One worker is made anew and has no node, as a device is gone; then it has one, but no sshd yet.
    lacking = on[late]
    mended[lacking].offer(DEVICES - 1)
    story.offered(job.kubectl, lacking, RESOURCE, DEVICES - 1)
    made_anew(job, late)
    waits(job, 3, f"{late} has to go to ")
    job.touch(SSHD, *prompt)
    job.logged(WAIT, "3 of 4 workers answer ssh.*Could not resolve hostname")
    mended[lacking].mend()
    assert job.placed() == on
    job.logged(WAIT, "3 of 4 workers answer ssh.*Connection refused")
    # The scheduler chooses who is where, and the document shows one way.
    for name, node_id in zip(sorted(on), ("2", "0", "3", "3"), strict=True):
        mended[on[name]].say(node_id_4=node_id)
    mended[on["demo-worker-1"]].say(ultraserver_mode="3,4")
    job.touch(SSHD, late)

    said = job.logged(INIT, r" problem\(s\)\.")
    job.prints_as_documented("sick", said)
    chosen = {"worker": (r"demo-worker-\d", "WORKER")}
    for block in ("pending", "late"):
        job.prints_as_documented(block, job.log(WAIT), chosen)

    # It is asked again from the start, and one node is busy then: before the others are mended, or a start
    # could find all of them well.
    busy = mended[on["demo-worker-2"]]
    busy.say(ultraserver_mode="busy", node_id_4="busy")
    for each in mended.values():
        if each is not busy:
            each.mend()
    job.logged(INIT, "Asking again", starts=(2, 3))
    busy.mend()
    job.computes(mended)
    job.prints_as_documented("busy", job.log(INIT))
    again = restarts(job.ended())
    assert again[INIT] > 0
    assert (again[WAIT], again[MAIN]) == (0, 0)


def test_a_launcher_that_is_started_again_ends_well(job: Job, mended: dict[str, NeuronPlugin]) -> None:
    job.kubectl.create(mpijob(launcher=GATED))
    job.begun()
    first = job.launcher()
    # mpirun is process 1 there; the kubelet starts the container again.
    signal(job.plane, job.running(first), "SIGTERM")
    job.begun()
    once = {WAIT: 0, INIT: 0, MAIN: 1}
    job.kubectl.wait_for(lambda found: restarts(found) == once, "pod", first)
    job.kubectl.run("delete", "pod", first, "--wait=false")
    second = job.launcher(other_than=first)
    job.begun()
    job.touch(GO)
    job.computes(mended)
    assert job.launcher() == second
    assert "All 4 workers answer ssh" in job.log(WAIT)
    assert job.log(INIT).startswith("Using 4-node config\n")


@pytest.mark.soak
def test_a_worker_that_is_replaced_is_set_up_by_a_new_launcher(
    job: Job, mended: dict[str, NeuronPlugin]
) -> None:
    # Not while mpirun runs: how Open MPI 5 ends when it loses a worker differs from time to time.
    job.kubectl.create(mpijob(launcher=POSTPONED))
    first = job.launcher()
    job.running(first)
    job.running("demo-worker-2")
    made_anew(job, "demo-worker-2")
    assert "NEURON_" not in job.file("demo-worker-2", "/etc/environment").read_text(encoding="utf-8")
    job.kubectl.run("delete", "pod", first, "--wait=false")
    job.touch(GO, job.launcher(other_than=first))
    job.computes(mended)


@pytest.mark.soak
def test_a_job_that_is_suspended_and_resumed_is_placed_by_the_same_terms(
    job: Job, mended: dict[str, NeuronPlugin]
) -> None:
    def terms() -> list[Object]:
        fields = ("nodeSelector", "affinity")
        pods = sorted(job.workers(), key=lambda pod: str(pod["metadata"]["name"]))
        return [{field: pod["spec"][field] for field in fields} for pod in pods]

    def suspend(*, suspended: bool) -> None:
        said = "true" if suspended else "false"
        patch = f'{{"spec":{{"runPolicy":{{"suspend":{said}}}}}}}'
        job.kubectl.run("patch", "mpijob", job.name, "--type=merge", "-p", patch)

    job.kubectl.create(mpijob(launcher=GATED))
    job.begun()
    before = terms()
    suspend(suspended=True)
    job.kubectl.wait_for(lambda found: not found["items"], "pods", timeout=story.SECONDS)
    suspend(suspended=False)
    job.begun()
    assert terms() == before
    assert len(before) == 4
    job.touch(GO)
    job.computes(mended)


def half_nodes(workers: int, name: str = "demo", **more: Any) -> Object:
    """A job whose workers ask for half of a node's devices, each on a node of its own."""
    annotations = {"ultraserver-webhook.io/inject": "true"}
    job = mpijob(workers, name=name, devices=DEVICES // 2, annotations=annotations, **more)
    spread = {"maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "DoNotSchedule"}
    labels = {"training.kubeflow.org/job-name": name, "training.kubeflow.org/job-role": "worker"}
    worker = job["spec"]["mpiReplicaSpecs"]["Worker"]["template"]["spec"]
    worker["topologySpreadConstraints"] = [{**spread, "labelSelector": {"matchLabels": labels}}]
    return job


@pytest.mark.soak
def test_jobs_of_two_namespaces_never_share_an_ultraserver(
    job: Job, mended: dict[str, NeuronPlugin], beside: Kubectl
) -> None:
    # There are devices enough, so that only whole-job admission and the terms keep jobs apart.
    other, large = Job(beside, job.plane), Job(job.kubectl, job.plane, "large")
    job.kubectl.create(half_nodes(2, launcher=GATED))
    beside.create(half_nodes(2, launcher=GATED, runPolicy={"cleanPodPolicy": "Running"}))
    placed = {each: each.placed() for each in (job, other)}
    pairs = [{mended[node].sysfs["server_id_2"] for node in on.values()} for on in placed.values()]
    assert [len(pair) for pair in pairs] == [1, 1]
    assert pairs[0] != pairs[1]
    for each in placed:
        each.begun()
    job.kubectl.create(half_nodes(4, name="large"))
    waits(large, 0, "needs 1 whole UltraServer; 0 free; ")
    for each, on in placed.items():
        each.touch(GO)
        each.computes(mended, on)
    # Only the job that asks for it gives its nodes back at its end.
    beside.wait_for(lambda found: not found["items"], "pods", "-l", story.of_job("demo", "worker"))
    assert len(job.workers()) == 2
    assert not any("nodeName" in pod["spec"] for pod in large.workers())
    job.kubectl.run("delete", "mpijob", job.name)
    large.computes(mended)
