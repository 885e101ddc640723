"""Jobs of images that are not as the README's: without root, MPICH, and the host file of Intel MPI."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.nodes.product.job import INIT, LATE, PROGRAM, SSHD, Job, mpijob

if TYPE_CHECKING:
    from testbed.nodes.plugin import NeuronPlugin

pytestmark = pytest.mark.soak


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


@pytest.mark.parametrize(
    ("implementation", "variable"), [("MPICH", "HYDRA_HOST_FILE"), ("Intel", "I_MPI_HYDRA_HOST_FILE")]
)
def test_hydra_runs_a_job_in_the_order_of_the_new_host_file(
    implementation: str, variable: str, job: Job, mended: dict[str, NeuronPlugin]
) -> None:
    """Intel MPI is not in Debian; its launcher is a Hydra too, and reads hosts in the same format.

    So MPICH's stands in for it: it is given the file that the variable of Intel MPI names, and not its own.
    That Intel's reads this variable is not seen here.
    """
    others = {"HYDRA_HOST_FILE", "I_MPI_HYDRA_HOST_FILE"} - {variable}
    without = " ".join(f"-u {name}" for name in others)
    runs = f'env {without} HYDRA_HOST_FILE="${variable}" mpiexec.hydra -n 4 {PROGRAM}'
    launcher = ["sh", "-c", runs]
    job.kubectl.create(mpijob(launcher=launcher, worker=LATE, mpiImplementation=implementation))
    # The scheduler chooses who is where; the topology is the other way round than the operator's host file.
    for number, (_, node) in enumerate(sorted(job.placed().items())):
        mended[node].say(node_id_4=str(3 - number))
    job.touch(SSHD)
    job.computes(mended)
    order = [f"demo-worker-{number}" for number in (3, 2, 1, 0)]
    assert [rank["host"] for rank in job.ranks()] == order
    hosts = [f"{name}.demo.{job.kubectl.namespace}.svc:1" for name in order]
    assert job.log(INIT).splitlines()[-4:] == hosts
