"""Tests of the launcher's Pod that mpi-operator and the Job controller create, without a kubelet."""

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


def create_launcher(kubectl: Kubectl, job: dict[str, Any]) -> dict[str, Any]:
    """Creates a job, and returns its launcher's Pod when it exists."""
    kubectl.create(job)
    selector = (
        f"training.kubeflow.org/job-name={job['metadata']['name']},training.kubeflow.org/job-role=launcher"
    )
    obj = kubectl.wait_for(lambda pods: pods["items"], "pods", "-l", selector)
    pod: dict[str, Any] = obj["items"][0]
    return pod


def environment(pod: dict[str, Any], container: dict[str, Any]) -> dict[str, str]:
    """Returns a container's variables. If two have the same name, the kubelet uses the last."""
    annotations = {
        f"metadata.annotations['{key}']": value for key, value in pod["metadata"]["annotations"].items()
    }
    return {
        item["name"]: annotations[item["valueFrom"]["fieldRef"]["fieldPath"]]
        if "valueFrom" in item
        else item.get("value", "")
        for item in container.get("env", ())
    }


@pytest.mark.parametrize("implementation", list(VARIABLES))
def test_every_mpi_implementation_uses_the_new_hostfile_instead_of_the_operators(
    namespace: Kubectl, implementation: str
) -> None:
    job = mpijob(2, name="which-mpi")
    job["spec"]["mpiImplementation"] = implementation
    pod = create_launcher(namespace, job)
    main = pod["spec"]["containers"][0]
    assert environment(pod, main)[VARIABLES[implementation]] == HOSTFILE
    for container in (main, pod["spec"]["initContainers"][1]):
        mounted = {
            mount["mountPath"] for mount in container["volumeMounts"] if mount["name"] == "ultraserver-init"
        }
        assert mounted == {"/root/ultraserver_init", "/ultraserver_init"}


def test_a_quota_that_needs_requests_in_every_container_counts_the_launcher_once(namespace: Kubectl) -> None:
    quota = {"requests.cpu": "5", "limits.memory": "5Gi"}
    namespace.run(
        "create", "quota", "small", f"--hard={','.join(f'{key}={value}' for key, value in quota.items())}"
    )
    namespace.wait_for(lambda obj: obj.get("status", {}).get("hard"), "resourcequota", "small")
    job = mpijob(4)
    for group in job["spec"]["mpiReplicaSpecs"].values():
        resources = group["template"]["spec"]["containers"][0].setdefault("resources", {})
        resources.setdefault("limits", {})["memory"] = "1Gi"
        resources["requests"] = {"cpu": "1"}
    create_launcher(namespace, job)
    namespace.wait_for(lambda obj: obj["status"]["used"] == quota, "resourcequota", "small")
