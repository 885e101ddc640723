"""Jobs to which something happens: they print what the documents say, and end well."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.cluster.realnodes import story
from tests.cluster.realnodes.job import GATED, GO, INIT, LATE, MAIN, POSTPONED, SSHD, WAIT, Job, mpijob
from tests.cluster.realnodes.plugin import DEVICES, RESOURCE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.cluster.kubectl import Kubectl, Object
    from tests.cluster.realnodes.plugin import NeuronPlugin


@pytest.fixture
def beside(job: Job) -> Iterator[Kubectl]:
    """Kubectl for a second namespace, which is deleted after the test."""
    name = f"{job.kubectl.namespace}-beside"
    yield job.kubectl.create_namespace(name)
    job.kubectl.run("delete", "namespace", name, "--wait=false")


def restarts(job: Job) -> dict[str, int]:
    """How often each container of the launcher's pod was started again."""
    status = job.kubectl.get_json("pod", job.launcher())["status"]
    kinds = ("initContainerStatuses", "containerStatuses")
    return {found["name"]: found["restartCount"] for kind in kinds for found in status[kind]}


def unplaced(job: Job, count: int, why: str) -> None:
    """Waits until the scheduler says this of so many workers of a job."""

    def holds(found: Object) -> bool:
        conditions = [item for pod in found["items"] for item in pod["status"].get("conditions", ())]
        return sum(why in item.get("message", "") for item in conditions) == count

    job.kubectl.wait_for(holds, "pods", "-l", story.of_job(job.name, "worker"))


def test_a_sick_ultraserver_is_told_whole_and_the_job_goes_on_once_it_is_mended(
    job: Job, mended: dict[str, NeuronPlugin]
) -> None:
    job.kubectl.create(mpijob(worker=LATE))
    on = job.placed()
    # The scheduler chooses who is where, and the document shows one way.
    for name, node_id in zip(sorted(on), ("2", "0", "3", "3"), strict=True):
        mended[on[name]].say(node_id_4=node_id)
    mended[on["demo-worker-1"]].say(ultraserver_mode="3,4")
    job.touch(SSHD)
    said = job.logged(INIT, r" problem\(s\)\.")
    job.prints_as_documented("sick", said)
    for plugin in mended.values():
        plugin.mend()
    job.computes(mended)
    again = restarts(job)
    assert again[INIT] > 0
    assert (again[WAIT], again[MAIN]) == (0, 0)


def test_a_node_that_is_still_busy_is_waited_for(job: Job, mended: dict[str, NeuronPlugin]) -> None:
    job.kubectl.create(mpijob(worker=LATE))
    busy = mended[job.placed()["demo-worker-2"]]
    busy.say(ultraserver_mode="busy", node_id_4="busy")
    job.touch(SSHD)
    job.logged(INIT, "Asking again")
    busy.mend()
    job.computes(mended)
    job.prints_as_documented("busy", job.log(INIT))
    assert set(restarts(job).values()) == {0}


def test_a_node_that_lacks_a_device_is_waited_for(job: Job, mended: dict[str, NeuronPlugin]) -> None:
    lacking, plugin = next(iter(mended.items()))
    plugin.offer(DEVICES - 1)
    story.offered(job.kubectl, lacking, RESOURCE, DEVICES - 1)
    job.kubectl.create(mpijob())

    unplaced(job, 1, f"Insufficient {RESOURCE}")
    job.logged(WAIT, "3 of 4 workers answer ssh")
    plugin.mend()
    job.computes(mended)
    chosen = {"worker": (r"demo-worker-\d", "WORKER")}
    job.prints_as_documented("pending", job.log(WAIT), chosen)


def test_a_worker_whose_sshd_is_late_is_waited_for(job: Job, mended: dict[str, NeuronPlugin]) -> None:
    job.kubectl.create(mpijob(worker=LATE))
    *prompt, late = sorted(job.placed())
    job.touch(SSHD, *prompt)
    job.logged(WAIT, "3 of 4 workers answer ssh.*Connection refused")
    job.touch(SSHD, late)
    job.computes(mended)
    job.prints_as_documented("late", job.log(WAIT))


