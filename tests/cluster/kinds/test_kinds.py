"""Jobs, JobSets, LeaderWorkerSets and PyTorchJobs by real definitions, Jobs also by their real controller."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.cluster.jobs import text, together
from tests.cluster.kinds import operators
from tests.helpers import requested
from webhook.engine import evaluate, keys
from webhook.engine.evaluate import kind_of
from webhook.engine.jobs import template_paths
from webhook.engine.tree import get
from webhook.rules.load import load_default

if TYPE_CHECKING:
    from tests.cluster.kubectl import Kubectl, Object

CONTAINER = {
    "name": "x",
    "image": "example.invalid/train",
    "resources": {"limits": {"aws.amazon.com/neuron": 16}},
}


def template(**more: Any) -> Object:
    return {"spec": {"containers": [CONTAINER], **more}}


def named(kind: str, spec: Object, name: str = "train") -> Object:
    version, _, kind = kind.rpartition("/")
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name}, "spec": spec}


def stored(namespace: Kubectl, job: Object) -> Object:
    """Creates it, and compares the templates that the API server then has with those that the engine says."""
    found = namespace.create(job)
    table = load_default()
    wanted = evaluate(table, requested(job, namespace=str(namespace.namespace))).after
    (workload,) = table.workloads_of(kind_of(job))
    paths = [path for _, path in template_paths(workload, job)]
    assert paths
    for path in paths:
        assert get(found, path) == get(wanted, path) != get(job, path)
    return found


def test_a_job_is_on_one_ultraserver(namespace: Kubectl, servers: dict[str, str]) -> None:
    for name in ("first", "second"):
        spec = {"parallelism": 4, "completions": 4, "template": template(restartPolicy="Never")}
        namespace.create(named("batch/v1/Job", spec, name))
    used = [
        {servers[node] for node in operators.wait_count(namespace, 4, "-l", f"job-name={name}")}
        for name in ("first", "second")
    ]
    assert [len(each) for each in used] == [1, 1]
    assert used[0] != used[1]


def test_a_job_that_another_job_made_or_that_needs_no_ultraserver_is_left_alone(namespace: Kubectl) -> None:
    spec = {"template": template(restartPolicy="Never")}
    owned = named("batch/v1/Job", spec)
    owned["metadata"]["ownerReferences"] = [
        {
            "apiVersion": "jobset.x-k8s.io/v1alpha2",
            "kind": "JobSet",
            "name": "x",
            "uid": "1",
            "controller": True,
        }
    ]
    plain = named(
        "batch/v1/Job",
        {"template": template(restartPolicy="Never", containers=[{**CONTAINER, "resources": {}}])},
    )
    for job in (owned, plain):
        found = namespace.create(job, "--dry-run=server")["spec"]["template"]
        assert keys.JOB not in found["metadata"]["labels"]
        assert "affinity" not in found["spec"]


def test_the_jobs_of_a_jobset_are_on_one_ultraserver(namespace: Kubectl, servers: dict[str, str]) -> None:
    pods = {"parallelism": 2, "completions": 2, "template": template(restartPolicy="Never")}
    jobs = [{"name": "workers", "replicas": 2, "template": {"spec": pods}}]
    found = stored(namespace, named("jobset.x-k8s.io/v1alpha2/JobSet", {"replicatedJobs": jobs}))
    namespace.run("create", "-f", "-", stdin=text(together(*operators.jobs_of_jobset(found))))
    assert len({servers[node] for node in operators.wait_count(namespace, 4)}) == 1


def test_every_group_of_a_leaderworkerset_has_an_ultraserver(
    namespace: Kubectl, servers: dict[str, str]
) -> None:
    spec = {"size": 4, "leaderTemplate": template(), "workerTemplate": template()}
    kind = "leaderworkerset.x-k8s.io/v1/LeaderWorkerSet"
    found = stored(namespace, named(kind, {"replicas": 2, "leaderWorkerTemplate": spec}))
    on = operators.bound(namespace, operators.of_leaderworkerset(found))
    groups = [{servers[on[f"train-{group}-{index}"]] for index in range(4)} for group in (0, 1)]
    assert [len(each) for each in groups] == [1, 1]
    assert groups[0] != groups[1]


def test_master_and_workers_of_a_pytorchjob_are_on_one_ultraserver(
    namespace: Kubectl, servers: dict[str, str]
) -> None:
    roles = {"Master": {"template": template()}, "Worker": {"replicas": 3, "template": template()}}
    for each in roles.values():
        each["template"]["spec"]["containers"] = [{**CONTAINER, "name": "pytorch"}]
    found = stored(namespace, named("kubeflow.org/v1/PyTorchJob", {"pytorchReplicaSpecs": roles}))
    on = operators.bound(namespace, operators.of_pytorchjob(found))
    assert len(on) == 4
    assert len({servers[node] for node in on.values()}) == 1
