"""Tests of which jobs the webhook leaves unchanged in clusters that also have other nodes."""

from typing import Any

import pytest

from common.quantities import requests
from testbed.mpijob import WORKER, mpijob
from tests.rules.tables import EXTENDS, assert_problems, extend_table, mutate, outcome, table_with_component
from webhook.engine import messages as engine_messages
from webhook.objects.record import ANNOTATIONS
from webhook.objects.tree import get
from webhook.rules.load import load_default

TABLE = load_default()
NEURON = "aws.amazon.com/neuron"
FAMILY = "karpenter.k8s.aws/instance-family"
INJECT = "ultraserver-webhook.io/inject"
PODS_TABLE = table_with_component("pods")
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def node_affinity(*terms: list[dict[str, Any]]) -> dict[str, Any]:
    """Returns required node affinity with alternative terms."""
    selector_terms = [{"matchExpressions": term} for term in terms]
    return {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": selector_terms}}}}


def family_expression(operator: str, *values: str) -> dict[str, Any]:
    return {"key": FAMILY, "operator": operator, **({"values": list(values)} if values else {})}


OTHER_NODES = {
    "type": {"nodeSelector": {"node.kubernetes.io/instance-type": "trn1.32xlarge"}},
    "family": {"nodeSelector": {FAMILY: "trn1"}},
    "older label": {"nodeSelector": {"beta.kubernetes.io/instance-type": "inf2.48xlarge"}},
    "EKS Auto Mode": {"nodeSelector": {"eks.amazonaws.com/instance-category": "inf"}},
    "generation": {"nodeSelector": {"karpenter.k8s.aws/instance-generation": "1"}},
    "two families": node_affinity([family_expression("In", "trn1", "inf2")]),
    "excluded UltraServers": node_affinity([family_expression("NotIn", "trn2u", "p5")]),
    "nodes without the label": node_affinity([family_expression("DoesNotExist")]),
    "two terms": node_affinity([family_expression("In", "trn1")], [family_expression("In", "inf2")]),
}
"""Pod specs of workers that request 16 devices and select other nodes than UltraServers."""


@pytest.mark.parametrize("spec", OTHER_NODES.values(), ids=OTHER_NODES)
def test_a_job_that_selects_other_nodes_by_a_known_label_is_unchanged(spec: dict[str, Any]) -> None:
    for annotations in ({}, {INJECT: "true"}):
        result = outcome(TABLE, mpijob(worker_spec=spec, annotations=annotations))
        assert result.operations == ()
        assert result.reason.startswith(engine_messages.leaves_out(""))
    label = next(iter(spec.get("nodeSelector", {FAMILY: ""})))
    assert f"({label})" in result.reason


ULTRASERVER_NODES = {
    "family": {"nodeSelector": {FAMILY: "trn2u"}},
    "one of two families": node_affinity([family_expression("In", "trn1", "trn2u")]),
    "one of two terms": node_affinity([family_expression("In", "trn1")], [family_expression("Exists")]),
    "other nodes excluded": node_affinity([family_expression("NotIn", "trn1")]),
    "newer generation": node_affinity(
        [{"key": "karpenter.k8s.aws/instance-generation", "operator": "Gt", "values": ["1"]}]
    ),
    "a label that the table does not have": {"nodeSelector": {"eks.amazonaws.com/nodegroup": "trn1"}},
}


@pytest.mark.parametrize("spec", ULTRASERVER_NODES.values(), ids=ULTRASERVER_NODES)
def test_a_job_whose_selection_includes_ultraservers_is_placed(spec: dict[str, Any]) -> None:
    assert "ultraserver-nodes" in outcome(TABLE, mpijob(worker_spec=spec)).fired()


def test_one_term_must_include_ultraservers_by_all_labels() -> None:
    label = "node.kubernetes.io/instance-type"
    ultraserver_type, other_type = (
        {"key": label, "operator": "In", "values": [name]} for name in ("trn2u.48xlarge", "trn1.2xlarge")
    )
    result = outcome(
        TABLE,
        mpijob(
            worker_spec=node_affinity(
                [ultraserver_type, family_expression("In", "trn1")], [other_type, family_expression("Exists")]
            )
        ),
    )
    assert result.operations == ()
    assert result.reason == engine_messages.leaves_out(engine_messages.all_labels("trn2u"))


NODE_GROUP_FAMILY = """
families:
  - name: trn2u
    nodeLabels: {eks.amazonaws.com/nodegroup: ultra-*}
"""


@pytest.mark.parametrize(("group", "placed"), [("ultra-a", True), ("trn1", False)])
def test_a_table_can_add_node_labels_of_the_cluster_to_a_family(group: str, *, placed: bool) -> None:
    selector = {"nodeSelector": {"eks.amazonaws.com/nodegroup": group}}
    affinity = node_affinity(
        [{"key": "eks.amazonaws.com/nodegroup", "operator": "In", "values": [group, "other"]}]
    )
    table = extend_table(NODE_GROUP_FAMILY)
    for spec in (selector, affinity):
        assert bool(outcome(table, mpijob(worker_spec=spec)).operations) is placed


ELSEWHERE = """
candidates:
  elsewhere:
    labels: {kueue.x-k8s.io/queue-name: [trn1, inf-*]}
    tolerations: {example.com/fleet: [trn1, inf2], example.com/trn1-only: ""}
"""


def toleration(key: str, **fields: str) -> dict[str, Any]:
    return {"tolerations": [{"key": "other"}, {"key": key, "effect": "NoSchedule", **fields}]}


@pytest.mark.parametrize(
    ("labels", "spec", "reason"),
    [
        (
            {"kueue.x-k8s.io/queue-name": "inf-small"},
            {},
            engine_messages.has_label("kueue.x-k8s.io/queue-name", '"inf-small"'),
        ),
        ({"kueue.x-k8s.io/queue-name": "training"}, {}, ""),
        (
            {},
            toleration("example.com/fleet", value="trn1"),
            engine_messages.tolerates("example.com/fleet=trn1"),
        ),
        ({}, toleration("example.com/fleet", value="ultra"), ""),
        ({}, toleration("example.com/fleet", operator="Exists"), ""),
        (
            {},
            toleration("example.com/trn1-only", operator="Exists"),
            engine_messages.tolerates("example.com/trn1-only"),
        ),
        ({}, {"tolerations": [{"operator": "Exists"}]}, ""),
    ],
)
def test_a_job_with_a_queue_or_toleration_for_other_nodes_is_changed_only_if_it_is_opted_in(
    labels: dict[str, str], spec: dict[str, Any], reason: str
) -> None:
    job = mpijob(worker_spec=spec)
    job["metadata"]["labels"] = labels
    result = outcome(extend_table(ELSEWHERE), job)
    assert bool(result.operations) is not bool(reason)
    if reason:
        assert result.reason == reason + engine_messages.OPTS_IN
    job["metadata"]["annotations"] = {INJECT: "true"}
    assert outcome(extend_table(ELSEWHERE), job).operations
    assert outcome(TABLE, mpijob(worker_spec=spec)).operations, (
        "the packaged table has no tolerations in `elsewhere`"
    )


@pytest.mark.parametrize("kind", ["NeuronUltraServerWorkload", "NeuronUltraServer"])
def test_a_job_that_awss_ultraserver_operator_created_is_unchanged(kind: str) -> None:
    """The operator chooses the nodes itself. An owner of the same kind in another API group has no effect."""
    for group, unchanged in (("neuron.aws.com", True), ("example.com", False)):
        job = mpijob()
        job["metadata"]["ownerReferences"] = [{"apiVersion": f"{group}/v1beta1", "kind": kind, "name": "w"}]
        result = outcome(TABLE, job)
        assert bool(result.operations) is not unchanged
        assert (
            result.reason == engine_messages.created_by(kind, group) + engine_messages.OPTS_IN
        ) is unchanged


def test_a_job_whose_workers_need_less_than_a_node_is_changed_only_if_it_is_opted_in() -> None:
    small = mpijob(amount=8)
    result = outcome(TABLE, small)
    assert result.operations == ()
    assert result.reason == engine_messages.wrong_amount("less", 16, NEURON)
    selector = {"nodeSelector": {"node.kubernetes.io/instance-type": "trn2u.48xlarge"}}
    assert outcome(TABLE, mpijob(amount=8, worker_spec=selector)).operations == ()
    assert outcome(TABLE, mpijob(amount=8, annotations={INJECT: "true"})).operations
    assert outcome(extend_table(f"families: [{{name: trn2u, wholeNode: {{{NEURON}: 0}}}}]"), small).operations
    assert outcome(extend_table(f"families: [{{name: trn2u, wholeNode: {{{NEURON}: 8}}}}]"), small).operations


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
def test_a_job_is_placed_if_its_workers_request_16_devices_or_64_cores(
    resource: str, number: int, *, placed: bool
) -> None:
    assert bool(outcome(TABLE, mpijob(resource=resource, amount=number)).operations) is placed


def test_a_family_with_a_whole_node_of_0_accepts_any_amount_of_its_resource() -> None:
    table = extend_table("families: [{name: trn2u, wholeNode: {example.com/chip: 0}}]")
    assert outcome(table, mpijob(resource="example.com/chip", amount=1)).operations
    assert outcome(table, mpijob()).operations == ()


def container(number: Any, kind: str = "limits", **fields: Any) -> dict[str, Any]:
    return {"name": "x", "image": "i", "resources": {kind: {NEURON: number}}, **fields}


SIDECAR = {"restartPolicy": "Always"}


@pytest.mark.parametrize(
    ("containers", "init", "total"),
    [
        ([container(8), container("8")], [], 16),
        ([container(8)], [container(16)], 16),
        ([container(8)], [container(8, **SIDECAR)], 16),
        ([container(1)], [container(8, **SIDECAR), container(8)], 16),
        ([container(1)], [container(8), container(8, **SIDECAR)], 9),
        ([container(16, "requests")], [], 16),
        ([container("0")], [], 0),
        ([container("much")], [], 0),
        ([container(None), {"name": "y"}], "none", 0),
    ],
)
def test_the_requests_of_a_pod_are_the_requests_that_kube_scheduler_counts(
    containers: Any, init: Any, total: int
) -> None:
    template = {"spec": {"containers": containers, "initContainers": init}}
    assert requests(template["spec"]).get(NEURON, 0) == total * 1000


def test_the_requests_of_a_pod_include_its_overhead_and_pod_level_resources() -> None:
    containers = {"containers": [{"name": "x", "resources": {"requests": {"cpu": "1"}}}]}
    assert requests(containers | {"overhead": {"cpu": "250m"}}) == {"cpu": 1250}
    assert requests(containers | {"resources": {"requests": {"cpu": "4"}}}) == {"cpu": 4000}


def test_a_job_is_a_candidate_if_two_containers_together_request_a_whole_node() -> None:
    job = mpijob()
    get(job, (*WORKER, "spec"))["containers"] = [container(8), container(8) | {"name": "y"}]
    assert outcome(TABLE, job).operations


def test_a_pod_of_a_mutated_job_is_unchanged() -> None:
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "train"},
        "spec": {"parallelism": 4, "template": {"spec": {"containers": [container(16)]}}},
    }
    template = mutate(PODS_TABLE, job)["spec"]["template"]
    assert get(template, (*ANNOTATIONS, "ultraserver-webhook.io/added"))
    pod = {"apiVersion": "v1", "kind": "Pod", **template}
    pod["metadata"] |= {"ownerReferences": [{"kind": "Job", "controller": True}]}
    result = outcome(PODS_TABLE, pod)
    assert (result.facts["workload"], result.operations) == ("pod", ())


def test_anti_affinity_to_all_jobs_is_valid_only_for_pods_without_the_job_label() -> None:
    term = (
        "    add: {spec: {affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution:"
        " [{labelSelector: {matchExpressions: [{key: ultraserver-webhook.io/job, operator: Exists}]},"
        " topologyKey: k}]}}}}\n"
    )
    rule = "rules:\n  - name: x\n    reason: r\n    match: {workload: pod, role: pod}\n" + term
    assert_problems(
        EXTENDS + rule,
        [
            (
                8,
                f"rules[0].add.spec.affinity.podAntiAffinity.{REQUIRED}[0]",
                "selects by ultraserver-webhook.io/job",
            )
        ],
    )
    assert extend_table(rule.replace("role: pod}", 'role: pod, labels: {ultraserver-webhook.io/job: ""}}'))
