"""Tests of workload rows: how tables read jobs of each kind, and which workload rows are refused."""

import json
from pathlib import Path
from typing import Any

import pytest

from testbed.mpijob import mpijob
from tests.engine import hostile
from tests.helpers import load_text
from tests.plane.kinds.jobs import job, jobset, leaderworkerset, named, pytorchjob, template
from tests.rules.tables import EXTENDS, Expected, assert_problems, outcome
from tests.t9k import t9k_mpijob
from webhook.objects.tree import drop, get
from webhook.rows import messages as row_messages
from webhook.rows.table import Table
from webhook.rules import messages
from webhook.rules.load import load_installed

KINDS = Path(__file__).parent.parent / "data" / "workloads" / "kinds.yaml"
JOB_LABEL = "ultraserver-webhook.io/job"
PYTORCH_WORKER = ("spec", "pytorchReplicaSpecs", "Worker")


@pytest.fixture(scope="module")
def kinds() -> Table:
    return load_installed(KINDS, placement=False)


JOBSET: Any = jobset(2, 4)
JOBSET["spec"]["replicatedJobs"].insert(0, {"name": "launcher", "template": {"spec": {"template": {}}}})
CRON_OWNER = {"ownerReferences": [{"kind": "CronJob", "controller": True}]}
JOBS_OF_KINDS: dict[str, tuple[dict[str, Any], str, int]] = {
    "T9k's MPIJob with spec.worker": (t9k_mpijob("worker", 8), "t9k-mpijob", 8),
    "T9k's MPIJob with replicaSpecs and an empty launcher template": (
        t9k_mpijob("replicaSpecs"),
        "t9k-mpijob-replicas",
        4,
    ),
    "a PyTorchJob, whose master takes a node as well": (pytorchjob(3), "pytorchjob", 4),
    "a PyTorchJob of a master alone": (drop(pytorchjob(3), PYTORCH_WORKER), "pytorchjob", 1),
    "a Job": (job(4), "job", 4),
    "a Job of a CronJob": (job(2) | {"metadata": {"name": "train", **CRON_OWNER}}, "job", 2),
    "a Job without parallelism": (named("batch/v1/Job", {"template": template()}), "job", 1),
    "a JobSet with several Jobs of several Pods": (JOBSET, "jobset", 8),
    "a LeaderWorkerSet, of which the workers of one group count": (
        leaderworkerset(3, 4),
        "leaderworkerset",
        4,
    ),
    "a bare Pod": ({**named("v1/Pod", {}), **template()}, "bare-pod", 1),
}


@pytest.mark.parametrize("case", JOBS_OF_KINDS)
def test_a_job_of_each_kind_is_placed_and_has_its_number_of_nodes(kinds: Table, case: str) -> None:
    obj, workload, nodes = JOBS_OF_KINDS[case]
    result = outcome(kinds, obj)
    assert result.facts["workload"] == workload
    assert result.facts["nodes"] == str(nodes)
    assert "ultraserver-nodes" in result.fired()
    assert "job-label" in result.fired()
    assert outcome(kinds, result.after).operations == ()


def test_every_group_that_takes_nodes_gets_the_job_label_and_affinity(kinds: Table) -> None:
    obj, _, _ = JOBS_OF_KINDS["a PyTorchJob, whose master takes a node as well"]
    specs = outcome(kinds, obj).after["spec"]["pytorchReplicaSpecs"]
    for role in ("Master", "Worker"):
        assert (
            specs[role]["template"]["metadata"]["labels"][JOB_LABEL]
            == "default.train_PyTorchJob.kubeflow.org"
        )
        affinity = specs[role]["template"]["spec"]["affinity"]["podAffinity"]
        (term,) = affinity["requiredDuringSchedulingIgnoredDuringExecution"]
        assert term["labelSelector"] == {"matchLabels": {JOB_LABEL: "default.train_PyTorchJob.kubeflow.org"}}


def test_the_patch_changes_only_the_list_element_that_takes_nodes(kinds: Table) -> None:
    obj, _, _ = JOBS_OF_KINDS["a JobSet with several Jobs of several Pods"]
    result = outcome(kinds, obj)
    assert all(
        op["path"].startswith("/spec/replicatedJobs/1/template/spec/template") for op in result.operations
    )


def test_workloads_of_one_kind_are_distinguished_by_when(kinds: Table) -> None:
    assert outcome(kinds, hostile.launcher_pod({})).facts["workload"] == "pod"
    bare, _, _ = JOBS_OF_KINDS["a bare Pod"]
    assert outcome(kinds, bare).facts["workload"] == "bare-pod"
    owned = {**bare, "metadata": {"ownerReferences": [{"kind": "Job", "controller": True}]}}
    result = outcome(kinds, owned)
    assert result.facts["workload"] == "pod"


RESEARCH = {"kueue.x-k8s.io/queue-name": "research-a"}


