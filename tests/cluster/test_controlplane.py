"""The control plane itself: real, complete, and gone when it is stopped. No webhook takes part."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.cluster import nodes
from tests.cluster.kubectl import Kubectl, KubectlError, objects
from tests.cluster.process import REAPER, ClusterError, Programs
from tests.cluster.tools import build
from tests.waiting import PATIENCE, until

if TYPE_CHECKING:
    from tests.cluster.controlplane import ControlPlane

ROLE = "training.kubeflow.org/job-role"
JOB_NAME = "training.kubeflow.org/job-name"


def placed_job(name: str, server: str) -> dict[str, Any]:
    """A 4-worker job that its author placed by hand on one UltraServer."""
    container = {"name": "mpitest", "image": "example.invalid/ultraserver:mpijob"}
    worker = {
        "metadata": {"labels": {"team": "research"}, "annotations": {"note": "kept"}},
        "spec": {
            "nodeSelector": {nodes.INSTANCE_TYPE: nodes.TRN2U, nodes.SERVER_ID_4: server},
            "containers": [container | {"resources": {"limits": {"aws.amazon.com/neuron": 16}}}],
        },
    }
    roles = {
        "Launcher": {"replicas": 1, "template": {"spec": {"containers": [container]}}},
        "Worker": {"replicas": 4, "template": worker},
    }
    spec = {"slotsPerWorker": 1, "mpiReplicaSpecs": roles}
    return {"apiVersion": "kubeflow.org/v2beta1", "kind": "MPIJob", "metadata": {"name": name}, "spec": spec}


def test_a_placed_job_becomes_four_workers_and_a_launcher_that_are_all_bound(
    plain_namespace: Kubectl,
) -> None:
    server = nodes.ultraserver_nodes(1)[0]["metadata"]["labels"][nodes.SERVER_ID_4]
    plain_namespace.apply(placed_job("by-hand", server))

    def all_bound(pods: dict[str, Any]) -> bool:
        return len(pods["items"]) == 5 and all(pod["spec"].get("nodeName") for pod in pods["items"])

    pods = plain_namespace.wait_for(all_bound, "pods", "-l", f"{JOB_NAME}=by-hand")["items"]
    workers = [pod for pod in pods if pod["metadata"]["labels"][ROLE] == "worker"]
    assert sorted(pod["metadata"]["name"] for pod in workers) == [
        f"by-hand-worker-{index}" for index in range(4)
    ]
    expected = sorted(node["metadata"]["name"] for node in nodes.ultraserver_nodes(1))
    assert sorted(pod["spec"]["nodeName"] for pod in workers) == expected


def test_labels_and_annotations_of_a_template_reach_the_pods(plain_namespace: Kubectl) -> None:
    server = nodes.ultraserver_nodes(1)[0]["metadata"]["labels"][nodes.SERVER_ID_4]
    stored = plain_namespace.apply(placed_job("labelled", server))
    template = stored["spec"]["mpiReplicaSpecs"]["Worker"]["template"]
    assert template["metadata"] == {"labels": {"team": "research"}, "annotations": {"note": "kept"}}
    pods = plain_namespace.wait_for(lambda found: found["items"], "pods", "-l", f"{ROLE}=worker")["items"]
    assert pods[0]["metadata"]["labels"]["team"] == "research"
    assert pods[0]["metadata"]["annotations"]["note"] == "kept"


def test_the_server_says_which_version_it_is(control_plane: ControlPlane) -> None:
    answer = json.loads(control_plane.kubectl.run("version", "-o", "json").stdout)
    assert answer["serverVersion"]["gitVersion"] == build.CONTROL_PLANE.version()
    assert answer["clientVersion"]["gitVersion"] == build.CONTROL_PLANE.version()
    assert (answer["serverVersion"]["major"], answer["serverVersion"]["minor"]) == ("1", "36")


def test_every_ultraserver_has_four_ready_nodes(control_plane: ControlPlane) -> None:
    found = control_plane.kubectl.get_json("nodes", "-l", nodes.MODE)["items"]
    servers = [node["metadata"]["labels"][nodes.SERVER_ID_4] for node in found]
    assert {servers.count(server) for server in servers} == {4}
    assert all(node["status"]["capacity"]["aws.amazon.com/neuron"] == "16" for node in found)
    assert not any(node["spec"].get("taints") for node in found)


def test_what_kubectl_refuses_is_an_error_with_its_words(plain_namespace: Kubectl) -> None:
    with pytest.raises(KubectlError, match="not found") as caught:
        plain_namespace.get_json("mpijob", "absent")
    assert caught.value.code == 1


def test_kubectl_still_reads_yaml_as_recorded(control_plane: ControlPlane, tmp_path: Path) -> None:
    recorded = Path(__file__).with_name("kubectl_yaml_cases.json").read_text(encoding="utf-8")
    cases = json.loads(recorded)["cases"]
    expected: list[dict[str, Any]] = []
    for number, case in enumerate(case for case in cases if "error" not in case):
        (tmp_path / f"{number:03}.yaml").write_bytes(case["yaml"].encode())
        expected += case["documents"] if "documents" in case else [case["json"]]
    create = ("create", "--dry-run=client", "--validate=false", "-o", "json", "-f")
    # All that kubectl can read in one go: starting it for every case would take most of a minute.
    assert objects(control_plane.kubectl.run(*create, str(tmp_path)).stdout) == expected
    for case in [case for case in cases if "error" in case][::8]:
        done = control_plane.kubectl.run(*create, "-", stdin=case["yaml"], check=False)
        assert (done.returncode, done.stderr.strip()) == (1, case["error"])


def test_an_operator_that_ended_is_started_again(control_plane: ControlPlane) -> None:
    (program,) = [found for found in control_plane.programs.running if found.name == "mpi-operator"]

    def operators() -> set[int]:
        tasks = Path(f"/proc/{program.pid}/task/{program.pid}/children").read_text(encoding="utf-8")
        commands = {int(pid): Path(f"/proc/{pid}/comm") for pid in tasks.split()}
        return {pid for pid, comm in commands.items() if comm.read_text(encoding="utf-8") == "mpi-operator\n"}

    (before,) = operators()
    os.kill(before, signal.SIGKILL)
    until(lambda: operators() - {before})


SCRIPT = """
import sys, time
from pathlib import Path
from tests.cluster.process import Programs
with Programs(Path(sys.argv[1]), grace=0.5) as programs:
    first = programs.start("stubborn", [sys.executable, "-c", sys.argv[2]])
    second = programs.start("sleeper", ["sleep", "600"])
    first.wait_ready(lambda: "ready" in first.tail(), 10)
    print(first.pid, second.pid, flush=True)
    time.sleep(600)
