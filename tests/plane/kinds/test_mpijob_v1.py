"""training-operator's MPIJob, by its real definition and the real operator."""

from testbed.plane.jobs import template
from testbed.plane.kubectl import Kubectl
from tests.helpers import requested
from tests.plane.bound import wait_bound
from tests.plane.kinds.jobs import mpijob_v1
from webhook.engine import evaluate
from webhook.rules.load import load_default

ROLE = "training.kubeflow.org/replica-type"


def test_the_definition_keeps_everything_that_is_added(namespace: Kubectl) -> None:
    stored = namespace.create(mpijob_v1(4))
    wanted = evaluate(load_default(), requested(mpijob_v1(4), namespace=str(namespace.namespace))).after
    for role in ("Launcher", "Worker"):
        assert template(stored, role) == template(wanted, role)


def workers(namespace: Kubectl, name: str, count: int) -> dict[str, str]:
    """Waits until the workers of a job are bound, and says on which nodes they are."""
    return wait_bound(namespace, [f"{name}-worker-{index}" for index in range(count)])


def test_two_jobs_are_on_an_ultraserver_each(namespace: Kubectl, servers: dict[str, str]) -> None:
    used = []
    for name in ("first", "second"):
        namespace.create(mpijob_v1(4, name))
        used.append({servers[node] for node in workers(namespace, name, 4).values()})
    assert [len(each) for each in used] == [1, 1]
    assert used[0] != used[1]


def test_a_job_of_two_ultraservers_is_in_blocks(namespace: Kubectl, servers: dict[str, str]) -> None:
    namespace.create(mpijob_v1(8))
    result = workers(namespace, "train", 8)
    by_block = [
        {servers[result[f"train-worker-{index}"]] for index in block} for block in (range(4), range(4, 8))
    ]
    assert [len(each) for each in by_block] == [1, 1]
    assert by_block[0] != by_block[1]


def test_the_launcher_waits_before_the_operators_own_init_container(namespace: Kubectl) -> None:
    namespace.create(mpijob_v1(4))
    workers(namespace, "train", 4)
    launcher = namespace.wait_for(lambda obj: obj["items"], "pods", "-l", f"{ROLE}=launcher")["items"][0]
    names = [item["name"] for item in launcher["spec"]["initContainers"]]
    assert names == ["wait-hostfilename", "kubectl-delivery"]
    mounts = {
        item["mountPath"]: item["name"] for item in launcher["spec"]["initContainers"][0]["volumeMounts"]
    }
    assert mounts["/etc/mpi"] in {item["name"] for item in launcher["spec"]["volumes"]}
