"""Tests of Jobs, JobSets, LeaderWorkerSets, PyTorchJobs and TrainJobs with their real controllers."""

from collections.abc import Callable

import pytest
import yaml

from contract import keys
from testbed import chart
from testbed.plane.controlplane import ControlPlane
from testbed.plane.jobs import second_webhook
from testbed.plane.kubectl import Kubectl, Object
from testbed.plane.plugin import eventually
from tests.docs.blocks import blocks_of
from tests.helpers import request_for
from tests.plane.bound import wait_bound, wait_count
from tests.plane.examples import assert_changed
from tests.plane.kinds.jobs import CONTAINER, job, jobset, leaderworkerset, pytorchjob, template, trainjob
from tests.plane.manifests.objects import webhooks
from webhook.engine import evaluate
from webhook.engine.reading import find_groups, kind_of
from webhook.objects import record
from webhook.objects.tree import get
from webhook.rules.load import load_default

INDEX = "batch.kubernetes.io/job-completion-index"
JOBSET, LWS = "jobset.sigs.k8s.io/", "leaderworkerset.sigs.k8s.io/"
TRAINING = "training.kubeflow.org/"


def create(namespace: Kubectl, job: Object) -> None:
    """Creates a job, and asserts that the stored pod templates have the changes that the engine computes."""
    stored, table = namespace.create(job), load_default()
    expected = evaluate(table, request_for(job, namespace=str(namespace.namespace))).after
    rows = table.workloads_of(kind_of(job))
    paths = {group.path for row in rows for group in find_groups(table, row, job)}
    # A TrainJob has no pod templates: they are in the JobSet that its controller creates.
    assert bool(paths) is (job["kind"] != "TrainJob")
    for path in paths:
        for field in (("metadata", "labels", keys.JOB), ("spec", "affinity"), ("spec", "nodeSelector")):
            full_path = (*path, *field)
            assert get(stored, full_path) == get(expected, full_path) != get(job, full_path)


def servers_of(pods: list[Object], servers: dict[str, str]) -> set[str]:
    """Returns the UltraServers on which Pods run."""
    return {servers[pod["spec"]["nodeName"]] for pod in pods}