"""
STUBBORN = (
    "import signal, time; signal.signal(15, signal.SIG_IGN); print('ready', flush=True); time.sleep(600)"
)


def running(pid: int) -> bool:
    with contextlib.suppress(OSError):
        status = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
        return status.rsplit(")", 1)[1].split()[0] != "Z"
    return False


@pytest.mark.parametrize("sign", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL], ids=lambda sign: sign.name)
def test_no_process_is_left_when_the_starter_is_ended_by(sign: signal.Signals, tmp_path: Path) -> None:
    command = [sys.executable, "-c", textwrap.dedent(SCRIPT), str(tmp_path), STUBBORN]
    root = Path(__file__).resolve().parents[2]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd=root) as starter:
        assert starter.stdout is not None
        pids = [int(word) for word in starter.stdout.readline().split()]
        assert len(pids) == 2
        starter.send_signal(sign)
        starter.wait(30)
    deadline = time.monotonic() + 20
    while any(running(pid) for pid in pids) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not [pid for pid in pids if running(pid)]


def test_what_has_ended_is_not_waited_for_though_nobody_has_noticed(tmp_path: Path) -> None:
    command = [sys.executable, "-S", str(REAPER), "600"]
    with (
        subprocess.Popen(["true"], start_new_session=True) as ended,
        subprocess.Popen(command, stdin=subprocess.PIPE, cwd=tmp_path) as reaper,
    ):
        until(lambda: not running(ended.pid))
        try:
            reaper.communicate(f"+{ended.pid}\n".encode(), PATIENCE)
        finally:
            reaper.kill()
    assert reaper.returncode == 0


def test_a_program_that_ends_too_early_is_quoted_in_the_error(tmp_path: Path) -> None:
    with Programs(tmp_path) as programs:
        broken = programs.start("broken", [sys.executable, "-c", "import sys; sys.exit('no such flag')"])
        with pytest.raises(ClusterError, match=r"broken ended with status 1(.|\n)*no such flag"):
            broken.wait_ready(lambda: False, 10)


def test_a_program_that_is_never_ready_is_given_up_and_stopped(tmp_path: Path) -> None:
    with Programs(tmp_path) as programs:
        silent = programs.start("silent", ["sleep", "600"])
        with pytest.raises(ClusterError, match="silent is not ready after"):
            silent.wait_ready(lambda: False, 0.2)
    with pytest.raises(ProcessLookupError):
        os.killpg(silent.pid, 0)


def test_the_log_of_a_program_that_is_started_again_still_has_what_the_first_one_said(tmp_path: Path) -> None:
    with Programs(tmp_path) as programs:
        for said in ("first", "second"):
            program = programs.start("again", [sys.executable, "-c", f"print({said!r})"])
            until(lambda log=program.tail, said=said: said in log())  # type: ignore[misc]
            programs.stop(program)
        assert program.tail().splitlines() == ["first", "second"]
