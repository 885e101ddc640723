"""Jobs, JobSets, LeaderWorkerSets, PyTorchJobs and TrainJobs by their real definitions and controllers."""

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
from tests.helpers import requested
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


def create(namespace: Kubectl, made: Object) -> None:
    """Creates it, and compares the templates that the API server then has with those that the engine says."""
    result, table = namespace.create(made), load_default()
    wanted = evaluate(table, requested(made, namespace=str(namespace.namespace))).after
    rows = table.workloads_of(kind_of(made))
    paths = {group.path for row in rows for group in find_groups(table, row, made)}
    # A TrainJob's templates are those of the JobSet that its controller makes.
    assert bool(paths) is (made["kind"] != "TrainJob")
    for path in paths:
        for part in (("metadata", "labels", keys.JOB), ("spec", "affinity"), ("spec", "nodeSelector")):
            assert get(result, (*path, *part)) == get(wanted, (*path, *part)) != get(made, (*path, *part))


def used(pods: list[Object], servers: dict[str, str]) -> set[str]:
    """Returns the UltraServers that these Pods are on."""
    return {servers[pod["spec"]["nodeName"]] for pod in pods}


def are_in_blocks(
    pods: list[Object], servers: dict[str, str], number: Callable[[Object], int], group: str = ""
) -> None:
    """Checks that every four Pods by number are a block by label, on an UltraServer of their own."""
    assert sorted(map(number, pods)) == list(range(len(pods)))
    blocks: dict[str, list[Object]] = {}
    for pod in pods:
        label = pod["metadata"]["labels"][keys.BLOCK]
        assert label == f"{group}{number(pod) // 4}"
        blocks.setdefault(label, []).append(pod)
    on = [used(block, servers) for block in blocks.values()]
    assert [len(each) for each in on] == [1] * (len(pods) // 4)
    assert len(set.union(*on)) == len(on)


def is_verified(namespace: Kubectl) -> None:
    """Checks that the plugin, which reads the place, finds the job placed whole."""
    eventually(namespace, ["verify", "train"], lambda obj: obj["whole"])


def label(pod: Object, key: str) -> int:
    return int(pod["metadata"]["labels"][key])


def test_a_job_is_on_one_ultraserver(namespace: Kubectl, servers: dict[str, str]) -> None:
    for name in ("first", "second"):
        namespace.create(job(4, name))
    on = [used(wait_count(namespace, 4, "-l", f"job-name={name}"), servers) for name in ("first", "second")]
    assert [len(each) for each in on] == [1, 1]
    assert on[0] != on[1]


def test_a_job_that_another_job_made_or_that_needs_no_ultraserver_is_left_alone(namespace: Kubectl) -> None:
    owned, version = job(1), "jobset.x-k8s.io/v1alpha2"
    owner = {"apiVersion": version, "kind": "JobSet", "name": "x", "uid": "1", "controller": True}
    owned["metadata"]["ownerReferences"] = [owner]
    plain = job(1, template=template(restartPolicy="Never", containers=[{**CONTAINER, "resources": {}}]))
    for made in (owned, plain):
        spec = namespace.create(made, "--dry-run=server")["spec"]["template"]
        assert keys.JOB not in spec["metadata"]["labels"]
        assert "affinity" not in spec["spec"]


def test_a_job_of_another_controller_is_placed_by_its_parallelism(
    namespace: Kubectl,
) -> None:
    """The registration sends it, and the guard computes the same number as the webhook."""
    owned = job(8, completions=4)
    owner = {
        "apiVersion": "keda.sh/v1alpha1",
        "kind": "ScaledJob",
        "name": "x",
        "uid": "1",
        "controller": True,
    }
    owned["metadata"]["ownerReferences"] = [owner]
    spec = namespace.create(owned, "--dry-run=server")["spec"]["template"]
    assert spec["metadata"]["annotations"][keys.PLACE].startswith("placer=affinity workers=4 size=4 ")


def test_a_job_in_a_native_gang_passes_the_guard(namespace: Kubectl) -> None:
    """The API server drops the field where the feature is off, so the webhook is asked about it before."""
    gang = job(4, template=template(restartPolicy="Never", schedulingGroup={"podGroupName": "mine"}))
    spec = namespace.create(gang, "--dry-run=server", "--validate=false")["spec"]["template"]
    assert spec["metadata"]["annotations"][keys.PLACE].startswith("placer=")


@pytest.mark.parametrize(
    "claim",
    [
        {"metadata": {"annotations": {keys.PLACE: "placer=gate workers=24 size=4 unit=rack"}}},
        {"spec": {"schedulingGates": [{"name": keys.GATE}]}},
    ],
)
def test_a_job_without_ultraservers_loses_its_placement_annotation(claim: Object, namespace: Kubectl) -> None:
    plain = template(restartPolicy="Never", containers=[{**CONTAINER, "resources": {}}])
    claiming = job(1, template={**plain, **claim, "spec": plain["spec"] | claim.get("spec", {})})
    spec = namespace.create(claiming, "--dry-run=server")["spec"]["template"]
    assert record.find_marks(spec) == {}


def test_every_group_of_a_leaderworkerset_has_an_ultraserver(
    namespace: Kubectl, servers: dict[str, str]
) -> None:
    create(namespace, leaderworkerset(2, 4))
    pods = wait_count(namespace, 8)
    groups = [[pod for pod in pods if label(pod, f"{LWS}group-index") == group] for group in (0, 1)]
    on = [used(group, servers) for group in groups]
    assert [(len(group), len(each)) for group, each in zip(groups, on, strict=True)] == [(4, 1), (4, 1)]
    assert on[0] != on[1]


def test_groups_of_two_ultraservers_are_in_blocks(namespace: Kubectl, servers: dict[str, str]) -> None:
    create(namespace, leaderworkerset(2, 8))
    pods = wait_count(namespace, 16)
    groups: dict[int, list[Object]] = {}
    for pod in pods:
        groups.setdefault(label(pod, f"{LWS}group-index"), []).append(pod)
    for number, members in groups.items():
        are_in_blocks(members, servers, lambda pod: label(pod, f"{LWS}worker-index"), f"{number}-")
    taken = [used(value, servers) for value in groups.values()]
    assert len(set.union(*taken)) == sum(map(len, taken))
    is_verified(namespace)


@pytest.mark.usefixtures("runtime")
@pytest.mark.parametrize("made", [jobset(2, 2), pytorchjob(3), trainjob(4)], ids=kind_of)
def test_all_pods_of_a_job_of_four_are_on_one_ultraserver(
    made: Object, namespace: Kubectl, servers: dict[str, str]
) -> None:
    create(namespace, made)
    assert len(used(wait_count(namespace, 4), servers)) == 1


def completion(pod: Object) -> int:
    return label(pod, INDEX)


def of_jobset(pod: Object) -> int:
    """Returns by the Job in a JobSet of two Pods each, and in that."""
    return label(pod, f"{JOBSET}job-index") * 2 + completion(pod)


def worker(pod: Object) -> int:
    return label(pod, f"{TRAINING}replica-index")


def behind_a_master(pod: Object) -> int:
    """Returns the rank where the first is the master's."""
    return worker(pod) + (pod["metadata"]["labels"][f"{TRAINING}replica-type"] == "worker")


@pytest.mark.usefixtures("runtime")
@pytest.mark.parametrize(
    ("made", "number"),
    [
        (job(8, completionMode="Indexed"), completion),
        (jobset(4, 2), of_jobset),
        (pytorchjob(8, 0), worker),
        (pytorchjob(7), behind_a_master),
        (trainjob(8), completion),
    ],
    ids=["Job", "JobSet", "PyTorchJob", "PyTorchJob with a master", "TrainJob"],
)
def test_the_pods_of_a_job_of_eight_are_in_blocks(
    made: Object, number: Callable[[Object], int], namespace: Kubectl, servers: dict[str, str]
) -> None:
    create(namespace, made)
    are_in_blocks(wait_count(namespace, 8), servers, number)
    is_verified(namespace)


def test_the_examples_of_kinds_are_changed(namespace: Kubectl) -> None:
    assert_changed(namespace, "job", "jobset", "leaderworkerset", "pytorchjob", "mpijob-v1")


def test_the_kind_of_the_guide_has_its_pods_on_one_ultraserver(
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
            on = wait_bound(inside, [f"server-{index}" for index in range(4)])
            assert len(set(on.values())) == 4
            assert len({servers[node] for node in on.values()}) == 1
        finally:
            # Before its Pods, or it would make them again.
            inside.delete("statefulsets")