def test_a_launcher_that_is_started_again_ends_well(job: Job, mended: dict[str, NeuronPlugin]) -> None:
    job.kubectl.create(mpijob(launcher=GATED))
    job.begun()
    first = job.launcher()
    # mpirun, which is process 1 there, ends by this signal; the kubelet starts the container again.
    job.kubectl.run("exec", first, "-c", MAIN, "--", "kill", "1")
    job.begun()
    assert restarts(job) == {WAIT: 0, INIT: 0, MAIN: 1}
    job.kubectl.run("delete", "pod", first, "--wait=false")
    second = job.launcher(other_than=first)
    job.begun()
    job.touch(GO)
    job.computes(mended)
    assert job.launcher() == second
    assert "All 4 workers answer ssh" in job.log(WAIT)
    assert job.log(INIT).startswith("Using 4-node config\n")


def test_a_worker_that_is_replaced_is_set_up_by_a_new_launcher(
    job: Job, mended: dict[str, NeuronPlugin]
) -> None:
    # Not while mpirun runs: how Open MPI 5 ends when it loses a worker differs from time to time.
    job.kubectl.create(mpijob(launcher=POSTPONED))
    first = job.launcher()
    job.in_container(first, "true")
    job.kubectl.run("delete", "pod", "demo-worker-2")
    assert "NEURON_" not in job.in_container("demo-worker-2", "cat", "/etc/environment")
    job.kubectl.run("delete", "pod", first, "--wait=false")
    job.in_container(job.launcher(other_than=first), "touch", GO)
    job.computes(mended)


def test_a_job_that_is_suspended_and_resumed_is_placed_by_the_same_terms(
    job: Job, mended: dict[str, NeuronPlugin]
) -> None:
    def terms() -> list[Object]:
        fields = ("nodeSelector", "affinity")
        pods = sorted(job.workers(), key=lambda pod: str(pod["metadata"]["name"]))
        return [{field: pod["spec"][field] for field in fields} for pod in pods]

    def suspend(*, suspended: bool) -> None:
        said = "true" if suspended else "false"
        job.kubectl.run(
            "patch",
            "mpijob",
            job.name,
            "--type=merge",
            "-p",
            f'{{"spec":{{"runPolicy":{{"suspend":{said}}}}}}}',
        )

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


def test_jobs_of_two_namespaces_never_share_an_ultraserver(
    job: Job, mended: dict[str, NeuronPlugin], beside: Kubectl
) -> None:
    # There are devices enough, so that only the terms keep jobs apart.
    other, large = Job(beside), Job(job.kubectl, "large")
    job.kubectl.create(half_nodes(2, launcher=GATED))
    beside.create(half_nodes(2, launcher=GATED, runPolicy={"cleanPodPolicy": "Running"}))
    placed = {each: each.placed() for each in (job, other)}
    pairs = [{mended[node].sysfs["server_id_2"] for node in on.values()} for on in placed.values()]
    assert [len(pair) for pair in pairs] == [1, 1]
    assert pairs[0] != pairs[1]
    for each in placed:
        each.begun()
    job.kubectl.create(half_nodes(4, name="large"))
    unplaced(large, 4, "didn't match pod anti-affinity rules")
    for each, on in placed.items():
        each.touch(GO)
        each.computes(mended, on)
    # Only the job that asks for it gives its nodes back at its end.
    beside.wait_for(lambda found: not found["items"], "pods", "-l", story.of_job("demo", "worker"))
    assert len(job.workers()) == 2
    unplaced(large, 4, "didn't match pod anti-affinity rules")
    # The last to go is of the same namespace: see docs/troubleshooting.md for when it is of another.
    job.kubectl.run("delete", "mpijob", job.name)
    large.computes(mended)
