"""Clusters of several fleets: which jobs are left alone and why, and Pods of no placed job."""

from typing import Any

import pytest

from common.quantities import requests
from testbed.mpijob import WORKER, mpijob
from tests.rules.tables import EXTENDS, after, extended, outcome, same_problems, with_component
from webhook.objects.record import ANNOTATIONS
from webhook.objects.tree import get
from webhook.rules.load import load_default

TABLE = load_default()
NEURON = "aws.amazon.com/neuron"
FAMILY = "karpenter.k8s.aws/instance-family"
INJECT = "ultraserver-webhook.io/inject"
PODS = with_component("pods")
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def required(*terms: list[dict[str, Any]]) -> dict[str, Any]:
    """Returns required node affinity of alternative terms."""
    matching = [{"matchExpressions": term} for term in terms]
    return {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": matching}}}}


def family(operator: str, *values: str) -> dict[str, Any]:
    return {"key": FAMILY, "operator": operator, **({"values": list(values)} if values else {})}


ELSEWHERE = {
    "type": {"nodeSelector": {"node.kubernetes.io/instance-type": "trn1.32xlarge"}},
    "family": {"nodeSelector": {FAMILY: "trn1"}},
    "older label": {"nodeSelector": {"beta.kubernetes.io/instance-type": "inf2.48xlarge"}},
    "EKS Auto Mode": {"nodeSelector": {"eks.amazonaws.com/instance-category": "inf"}},
    "generation": {"nodeSelector": {"karpenter.k8s.aws/instance-generation": "1"}},
    "a list": required([family("In", "trn1", "inf2")]),
    "not ours": required([family("NotIn", "trn2u", "p5")]),
    "no such label": required([family("DoesNotExist")]),
    "every term": required([family("In", "trn1")], [family("In", "inf2")]),
}
"""The fields of a worker by which a job of 16 devices selects nodes elsewhere."""


@pytest.mark.parametrize("spec", ELSEWHERE.values(), ids=ELSEWHERE)
def test_a_job_that_selects_other_nodes_by_any_known_label_is_left_alone(spec: dict[str, Any]) -> None:
    for annotations in ({}, {INJECT: "true"}):
        result = outcome(TABLE, mpijob(worker_spec=spec, annotations=annotations))
        assert result.operations == ()
        assert result.reason.startswith("its own selection of nodes leaves out ")
    label = next(iter(spec.get("nodeSelector", {FAMILY: ""})))
    assert f"({label})" in result.reason


HERE = {
    "family": {"nodeSelector": {FAMILY: "trn2u"}},
    "one of a list": required([family("In", "trn1", "trn2u")]),
    "one of two terms": required([family("In", "trn1")], [family("Exists")]),
    "not others": required([family("NotIn", "trn1")]),
    "newer": required([{"key": "karpenter.k8s.aws/instance-generation", "operator": "Gt", "values": ["1"]}]),
    "a label that says nothing": {"nodeSelector": {"eks.amazonaws.com/nodegroup": "trn1"}},
}


@pytest.mark.parametrize("spec", HERE.values(), ids=HERE)
def test_a_job_whose_selection_leaves_ultraservers_open_is_placed(spec: dict[str, Any]) -> None:
    assert "ultraserver-nodes" in outcome(TABLE, mpijob(worker_spec=spec)).fired()


def test_two_labels_have_to_leave_ultraservers_open_in_the_same_term() -> None:
    label = "node.kubernetes.io/instance-type"
    here, there = (
        {"key": label, "operator": "In", "values": [name]} for name in ("trn2u.48xlarge", "trn1.2xlarge")
    )
    result = outcome(
        TABLE, mpijob(worker_spec=required([here, family("In", "trn1")], [there, family("Exists")]))
    )
    assert result.operations == ()
    assert result.reason == "its own selection of nodes leaves out nodes with all labels of family trn2u"


NODE_GROUPS = """
families:
  - name: trn2u
    nodeLabels: {eks.amazonaws.com/nodegroup: ultra-*}
"""


@pytest.mark.parametrize(("group", "placed"), [("ultra-a", True), ("trn1", False)])
def test_a_table_can_define_the_clusters_own_labels_of_ultraservers(group: str, *, placed: bool) -> None:
    spec = {"nodeSelector": {"eks.amazonaws.com/nodegroup": group}}
    listed = required([{"key": "eks.amazonaws.com/nodegroup", "operator": "In", "values": [group, "other"]}])
    table = extended(NODE_GROUPS)
    for one in (spec, listed):
        assert bool(outcome(table, mpijob(worker_spec=one)).operations) is placed


QUEUES = """
candidates:
  elsewhere:
    labels: {kueue.x-k8s.io/queue-name: [trn1, inf-*]}
    tolerations: {example.com/fleet: [trn1, inf2], example.com/trn1-only: ""}
"""


def toleration(key: str, **more: str) -> dict[str, Any]:
    return {"tolerations": [{"key": "other"}, {"key": key, "effect": "NoSchedule", **more}]}


@pytest.mark.parametrize(
    ("labels", "spec", "reason"),
    [
        (
            {"kueue.x-k8s.io/queue-name": "inf-small"},
            {},
            'its label kueue.x-k8s.io/queue-name is "inf-small"',
        ),
        ({"kueue.x-k8s.io/queue-name": "training"}, {}, ""),
        ({}, toleration("example.com/fleet", value="trn1"), "its workers tolerate example.com/fleet=trn1"),
        ({}, toleration("example.com/fleet", value="ultra"), ""),
        ({}, toleration("example.com/fleet", operator="Exists"), ""),
        (
            {},
            toleration("example.com/trn1-only", operator="Exists"),
            "its workers tolerate example.com/trn1-only",
        ),
        ({}, {"tolerations": [{"operator": "Exists"}]}, ""),
    ],
)
def test_a_queue_or_toleration_of_other_nodes_leaves_a_job_alone_unless_it_is_opted_in(
    labels: dict[str, str], spec: dict[str, Any], reason: str
) -> None:
    job = mpijob(worker_spec=spec)
    job["metadata"]["labels"] = labels
    result = outcome(extended(QUEUES), job)
    assert bool(result.operations) is not bool(reason)
    if reason:
        assert result.reason == f"{reason}, which is for other nodes than UltraServers; {INJECT} opts it in"
    job["metadata"]["annotations"] = {INJECT: "true"}
    assert outcome(extended(QUEUES), job).operations
    assert outcome(TABLE, mpijob(worker_spec=spec)).operations, "the packaged table has no such nodes"


@pytest.mark.parametrize("kind", ["NeuronUltraServerWorkload", "NeuronUltraServer"])
def test_what_awss_ultraserver_operator_made_is_left_alone(kind: str) -> None:
    """It chooses the nodes itself; the same kind of another group is another user's."""
    for group, alone in (("neuron.aws.com", True), ("example.com", False)):
        job = mpijob()
        job["metadata"]["ownerReferences"] = [{"apiVersion": f"{group}/v1beta1", "kind": kind, "name": "w"}]
        result = outcome(TABLE, job)
        assert bool(result.operations) is not alone
        assert (f"a {kind} of {group} created the job and chooses its nodes" in result.reason) is alone


def test_a_job_of_less_than_a_node_is_left_alone_unless_opted_in() -> None:
    small = mpijob(amount=8)
    result = outcome(TABLE, small)
    assert result.operations == ()
    assert (
        result.reason == f"its workers ask for less than the 16 {NEURON} that a node has; {INJECT} opts it in"
    )
    chosen = {"nodeSelector": {"node.kubernetes.io/instance-type": "trn2u.48xlarge"}}
    assert outcome(TABLE, mpijob(amount=8, worker_spec=chosen)).operations == ()
    assert outcome(TABLE, mpijob(amount=8, annotations={INJECT: "true"})).operations
    assert outcome(extended(f"families: [{{name: trn2u, wholeNode: {{{NEURON}: 0}}}}]"), small).operations
    assert outcome(extended(f"families: [{{name: trn2u, wholeNode: {{{NEURON}: 8}}}}]"), small).operations


@pytest.mark.parametrize(
    ("resource", "number", "placed"),
    [
        (NEURON, 16, True),
        (NEURON, 15, False),
        ("aws.amazon.com/neuroncore", 63, False),
        ("aws.amazon.com/neuroncore", 64, True),
        ("aws.amazon.com/neuroncore", 128, True),
        ("aws.amazon.com/neurondevice", 8, False),
        ("aws.amazon.com/neurondevice", 16, True),
    ],
)
def test_a_node_has_16_devices_and_64_cores_or_more(resource: str, number: int, *, placed: bool) -> None:
    assert bool(outcome(TABLE, mpijob(resource=resource, amount=number)).operations) is placed


def test_a_table_for_a_resource_of_its_own_takes_any_amount_of_it_as_before() -> None:
    table = extended("families: [{name: trn2u, wholeNode: {example.com/chip: 0}}]")
    assert outcome(table, mpijob(resource="example.com/chip", amount=1)).operations
    assert outcome(table, mpijob()).operations == ()


def container(number: Any, kind: str = "limits", **more: Any) -> dict[str, Any]:
    return {"name": "x", "image": "i", "resources": {kind: {NEURON: number}}, **more}


ALWAYS = {"restartPolicy": "Always"}


@pytest.mark.parametrize(
    ("containers", "init", "total"),
    [
        ([container(8), container("8")], [], 16),
        ([container(8)], [container(16)], 16),
        ([container(8)], [container(8, **ALWAYS)], 16),
        ([container(1)], [container(8, **ALWAYS), container(8)], 16),
        ([container(1)], [container(8), container(8, **ALWAYS)], 9),
        ([container(16, "requests")], [], 16),
        ([container("0")], [], 0),
        ([container("much")], [], 0),
        ([container(None), {"name": "y"}], "none", 0),
    ],
)
def test_what_a_pod_takes_is_counted_as_the_scheduler_does(containers: Any, init: Any, total: int) -> None:
    template = {"spec": {"containers": containers, "initContainers": init}}
    assert requests(template["spec"]).get(NEURON, 0) == total * 1000


def test_overhead_counts_and_so_do_the_requests_of_a_whole_pod() -> None:
    containers = {"containers": [{"name": "x", "resources": {"requests": {"cpu": "1"}}}]}
    assert requests(containers | {"overhead": {"cpu": "250m"}}) == {"cpu": 1250}
    assert requests(containers | {"resources": {"requests": {"cpu": "4"}}}) == {"cpu": 4000}


def test_two_containers_that_share_a_node_make_a_candidate() -> None:
    job = mpijob()
    get(job, (*WORKER, "spec"))["containers"] = [container(8), container(8) | {"name": "y"}]
    assert outcome(TABLE, job).operations


def bare(number: int | None = 1, metadata: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    """Returns a Pod of no job; None for one without devices."""
    one = container(number) if number is not None else {"name": "x", "image": "i"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "bare", **(metadata or {})},
        "spec": {"containers": [one], **spec},
    }


def owned(kind: str) -> dict[str, Any]:
    return {"ownerReferences": [{"kind": kind, "controller": True}]}


def test_the_pods_of_a_mutated_template_come_out_unchanged() -> None:
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "train"},
        "spec": {"parallelism": 4, "template": {"spec": {"containers": [container(16)]}}},
    }
    template = after(PODS, job)["spec"]["template"]
    assert get(template, (*ANNOTATIONS, "ultraserver-webhook.io/added"))
    pod = {"apiVersion": "v1", "kind": "Pod", **template}
    pod["metadata"] |= owned("Job")
    result = outcome(PODS, pod)
    assert (result.facts["workload"], result.operations) == ("pod", ())


def test_a_term_against_jobs_is_for_pods_without_the_label_only() -> None:
    term = (
        "    add: {spec: {affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution:"
        " [{labelSelector: {matchExpressions: [{key: ultraserver-webhook.io/job, operator: Exists}]},"
        " topologyKey: k}]}}}}\n"
    )
    rule = "rules:\n  - name: x\n    reason: r\n    match: {workload: pod, role: pod}\n" + term
    same_problems(
        EXTENDS + rule,
        [
            (
                8,
                f"rules[0].add.spec.affinity.podAntiAffinity.{REQUIRED}[0]",
                "selects by ultraserver-webhook.io/job",
            )
        ],
    )
    assert extended(rule.replace("role: pod}", 'role: pod, labels: {ultraserver-webhook.io/job: ""}}'))