@pytest.mark.parametrize(
    ("labels", "annotations", "namespace", "skip_reason"),
    [
        (RESEARCH, {}, "research-1", ""),
        (RESEARCH, {"example.com/team": "core"}, "research-1", ""),
        (RESEARCH, {}, "batch", row_messages.other_value("the namespace", "batch", "research-*")),
        (
            {"kueue.x-k8s.io/queue-name": 5},
            {},
            "research-1",
            "label kueue.x-k8s.io/queue-name is 5, not research*",
        ),
    ],
)
def test_a_rule_matches_labels_annotations_and_the_namespace(
    kinds: Table, labels: Any, annotations: Any, namespace: str, skip_reason: str
) -> None:
    obj = mpijob()
    obj["metadata"] = {
        **obj["metadata"],
        "labels": labels,
        "annotations": annotations,
        "namespace": namespace,
    }
    result = outcome(kinds, obj, namespace=namespace)
    (row,) = (row for row in result.rules if row.name == "queue-priority")
    assert (row.why if skip_reason else row.state) == (skip_reason or "fired")


@pytest.mark.parametrize("meta", [None, [], "x", {"labels": []}, {"annotations": "x"}])
def test_metadata_of_any_type_is_not_denied(kinds: Table, meta: Any) -> None:
    result = outcome(kinds, {**mpijob(), "metadata": meta})
    assert not result.denials


WORKLOAD = "workloads:\n  - name: gang\n    kinds: [example.com/v1/Gang]\n"
GROUP = "    groups: [{role: worker, takesNodes: true, template: /t}]\n"

INVALID_WORKLOADS: dict[str, tuple[str, Expected]] = {
    "a list element by its position": (
        WORKLOAD
        + "    groups: [{role: worker, takesNodes: true, template: /spec/replicatedJobs/0/template}]\n",
        [
            (
                7,
                "workloads[0].groups[0].template",
                "/spec/replicatedJobs/0/template selects nothing: 0 is the position",
            )
        ],
    ),
    "replicas by the position of a list element": (
        WORKLOAD + "    groups: [{role: worker, takesNodes: true, template: /t, replicas: [2, /jobs/1/n]}]\n",
        [(7, "workloads[0].groups[0].replicas[1]", "/jobs/1/n selects nothing")],
    ),
    "a field with an invalid path": (
        WORKLOAD + GROUP + "    fields: {queue: {path: '/jobs[0]', default: x}}\n",
        [(8, "workloads[0].fields.queue.path", "'jobs[0]' selects no list element")],
    ),
    "a kind of which another workload reads every object": (
        WORKLOAD.replace("example.com/v1/Gang", "kubeflow.org/v2beta1/MPIJob") + GROUP,
        [
            (
                6,
                "workloads[0].kinds",
                messages.hidden_workload("mpijob", "kubeflow.org/v2beta1/MPIJob"),
            )
        ],
    ),
    "a condition on an unknown field": (
        WORKLOAD + GROUP + "    when: {queue: x}\n",
        [(8, "workloads[0].when.queue", messages.no_field("queue", "none"))],
    ),
    "a worker that takes no node": (
        WORKLOAD + "    groups: [{role: worker, template: /t}]\n",
        [(7, "workloads[0].groups[0].takesNodes", messages.takes_nodes("worker"))],
    ),
    "two groups with the same role": (
        WORKLOAD + "    groups: [{role: a, template: /t}, {role: a, template: /u}]\n",
        [(7, "workloads[0].groups[1].role", messages.same_role("a"))],
    ),
    "one template for two groups": (
        WORKLOAD + "    groups: [{role: a, template: /t}, {role: b, template: /t}]\n",
        [(7, "workloads[0].groups[1].template", messages.same_template("a"))],
    ),
    "a Pod with another template": (
        WORKLOAD + "    groups: [{role: a, template: ''}, {role: b, template: /t}]\n",
        [(7, "workloads[0].groups[0].template", messages.SEVERAL_GROUPS)],
    ),
}


@pytest.mark.parametrize("case", INVALID_WORKLOADS)
def test_an_invalid_workload_is_refused_with_the_reason(case: str) -> None:
    text, expected = INVALID_WORKLOADS[case]
    assert_problems(EXTENDS + text, expected)


def test_a_rule_that_matches_one_of_two_templates_has_the_container_of_this_template() -> None:
    rule = (
        "  - {name: x, reason: r, match: {workload: jobset, role: worker, image: two},\n"
        "     add: {spec: {containers: [{name: $(worker.container), tty: true}]}}}\n"
    )
    job_set: Any = jobset(1, 1)
    job_set["spec"]["replicatedJobs"] *= 2
    job_set = json.loads(json.dumps(job_set))
    path = ("template", "spec", "template", "spec", "containers", 0)
    for name, replicated_job in zip(("one", "two"), job_set["spec"]["replicatedJobs"], strict=True):
        replicated_job["name"] = name
        get(replicated_job, path).update(name=name, image=name)
    result = outcome(load_text(EXTENDS + "rules:\n" + rule, "mine.yaml"), job_set)
    assert result.warnings == ()
    containers = [get(result.after, ("spec", "replicatedJobs", index, *path)) for index in range(2)]
    assert [container.get("tty") for container in containers] == [None, True]
