"""Tests that jobs with common problems print what the documents show, and succeed after a repair."""

import pytest

from testbed.nodes import story
from testbed.nodes.plugin import DEVICES, RESOURCE, NeuronPlugin
from testbed.plane.kubectl import Object
from tests.nodes.product.job import GO, INIT, LATE_SSHD, MAIN, PROGRAM, SSHD, WAIT, WAIT_FOR_GO, Job, mpijob
from tests.nodes.replicas import signal


def restarts(launcher: Object) -> dict[str, int]:
    """Returns the number of restarts of each container of a launcher's pod."""
    kinds = ("initContainerStatuses", "containerStatuses")
    return {item["name"]: item["restartCount"] for kind in kinds for item in launcher["status"].get(kind, ())}


def wait_for_reason(job: Job, worker: int, reason: str) -> None:
    """Waits until an Event of whole-job admission has the reason why a worker waits."""

    def has_reason(obj: Object) -> bool:
        return any(reason in event["message"] for event in obj["items"])

    about = f"involvedObject.name={job.name}-worker-{worker},reason=Waiting"
    job.kubectl.wait_for(has_reason, "events", f"--field-selector={about}")


def recreate(job: Job, worker: str) -> None:
    """Deletes a worker, and waits until the operator has created it again."""
    uid = job.kubectl.get_json("pod", worker)["metadata"]["uid"]
    job.kubectl.run("delete", "pod", worker)
    job.kubectl.wait_for(lambda obj: obj["metadata"]["uid"] != uid, "pod", worker)


def test_a_launcher_waits_for_workers_logs_failures_and_continues_after_a_repair(
    job: Job, faulty_plugins: dict[str, NeuronPlugin]
) -> None:
    job.kubectl.create(mpijob(worker=LATE_SSHD))
    nodes = job.wait_until_placed()
    late, prompt = "demo-worker-3", [f"demo-worker-{number}" for number in range(3)]

    # A recreated worker gets no node, because a device is missing. Later it has a node, but no sshd yet.
    node_without_device = nodes[late]
    # The kubelet (1.36.3, devicemanager) crashes if devices go while it admits a Pod that uses them.
    job.kubectl.wait_for(lambda pod: pod["status"].get("phase") == "Running", "pod", late)
    faulty_plugins[node_without_device].set_device_count(DEVICES - 1)
    story.wait_for_devices(job.kubectl, node_without_device, RESOURCE, DEVICES - 1)
    recreate(job, late)
    wait_for_reason(job, 3, f"{late} needs a node in ")
    job.touch(SSHD, *prompt)
    job.wait_for_line(WAIT, "3 of 4 workers answer ssh.*Could not resolve hostname")
    faulty_plugins[node_without_device].remove_faults()
    assert job.wait_until_placed() == nodes
    job.wait_for_line(WAIT, "3 of 4 workers answer ssh.*Connection refused")
    # The scheduler chooses the nodes. The changes of the drivers' files give the output of the document.
    for name, node_id in zip(sorted(nodes), ("2", "0", "3", "3"), strict=True):
        faulty_plugins[nodes[name]].set_files(node_id_4=node_id)
    faulty_plugins[nodes["demo-worker-1"]].set_files(ultraserver_mode="3,4")
    job.touch(SSHD, late)

    log = job.wait_for_line(INIT, r" problem\(s\)\.")
    job.assert_documented("sick", log)
    chosen = {"worker": (r"demo-worker-\d", "WORKER")}
    for block in ("pending", "late"):
        job.assert_documented(block, job.log(WAIT), chosen)

    # When the init container starts again, one node is busy. The test makes this node busy before it repairs
    # the other nodes: otherwise a start could find all nodes repaired.
    busy = faulty_plugins[nodes["demo-worker-2"]]
    busy.set_files(ultraserver_mode="busy", node_id_4="busy")
    for plugin in faulty_plugins.values():
        if plugin is not busy:
            plugin.remove_faults()
    job.wait_for_line(INIT, "Asking again", starts=(2, 3))
    busy.remove_faults()
    job.assert_computes(faulty_plugins)
    job.assert_documented("busy", job.log(INIT))
    counts = restarts(job.wait_for_end())
    assert counts[INIT] > 0
    assert (counts[WAIT], counts[MAIN]) == (0, 0)


def test_a_job_succeeds_after_its_launcher_is_restarted_and_recreated(
    job: Job, faulty_plugins: dict[str, NeuronPlugin]
) -> None:
    job.kubectl.create(mpijob(launcher=WAIT_FOR_GO))
    job.wait_until_ranks_began()
    first = job.launcher()
    # mpirun is process 1 of the container, which the kubelet then restarts.
    signal(job.plane, job.wait_until_running(first), "SIGTERM")
    job.wait_until_ranks_began()
    once = {WAIT: 0, INIT: 0, MAIN: 1}
    job.kubectl.wait_for(lambda obj: restarts(obj) == once, "pod", first)
    job.kubectl.run("delete", "pod", first, "--wait=false")
    second = job.launcher(other_than=first)
    job.wait_until_ranks_began()
    job.touch(GO)
    job.assert_computes(faulty_plugins)
    assert job.launcher() == second
    assert "All 4 workers answer ssh" in job.log(WAIT)
    assert job.log(INIT).startswith("Using 4-node config\n")


@pytest.mark.soak
def test_a_job_without_root_computes_in_a_restricted_namespace(
    job: Job, faulty_plugins: dict[str, NeuronPlugin]
) -> None:
    label = "pod-security.kubernetes.io/enforce=restricted"
    job.kubectl.run("label", "namespace", str(job.kubectl.namespace), label)
    security = {
        "runAsUser": 1000,
        "runAsNonRoot": True,
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    script = f"set -a; . /etc/environment; exec {PROGRAM}"
    job.kubectl.create(
        mpijob(
            launcher=["mpirun", "sh", "-c", script],
            worker=["/usr/sbin/sshd", "-De", "-f", "/home/mpiuser/.sshd_config"],
            security=security,
            sshAuthMountPath="/home/mpiuser/.ssh",
        )
    )
    job.assert_computes(faulty_plugins)
    assert job.kubectl.run("exec", "demo-worker-0", "--", "id", "-u").stdout == "1000\n"
    job.assert_documented("without-root", job.log(INIT))
