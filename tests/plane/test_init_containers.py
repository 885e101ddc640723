"""The launcher's Pod as mpi-operator and the Job controller make it; tests/nodes/product runs one."""

from typing import Any

import pytest

from testbed.mpijob import mpijob
from testbed.plane.kubectl import Kubectl

pytestmark = pytest.mark.usefixtures("registered_webhook")
HOSTFILE = "/root/ultraserver_init/new_hostfile"
VARIABLES = {
    "OpenMPI": "OMPI_MCA_orte_default_hostfile",
    "Intel": "I_MPI_HYDRA_HOST_FILE",
    "MPICH": "HYDRA_HOST_FILE",
}


def launcher(kubectl: Kubectl, job: dict[str, Any]) -> dict[str, Any]:
    """Returns the launcher's Pod of a job, as the operator and the Job controller made it."""
    kubectl.create(job)
    chosen = (
        f"training.kubeflow.org/job-name={job['metadata']['name']},training.kubeflow.org/job-role=launcher"
    )
    obj = kubectl.wait_for(lambda pods: pods["items"], "pods", "-l", chosen)
    pod: dict[str, Any] = obj["items"][0]
    return pod


def environment(pod: dict[str, Any], container: dict[str, Any]) -> dict[str, str]:
    """Returns what the kubelet makes of a container's env: of two with one name the last counts."""
    notes = {f"metadata.annotations['{key}']": value for key, value in pod["metadata"]["annotations"].items()}
    return {
        item["name"]: notes[item["valueFrom"]["fieldRef"]["fieldPath"]]
        if "valueFrom" in item
        else item.get("value", "")
        for item in container.get("env", ())
    }


@pytest.mark.parametrize("implementation", list(VARIABLES))
def test_every_mpi_takes_the_new_hostfile_although_the_operator_names_its_own(
    namespace: Kubectl, implementation: str
) -> None:
    job = mpijob(2, name="which-mpi")
    job["spec"]["mpiImplementation"] = implementation
    pod = launcher(namespace, job)
    main = pod["spec"]["containers"][0]
    assert environment(pod, main)[VARIABLES[implementation]] == HOSTFILE
    for container in (main, pod["spec"]["initContainers"][1]):
        mounted = {
            each["mountPath"] for each in container["volumeMounts"] if each["name"] == "ultraserver-init"
        }
        assert mounted == {"/root/ultraserver_init", "/ultraserver_init"}


def test_a_quota_that_needs_requests_in_every_container_counts_the_launcher_once(namespace: Kubectl) -> None:
    quota = {"requests.cpu": "5", "limits.memory": "5Gi"}
    namespace.run(
        "create", "quota", "small", f"--hard={','.join(f'{key}={most}' for key, most in quota.items())}"
    )
    namespace.wait_for(lambda obj: obj.get("status", {}).get("hard"), "resourcequota", "small")
    job = mpijob(4)
    for group in job["spec"]["mpiReplicaSpecs"].values():
        asks = group["template"]["spec"]["containers"][0].setdefault("resources", {})
        asks.setdefault("limits", {})["memory"] = "1Gi"
        asks["requests"] = {"cpu": "1"}
    launcher(namespace, job)
    namespace.wait_for(lambda obj: obj["status"]["used"] == quota, "resourcequota", "small")