def assert_in_blocks(
    pods: list[Object], servers: dict[str, str], number: Callable[[Object], int], group: str = ""
) -> None:
    """Asserts that each four Pods in the order of numbers are a block with its own label and UltraServer."""
    assert sorted(map(number, pods)) == list(range(len(pods)))
    blocks: dict[str, list[Object]] = {}
    for pod in pods:
        label = pod["metadata"]["labels"][keys.BLOCK]
        assert label == f"{group}{number(pod) // 4}"
        blocks.setdefault(label, []).append(pod)
    servers_by_block = [servers_of(block, servers) for block in blocks.values()]
    assert [len(block_servers) for block_servers in servers_by_block] == [1] * (len(pods) // 4)
    assert len(set.union(*servers_by_block)) == len(servers_by_block)


def wait_until_verified(namespace: Kubectl) -> None:
    """Waits until the plugin finds the job placed whole; it reads the placement annotations of the Pods."""
    eventually(namespace, ["verify", "train"], lambda obj: obj["whole"])


def number_in_label(pod: Object, key: str) -> int:
    return int(pod["metadata"]["labels"][key])


def test_a_job_is_on_one_ultraserver(namespace: Kubectl, servers: dict[str, str]) -> None:
    for name in ("first", "second"):
        namespace.create(job(4, name))
    servers_by_job = [
        servers_of(wait_count(namespace, 4, "-l", f"job-name={name}"), servers)
        for name in ("first", "second")
    ]
    assert [len(job_servers) for job_servers in servers_by_job] == [1, 1]
    assert servers_by_job[0] != servers_by_job[1]


def test_a_job_of_a_jobset_and_a_job_without_devices_are_not_changed(namespace: Kubectl) -> None:
    owned_job, version = job(1), "jobset.x-k8s.io/v1alpha2"
    owner = {"apiVersion": version, "kind": "JobSet", "name": "x", "uid": "1", "controller": True}
    owned_job["metadata"]["ownerReferences"] = [owner]
    job_without_devices = job(
        1, template=template(restartPolicy="Never", containers=[{**CONTAINER, "resources": {}}])
    )
    for unplaced_job in (owned_job, job_without_devices):
        pod_template = namespace.create(unplaced_job, "--dry-run=server")["spec"]["template"]
        assert keys.JOB not in pod_template["metadata"]["labels"]
        assert "affinity" not in pod_template["spec"]


def test_a_job_of_another_controller_is_placed_by_the_number_of_pods_that_it_can_need(
    namespace: Kubectl,
) -> None:
    """The job has four completions, so webhook and guard compute four workers. Its parallelism is eight."""
    owned_job = job(8, completions=4)
    owner = {
        "apiVersion": "keda.sh/v1alpha1",
        "kind": "ScaledJob",
        "name": "x",
        "uid": "1",
        "controller": True,
    }
    owned_job["metadata"]["ownerReferences"] = [owner]
    pod_template = namespace.create(owned_job, "--dry-run=server")["spec"]["template"]
    assert pod_template["metadata"]["annotations"][keys.PLACEMENT].startswith(
        "placer=affinity workers=4 size=4 "
    )


def test_the_guard_permits_a_job_with_gang_scheduling_of_kubernetes(namespace: Kubectl) -> None:
    """If the feature is off, the API server removes the field only after it has called the webhook."""
    gang = job(4, template=template(restartPolicy="Never", schedulingGroup={"podGroupName": "mine"}))
    pod_template = namespace.create(gang, "--dry-run=server", "--validate=false")["spec"]["template"]
    assert pod_template["metadata"]["annotations"][keys.PLACEMENT].startswith("placer=")


@pytest.mark.parametrize(
    "forgery",
    [
        {"metadata": {"annotations": {keys.PLACEMENT: "placer=gate workers=24 size=4 unit=rack"}}},
        {"spec": {"schedulingGates": [{"name": keys.GATE}]}},
    ],
)
def test_a_job_without_devices_loses_its_placement_annotation_and_its_gate(
    forgery: Object, namespace: Kubectl
) -> None:
    without_devices = template(restartPolicy="Never", containers=[{**CONTAINER, "resources": {}}])
    spec = without_devices["spec"] | forgery.get("spec", {})
    forged_job = job(1, template={**without_devices, **forgery, "spec": spec})
    pod_template = namespace.create(forged_job, "--dry-run=server")["spec"]["template"]
    assert record.find_marks(pod_template) == {}


def test_each_group_of_a_leaderworkerset_has_its_own_ultraserver(
    namespace: Kubectl, servers: dict[str, str]
) -> None:
    create(namespace, leaderworkerset(2, 4))
    pods = wait_count(namespace, 8)
    groups = [[pod for pod in pods if number_in_label(pod, f"{LWS}group-index") == group] for group in (0, 1)]
    servers_by_group = [servers_of(group, servers) for group in groups]
    assert [len(group) for group in groups] == [4, 4]
    assert [len(group_servers) for group_servers in servers_by_group] == [1, 1]
    assert servers_by_group[0] != servers_by_group[1]


def test_groups_on_two_ultraservers_are_placed_in_blocks(namespace: Kubectl, servers: dict[str, str]) -> None:
    create(namespace, leaderworkerset(2, 8))
    pods = wait_count(namespace, 16)
    groups: dict[int, list[Object]] = {}
    for pod in pods:
        groups.setdefault(number_in_label(pod, f"{LWS}group-index"), []).append(pod)
    for number, members in groups.items():
        assert_in_blocks(
            members, servers, lambda pod: number_in_label(pod, f"{LWS}worker-index"), f"{number}-"
        )
    servers_by_group = [servers_of(group, servers) for group in groups.values()]
    assert len(set.union(*servers_by_group)) == sum(map(len, servers_by_group))
    wait_until_verified(namespace)


@pytest.mark.usefixtures("runtime")
@pytest.mark.parametrize("job_of_four", [jobset(2, 2), pytorchjob(3), trainjob(4)], ids=kind_of)
def test_all_pods_of_a_job_of_four_are_on_one_ultraserver(
    job_of_four: Object, namespace: Kubectl, servers: dict[str, str]
) -> None:
    create(namespace, job_of_four)
    assert len(servers_of(wait_count(namespace, 4), servers)) == 1


def completion_index(pod: Object) -> int:
    return number_in_label(pod, INDEX)


def number_in_jobset(pod: Object) -> int:
    """Returns the number of a Pod in a JobSet whose Jobs have two Pods each."""
    return number_in_label(pod, f"{JOBSET}job-index") * 2 + completion_index(pod)


def replica_index(pod: Object) -> int:
    return number_in_label(pod, f"{TRAINING}replica-index")


def rank_after_master(pod: Object) -> int:
    """Returns the rank of a Pod in a PyTorchJob whose master has rank 0."""
    return replica_index(pod) + (pod["metadata"]["labels"][f"{TRAINING}replica-type"] == "worker")


@pytest.mark.usefixtures("runtime")
@pytest.mark.parametrize(
    ("job_of_eight", "number"),
    [
        (job(8, completionMode="Indexed"), completion_index),
        (jobset(4, 2), number_in_jobset),
        (pytorchjob(8, 0), replica_index),
        (pytorchjob(7), rank_after_master),
        (trainjob(8), completion_index),
    ],
    ids=["Job", "JobSet", "PyTorchJob", "PyTorchJob with a master", "TrainJob"],
)
def test_the_pods_of_a_job_of_eight_are_placed_in_blocks(
    job_of_eight: Object, number: Callable[[Object], int], namespace: Kubectl, servers: dict[str, str]
) -> None:
    create(namespace, job_of_eight)
    assert_in_blocks(wait_count(namespace, 8), servers, number)
    wait_until_verified(namespace)


def test_the_webhook_changes_the_examples_of_each_kind(namespace: Kubectl) -> None:
    assert_changed(namespace, "job", "jobset", "leaderworkerset", "pytorchjob", "mpijob-v1")


def test_the_pods_of_the_kind_in_the_guide_are_on_one_ultraserver(
    plane: ControlPlane, servers: dict[str, str]
) -> None:
    yamls = [block for block in blocks_of("docs/kinds.md") if block.language == "yaml"]
    texts = {block.file or "values": block.text for block in yamls}
    assert set(texts) == {
        "statefulset.yaml",
        "values",
        "server.yaml",
        "waits.yaml",
        "leader.yaml",
        "train.yaml",
    }
    assert texts["statefulset.yaml"].partition("workloads:\n")[2].count("\n") <= 10
    values, server = (yaml.safe_load(texts[name]) for name in ("values", "server.yaml"))
    hooks = webhooks(chart.objects(values))
    registered = hooks["kinds.ultraserver-webhook.io"]["rules"]
    assert not {"kinds-jobs.ultraserver-webhook.io", "kinds-updates.ultraserver-webhook.io"} & set(hooks)
    with second_webhook(plane, "guide", texts["statefulset.yaml"], registered, server) as inside:
        inside.create(server)
        try:
            node_of = wait_bound(inside, [f"server-{index}" for index in range(4)])
            assert len(set(node_of.values())) == 4
            assert len({servers[node] for node in node_of.values()}) == 1
        finally:
            # The StatefulSet is deleted before its Pods, because its controller would create them again.
            inside.delete("statefulsets")
