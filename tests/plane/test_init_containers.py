"""The init containers as mpi-operator's own pods carry them, run for real: the strings come from the pods.

There is no kubelet here, so sshd in namespaces of this machine play the pods (``tests/plane/initscript``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from testbed.mpijob import mpijob
from testbed.topology import servers
from tests.plane.initscript.harness import Fleet
from tests.plane.initscript.run import show

if TYPE_CHECKING:
    from testbed.plane.kubectl import Kubectl

pytestmark = [pytest.mark.fleet, pytest.mark.usefixtures("registered_webhook")]
HOSTFILE = "/root/ultraserver_init/new_hostfile"
VARIABLES = {
    "OpenMPI": "OMPI_MCA_orte_default_hostfile",
    "Intel": "I_MPI_HYDRA_HOST_FILE",
    "MPICH": "HYDRA_HOST_FILE",
}


def launcher(kubectl: Kubectl, job: dict[str, Any]) -> dict[str, Any]:
    """The launcher's Pod of a job, as the operator and the Job controller made it."""
    kubectl.create(job)
    chosen = (
        f"training.kubeflow.org/job-name={job['metadata']['name']},training.kubeflow.org/job-role=launcher"
    )
    found = kubectl.wait_for(lambda pods: pods["items"], "pods", "-l", chosen)
    pod: dict[str, Any] = found["items"][0]
    return pod


def environment(pod: dict[str, Any], container: dict[str, Any]) -> dict[str, str]:
    """What the kubelet makes of a container's env: of two with one name the last counts."""
    notes = {f"metadata.annotations['{key}']": value for key, value in pod["metadata"]["annotations"].items()}
    return {
        item["name"]: notes[item["valueFrom"]["fieldRef"]["fieldPath"]]
        if "valueFrom" in item
        else item.get("value", "")
        for item in container.get("env", ())
    }


def test_the_strings_of_the_launchers_pod_set_up_the_workers_and_mpirun_uses_the_new_hostfile(
    namespace: Kubectl,
) -> None:
    pod = launcher(namespace, mpijob(4, name="demo"))
    config = namespace.get_json("configmap", "demo-config")["data"]["hostfile"]
    # Hostfile order and topology order differ, or nobody would see which one was used.
    nodes = [int(files["node_id_4"]) for files in servers(4)]
    assert nodes != sorted(nodes)
    with Fleet(4, namespace=str(namespace.namespace)) as fleet:
        assert fleet.hostfile == config
        for container in pod["spec"]["initContainers"]:
            done = fleet.run(container["command"], environment(pod, container))
            assert not done.returncode, done.stderr
        assert "Using 4-node config" in done.stdout
        main = pod["spec"]["containers"][0]
        env = environment(pod, main) | {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
        ranks = show(fleet, ["mpirun"], env)
    assert [rank["NEURON_GLOBAL_TOPOID"] for rank in ranks] == ["0", "1", "2", "3"]
    assert [rank["HOST"] for rank in ranks] == [f"demo-worker-{nodes.index(place)}" for place in range(4)]


@pytest.mark.parametrize("implementation", list(VARIABLES))
def test_every_mpi_takes_the_new_hostfile_although_the_operator_names_its_own(
    namespace: Kubectl, implementation: str
) -> None:
    job = mpijob(2, name="which-mpi")
    job["spec"]["mpiImplementation"] = implementation
    pod = launcher(namespace, job)
    main = pod["spec"]["containers"][0]
    assert environment(pod, main)[VARIABLES[implementation]] == HOSTFILE
    assert {"name": "ultraserver-init", "mountPath": "/root/ultraserver_init"} in main["volumeMounts"]


def test_a_quota_that_wants_every_container_to_ask_counts_the_launcher_once(namespace: Kubectl) -> None:
    quota = {"requests.cpu": "5", "limits.memory": "5Gi"}
    namespace.run(
        "create", "quota", "small", f"--hard={','.join(f'{key}={most}' for key, most in quota.items())}"
    )
    namespace.wait_for(lambda found: found.get("status", {}).get("hard"), "resourcequota", "small")
    job = mpijob(4)
    for group in job["spec"]["mpiReplicaSpecs"].values():
        asks = group["template"]["spec"]["containers"][0].setdefault("resources", {})
        asks.setdefault("limits", {})["memory"] = "1Gi"
        asks["requests"] = {"cpu": "1"}
    launcher(namespace, job)
    namespace.wait_for(lambda found: found["status"]["used"] == quota, "resourcequota", "small")
