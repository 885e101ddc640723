"""Jobs to which something happens: they print what the documents say, and end well."""

import pytest

from testbed.nodes import story
from testbed.nodes.plugin import DEVICES, RESOURCE, NeuronPlugin
from testbed.plane.kubectl import Object
from tests.nodes.product.job import GATED, GO, INIT, LATE, MAIN, PROGRAM, SSHD, WAIT, Job, mpijob
from tests.nodes.replicas import signal


def restarts(launcher: Object) -> dict[str, int]:
    """Returns how often each container of a launcher's pod was started again."""
    kinds = ("initContainerStatuses", "containerStatuses")
    return {each["name"]: each["restartCount"] for kind in kinds for each in launcher["status"].get(kind, ())}


def waits(job: Job, worker: int, why: str) -> None:
    """Waits until whole-job admission says of a worker why it waits."""

    def holds(obj: Object) -> bool:
        return any(why in event["message"] for event in obj["items"])

    about = f"involvedObject.name={job.name}-worker-{worker},reason=Waiting"
    job.kubectl.wait_for(holds, "events", f"--field-selector={about}")


def made_anew(job: Job, worker: str) -> None:
    """Deletes a worker, and waits until the operator has made it again."""
    uid = job.kubectl.get_json("pod", worker)["metadata"]["uid"]
    job.kubectl.run("delete", "pod", worker)
    job.kubectl.wait_for(lambda obj: obj["metadata"]["uid"] != uid, "pod", worker)


def test_a_launcher_waits_for_workers_logs_failures_and_continues_after_a_repair(
    job: Job, mended: dict[str, NeuronPlugin]
) -> None:
    job.kubectl.create(mpijob(worker=LATE))
    on = job.placed()
    late, prompt = "demo-worker-3", [f"demo-worker-{number}" for number in range(3)]

    # One worker is recreated and has no node, as a device is gone; then it has one, but no sshd yet.
    lacking = on[late]
    # The kubelet (1.36.3, devicemanager) crashes if devices go while it admits a Pod that uses them.
    job.kubectl.wait_for(lambda pod: pod["status"].get("phase") == "Running", "pod", late)
    mended[lacking].offer(DEVICES - 1)
    story.wait_for_devices(job.kubectl, lacking, RESOURCE, DEVICES - 1)
    made_anew(job, late)
    waits(job, 3, f"{late} needs a node in ")
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

    log = job.logged(INIT, r" problem\(s\)\.")
    job.prints_as_documented("sick", log)
    chosen = {"worker": (r"demo-worker-\d", "WORKER")}
    for block in ("pending", "late"):
        job.prints_as_documented(block, job.log(WAIT), chosen)

    # It is asked again from the start, and one node is busy then: before the others are repaired, or a start
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
    job.kubectl.wait_for(lambda obj: restarts(obj) == once, "pod", first)
    job.kubectl.run("delete", "pod", first, "--wait=false")
    second = job.launcher(other_than=first)
    job.begun()
    job.touch(GO)
    job.computes(mended)
    assert job.launcher() == second
    assert "All 4 workers answer ssh" in job.log(WAIT)
    assert job.log(INIT).startswith("Using 4-node config\n")


@pytest.mark.soak
def test_a_job_without_root_computes_in_a_restricted_namespace(
    job: Job, mended: dict[str, NeuronPlugin]
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
    reads = f"set -a; . /etc/environment; exec {PROGRAM}"
    job.kubectl.create(
        mpijob(
            launcher=["mpirun", "sh", "-c", reads],
            worker=["/usr/sbin/sshd", "-De", "-f", "/home/mpiuser/.sshd_config"],
            security=security,
            sshAuthMountPath="/home/mpiuser/.ssh",
        )
    )
    job.computes(mended)
    assert job.kubectl.run("exec", "demo-worker-0", "--", "id", "-u").stdout == "1000\n"
    job.prints_as_documented("without-root", job.log(INIT))
