"""Tests of training-operator's MPIJob with its real definition and operator."""

from testbed.plane.jobs import template
from testbed.plane.kubectl import Kubectl
from tests.helpers import request_for
from tests.plane.bound import wait_bound
from tests.plane.kinds.jobs import mpijob_v1
from webhook.engine import evaluate
from webhook.rules.load import load_default

ROLE = "training.kubeflow.org/replica-type"


def test_the_definition_keeps_all_fields_that_the_webhook_adds(namespace: Kubectl) -> None:
    stored = namespace.create(mpijob_v1(4))
    expected = evaluate(load_default(), request_for(mpijob_v1(4), namespace=str(namespace.namespace))).after
    for role in ("Launcher", "Worker"):
        assert template(stored, role) == template(expected, role)


def nodes_of_workers(namespace: Kubectl, name: str, count: int) -> dict[str, str]:
    """Waits until the workers of a job are bound, and returns their nodes by name."""
    return wait_bound(namespace, [f"{name}-worker-{index}" for index in range(count)])


def test_each_of_two_jobs_has_its_own_ultraserver(namespace: Kubectl, servers: dict[str, str]) -> None:
    servers_by_job = []
    for name in ("first", "second"):
        namespace.create(mpijob_v1(4, name))
        servers_by_job.append({servers[node] for node in nodes_of_workers(namespace, name, 4).values()})
    assert [len(job_servers) for job_servers in servers_by_job] == [1, 1]
    assert servers_by_job[0] != servers_by_job[1]


def test_a_job_on_two_ultraservers_is_placed_in_blocks(namespace: Kubectl, servers: dict[str, str]) -> None:
    namespace.create(mpijob_v1(8))
    node_of = nodes_of_workers(namespace, "train", 8)
    servers_by_block = [
        {servers[node_of[f"train-worker-{index}"]] for index in block} for block in (range(4), range(4, 8))
    ]
    assert [len(block_servers) for block_servers in servers_by_block] == [1, 1]
    assert servers_by_block[0] != servers_by_block[1]


def test_the_launcher_waits_before_the_operators_own_init_container(namespace: Kubectl) -> None:
    namespace.create(mpijob_v1(4))
    nodes_of_workers(namespace, "train", 4)
    launcher = namespace.wait_for(lambda obj: obj["items"], "pods", "-l", f"{ROLE}=launcher")["items"][0]
    names = [item["name"] for item in launcher["spec"]["initContainers"]]
    assert names == ["wait-hostfilename", "kubectl-delivery"]
    mounts = {
        item["mountPath"]: item["name"] for item in launcher["spec"]["initContainers"][0]["volumeMounts"]
    }
    assert mounts["/etc/mpi"] in {item["name"] for item in launcher["spec"]["volumes"]}
