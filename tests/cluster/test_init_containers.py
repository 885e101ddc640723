"""The init containers as mpi-operator's own pods carry them, run for real: the strings come from the pods.

There is no kubelet here, so sshd in namespaces of this machine play the pods (``tests/initscript``).
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import pytest

from tests.helpers import mpijob
from tests.initscript.harness import Fleet
from tests.initscript.machine import missing
from tests.initscript.run import show
from tests.initscript.topology import servers

if TYPE_CHECKING:
    from tests.cluster.kubectl import Kubectl

pytestmark = [
    pytest.mark.fleet,
    pytest.mark.skipif(bool(missing()), reason=f"no fleet of sshd here: {', '.join(missing())} missing"),
    pytest.mark.usefixtures("registered_webhook"),
]
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


def environment(container: dict[str, Any]) -> dict[str, str]:
    """What the kubelet makes of a container's env: of two with one name the last counts."""
    return {item["name"]: item.get("value", "") for item in container.get("env", ())}


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
            done = fleet.run(container["command"], environment(container))
            assert not done.returncode, done.stderr
        assert "Using 4-node config" in done.stdout
        main = pod["spec"]["containers"][0]
        env = environment(main) | {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
        ranks = show(fleet, ["mpirun"], env)
    assert [rank["NEURON_GLOBAL_TOPOID"] for rank in ranks] == ["0", "1", "2", "3"]
    assert [rank["HOST"] for rank in ranks] == [f"demo-worker-{nodes.index(place)}" for place in range(4)]


def test_a_worker_that_never_comes_is_named_by_the_container_that_waits(namespace: Kubectl) -> None:
    job = mpijob(2, name="short")
    pod = launcher(namespace, job)
    wait = pod["spec"]["initContainers"][0]
    with Fleet(2, job="short", namespace=str(namespace.namespace), late={1}) as fleet:
        done = fleet.run(wait["command"], environment(wait) | {"ULTRASERVER_WAIT_SECONDS": "3"})
    assert done.returncode == 1
    assert "short-worker-1" in done.stderr
    assert f"kubectl describe pod -n {namespace.namespace}" in done.stderr


@pytest.mark.parametrize("implementation", list(VARIABLES))
def test_every_mpi_takes_the_new_hostfile_although_the_operator_names_its_own(
    namespace: Kubectl, implementation: str
) -> None:
    job = mpijob(2, name="which-mpi")
    job["spec"]["mpiImplementation"] = implementation
    main = launcher(namespace, job)["spec"]["containers"][0]
    assert environment(main)[VARIABLES[implementation]] == HOSTFILE
    assert {"name": "ultraserver-init", "mountPath": "/root/ultraserver_init"} in main["volumeMounts"]


def test_a_launcher_of_a_job_that_is_opted_out_keeps_the_operators_hostfile(namespace: Kubectl) -> None:
    job = mpijob(2, name="left-alone", annotations={"ultraserver-webhook.io/inject": "false"})
    main = launcher(namespace, copy.deepcopy(job))["spec"]["containers"][0]
    assert environment(main)[VARIABLES["OpenMPI"]] == "/etc/mpi/hostfile"


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


def test_init_containers_of_an_image_without_root_run_as_its_user(namespace: Kubectl) -> None:
    job = mpijob(2, name="no-root")
    job["spec"]["sshAuthMountPath"] = "/home/mpiuser/.ssh"
    roles = job["spec"]["mpiReplicaSpecs"]
    roles["Launcher"]["template"]["spec"]["containers"][0]["securityContext"] = {"runAsUser": 1000}
    for container in launcher(namespace, job)["spec"]["initContainers"]:
        mounts = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
        assert container["securityContext"] == {"runAsUser": 1000}
        assert mounts["ssh-auth"] == "/home/mpiuser/.ssh"
        assert mounts.get("ultraserver-init", "/home/mpiuser/ultraserver_init").startswith("/home/mpiuser/")


def test_a_launcher_that_runs_ranks_is_placed_like_a_worker(namespace: Kubectl) -> None:
    job = mpijob(3, name="ranks")
    job["spec"]["runLauncherAsWorker"] = True
    stored = namespace.create(job)["spec"]["mpiReplicaSpecs"]
    selectors = [stored[role]["template"]["spec"]["nodeSelector"] for role in ("Launcher", "Worker")]
    assert selectors[0] == selectors[1]
    config = [
        environment(container)["NEURON_ULTRASERVER_NODE_CONFIG"]
        for container in stored["Launcher"]["template"]["spec"]["initContainers"]
        if container["name"] == "ultraserver-init-container"
    ]
    assert config == ["4"]  # three workers and the launcher
