"""Tests of the test bed's control plane, without a webhook."""

import json
import os
import signal
from pathlib import Path
from typing import Any

from testbed.kits import build
from testbed.mpijob import mpijob
from testbed.plane import jobs, nodes
from testbed.plane.controlplane import ControlPlane
from testbed.plane.kubectl import Kubectl, KubectlError, objects
from testbed.waiting import until


def test_the_server_reports_its_version(control_plane: ControlPlane) -> None:
    answer = json.loads(control_plane.kubectl.run("version", "-o", "json").stdout)
    assert answer["serverVersion"]["gitVersion"] == build.CONTROL_PLANE.version()
    assert answer["clientVersion"]["gitVersion"] == build.CONTROL_PLANE.version()
    assert f"{answer['serverVersion']['major']}.{answer['serverVersion']['minor']}" == (build.OTHER or "1.36")


def test_every_ultraserver_has_four_ready_nodes(control_plane: ControlPlane) -> None:
    items = control_plane.kubectl.get_json("nodes", "-l", nodes.MODE)["items"]
    servers = [node["metadata"]["labels"][nodes.SERVER_ID_4] for node in items]
    assert {servers.count(server) for server in servers} == {4}
    assert all(node["status"]["capacity"]["aws.amazon.com/neuron"] == "16" for node in items)
    assert not any(node["spec"].get("taints") for node in items)


def test_kubectl_still_reads_yaml_as_recorded(control_plane: ControlPlane, tmp_path: Path) -> None:
    recorded = Path(__file__).with_name("kubectl_yaml_cases.json").read_text(encoding="utf-8")
    cases = json.loads(recorded)["cases"]
    expected: list[dict[str, Any]] = []
    for number, case in enumerate(case for case in cases if "error" not in case):
        (tmp_path / f"{number:03}.yaml").write_bytes(case["yaml"].encode())
        expected += case["documents"] if "documents" in case else [case["json"]]
    create = ("create", "--dry-run=client", "--validate=false", "-o", "json", "-f")
    # A single kubectl reads all files that have no error: a kubectl per case takes most of a minute.
    assert objects(control_plane.kubectl.run(*create, str(tmp_path)).stdout) == expected
    for case in [case for case in cases if "error" in case]:
        result = control_plane.kubectl.run(*create, "-", stdin=case["yaml"], check=False)
        assert (result.returncode, result.stderr.strip()) == (1, case["error"])


def test_an_operator_that_was_killed_is_started_again_and_creates_pods(
    control_plane: ControlPlane, plain_namespace: Kubectl
) -> None:
    (program,) = [process for process in control_plane.programs.running if process.name == "mpi-operator"]

    def operators() -> set[int]:
        tasks = Path(f"/proc/{program.pid}/task/{program.pid}/children").read_text(encoding="utf-8")
        return {int(pid) for pid in tasks.split() if command(pid) == "mpi-operator\n"}

    def command(pid: str) -> str:
        try:
            return Path(f"/proc/{pid}/comm").read_text(encoding="utf-8")
        except (FileNotFoundError, ProcessLookupError):  # the process ended after it was listed
            return ""

    (before,) = operators()
    os.kill(before, signal.SIGKILL)
    until(lambda: operators() - {before}, "a new mpi-operator")
    # The timeout is shorter than the Lease of the killed operator.
    plain_namespace.create(mpijob(1))
    plain_namespace.wait_for(lambda obj: len(obj["items"]) == 2, "pods", timeout=10)


def test_no_pod_can_be_created_in_a_namespace_whose_test_is_over(plain_namespace: Kubectl) -> None:
    # A slow operator can create Pods for a deleted job, and these Pods keep their nodes for ever.
    jobs.retire_namespace(plain_namespace)
    container = {"name": "worker", "image": "registry.example/worker"}
    late_pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "late"},
        "spec": {"containers": [container]},
    }

    def refused() -> bool:
        try:
            plain_namespace.create(late_pod, "--dry-run=server")
        except KubectlError as error:
            return "the test of this namespace is over" in str(error)
        return False

    until(refused, "the API server to apply the policy against late Pods")
