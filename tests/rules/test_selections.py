"""Tests of warnings about node selections that no node matches, or that have no instance type."""

from typing import Any

import pytest

from testbed.mpijob import WORKER, mpijob
from tests.helpers import load_text
from tests.rules.tables import EXTENDS, outcome
from webhook.engine import messages as engine_messages
from webhook.objects.tree import get, put
from webhook.rules.load import load_default, load_installed

TABLE = load_default()
TYPE = "node.kubernetes.io/instance-type"
UNIT = "neuron.amazonaws.com/ultraserver-server-id-4"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def node_affinity(*expressions: Any, fields: Any = ()) -> Any:
    term = {"matchExpressions": list(expressions)} | ({"matchFields": list(fields)} if fields else {})
    return {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [term]}}}}


def label_in(key: str, *values: str) -> Any:
    return {"key": key, "operator": "In", "values": list(values)}


HOST = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"
GROUP = "sagemaker.amazonaws.com/instance-group-name"
CLUSTER_LABELS = [
    ({"nodeSelector": {"eks.amazonaws.com/nodegroup": "a"}}, "eks.amazonaws.com/nodegroup"),
    ({"nodeSelector": {"karpenter.sh/nodepool": "a"}}, "karpenter.sh/nodepool"),
    ({"nodeSelector": {GROUP: "a"}}, GROUP),
    (node_affinity(label_in("team", "a")), "team"),
    (node_affinity(fields=[label_in("metadata.name", "node-1")]), "metadata.name"),
]  # fmt: skip


@pytest.mark.parametrize(("spec", "label"), CLUSTER_LABELS, ids=[label for _, label in CLUSTER_LABELS])
def test_an_instance_type_that_is_added_to_other_node_labels_is_a_warning(spec: Any, label: str) -> None:
    result = outcome(TABLE, mpijob(4, worker_spec=spec))
    (warning,) = result.warnings
    assert warning.startswith(
        f"the workers select nodes by {label} and by no instance type, so the webhook adds"
    )
    selector = get(result.after, (*WORKER, "spec", "nodeSelector"))
    assert selector == {**spec.get("nodeSelector", {}), TYPE: "trn2u.48xlarge"}


@pytest.mark.parametrize(
    "spec",
    [
        {"nodeSelector": {"eks.amazonaws.com/nodegroup": "a", TYPE: "ml.trn2u.48xlarge"}},
        {"nodeSelector": {"team": "a", "beta.kubernetes.io/instance-type": "ml.trn2u.48xlarge"}},
        node_affinity(label_in("team", "a"), label_in(TYPE, "p5.48xlarge", "ml.trn2u.48xlarge")),
    ],
)
def test_an_instance_type_of_the_author_is_kept_without_a_warning(spec: Any) -> None:
    result = outcome(TABLE, mpijob(4, worker_spec=spec))
    assert result.warnings == ()
    assert get(result.after, (*WORKER, "spec", "nodeSelector", TYPE)) == "ml.trn2u.48xlarge"


def pod_term(kind: str, term: Any) -> Any:
    return {"affinity": {kind: {REQUIRED: [{"topologyKey": UNIT, **term}]}}}


def spread_constraint(**fields: Any) -> Any:
    return {
        "maxSkew": 1,
        "topologyKey": UNIT,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": OWN_WORKERS,
        **fields,
    }


JOB_NAME = "training.kubeflow.org/job-name"
OWN_WORKERS = {"matchLabels": {JOB_NAME: "train", "app": "train"}}
OWN_JOBSET = [{"key": "jobset.sigs.k8s.io/jobset-name", "operator": "In", "values": ["train"]}]
OTHER_JOB = {"matchLabels": {JOB_NAME: "other"}}
NO_UNIT = {"key": UNIT, "operator": "DoesNotExist"}
IMPOSSIBLE = {
    "two zones, in selector and affinity": {
        "nodeSelector": {ZONE: "a"},
        **node_affinity(label_in(ZONE, "b")),
    },
    "two zones in one term": node_affinity(label_in(ZONE, "a"), label_in(ZONE, "b")),
    "a zone that the term excludes": node_affinity(
        label_in(ZONE, "a"), {"key": ZONE, "operator": "NotIn", "values": ["a"]}
    ),
    "nodes outside of UltraServers": node_affinity(NO_UNIT),
    "the id of nodes outside of UltraServers": {"nodeSelector": {UNIT: "0000000000000000"}},
    "the id of nodes outside of UltraServers by affinity": node_affinity(label_in(UNIT, "0000000000000000")),
    "another architecture": {"nodeSelector": {"kubernetes.io/arch": "arm64"}},
    "another architecture by affinity": node_affinity(label_in("kubernetes.io/arch", "arm64", "s390x")),
    "excluded architecture": node_affinity(
        {"key": "kubernetes.io/arch", "operator": "NotIn", "values": ["amd64"]}
    ),
    "another operating system": {"nodeSelector": {"kubernetes.io/os": "windows"}},
    "the name of one node": {"nodeSelector": {HOST: "node-1"}},
    "fewer node names than workers": node_affinity(label_in(HOST, "a", "b", "c")),
    "own workers on one node": pod_term("podAffinity", {"labelSelector": OWN_WORKERS, "topologyKey": HOST}),
    "own workers in different zones": pod_term(
        "podAntiAffinity", {"labelSelector": OWN_WORKERS, "topologyKey": ZONE}
    ),
    "own workers on different units": pod_term("podAntiAffinity", {"labelSelector": OWN_WORKERS}),
    "own workers on different units, by an operator's label": pod_term(
        "podAntiAffinity", {"labelSelector": {"matchExpressions": OWN_JOBSET}}
    ),
    "all pods on different units": pod_term("podAntiAffinity", {"labelSelector": {}}),
    "on the unit of another job": pod_term("podAffinity", {"labelSelector": OTHER_JOB}),
    "spread over units": {"topologySpreadConstraints": [spread_constraint()]},
    "spread over units, with nodeAffinityPolicy Ignore": {
        "topologySpreadConstraints": [spread_constraint(nodeAffinityPolicy="Ignore")]
    },
}
POSSIBLE = {
    "a zone": {"nodeSelector": {ZONE: "a"}, **node_affinity(label_in(ZONE, "a", "b"))},
    "an UltraServer": {"nodeSelector": {UNIT: "0123456789abcdef"}},
    "the architecture": {"nodeSelector": {"kubernetes.io/arch": "amd64"}},
    "one of two terms": {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [
        {"matchExpressions": [NO_UNIT]}, {"matchExpressions": [label_in(ZONE, "a")]}]}}}},
    "AWS's anti-affinity to other jobs": pod_term("podAntiAffinity", {"labelSelector": {
        "matchExpressions": [{"key": JOB_NAME, "operator": "NotIn", "values": ["train"]}],
        "matchLabels": {"training.kubeflow.org/job-role": "worker"}}}),
    "not on the unit of other pods": pod_term(
        "podAntiAffinity", {"labelSelector": {"matchLabels": {"app": "other"}}}),
    "a term without a selector": pod_term("podAntiAffinity", {}),
    "own workers on one unit": pod_term("podAffinity", {"labelSelector": OWN_WORKERS}),
    "on the unit of a cache": pod_term("podAffinity", {"labelSelector": {"matchLabels": {"app": "cache"}}}),
    "two architectures": node_affinity(label_in("kubernetes.io/arch", "arm64", "amd64")),
    "the operating system": {
        "nodeSelector": {"kubernetes.io/os": "linux", "beta.kubernetes.io/arch": "amd64"}},
    "more node names than workers": node_affinity(label_in(HOST, "a", "b", "c", "d", "e")),
    "on the node of a cache": pod_term(
        "podAffinity", {"labelSelector": {"matchLabels": {"app": "cache"}}, "topologyKey": HOST}),
    "own workers in one zone": pod_term("podAffinity", {"labelSelector": OWN_WORKERS, "topologyKey": ZONE}),
    "not in the zone of another job": pod_term(
        "podAntiAffinity", {"labelSelector": OTHER_JOB, "topologyKey": ZONE}),
    "spread over zones": {"topologySpreadConstraints": [spread_constraint(topologyKey=ZONE)]},
    "own workers on different nodes": pod_term(
        "podAntiAffinity", {"labelSelector": OWN_WORKERS, "topologyKey": "kubernetes.io/hostname"}),
    "spread over the only unit that is selected": {
        "nodeSelector": {UNIT: "0123456789abcdef"}, "topologySpreadConstraints": [spread_constraint()]},
    "spread with ScheduleAnyway": {
        "topologySpreadConstraints": [spread_constraint(whenUnsatisfiable="ScheduleAnyway")]},
    "spread of another job's workers": {
        "topologySpreadConstraints": [spread_constraint(labelSelector=OTHER_JOB)]},
    "spread with maxSkew 4": {"topologySpreadConstraints": [spread_constraint(maxSkew=4)]},
}  # fmt: skip


def waiting_warnings(spec: Any, workers: int = 4) -> list[str]:
    job = put(mpijob(workers, worker_spec=spec), (*WORKER, "metadata", "labels"), {"app": "train"})
    return [
        text for text in outcome(TABLE, job).warnings if text.startswith(engine_messages.waits_forever(""))
    ]


@pytest.mark.parametrize("spec", IMPOSSIBLE.values(), ids=IMPOSSIBLE)
def test_a_selection_that_no_nodes_can_match_is_a_warning(spec: Any) -> None:
    assert len(waiting_warnings(spec)) == 1


AFFINITY = "spec.mpiReplicaSpecs.Worker.template.spec.affinity"


@pytest.mark.parametrize(
    ("case", "contradiction"),
    [
        ("two zones in one term", engine_messages.no_value_left(ZONE)),
        ("own workers on one node", engine_messages.one_node(f"{AFFINITY}.podAffinity.{REQUIRED}[0]")),
        (
            "own workers on different units",
            engine_messages.not_alone(f"{AFFINITY}.podAntiAffinity.{REQUIRED}[0]", 4, UNIT),
        ),
    ],
)
def test_the_warning_names_the_requirement_that_no_nodes_can_meet(case: str, contradiction: str) -> None:
    (warning,) = waiting_warnings(IMPOSSIBLE[case])
    assert contradiction in warning


@pytest.mark.parametrize("spec", POSSIBLE.values(), ids=POSSIBLE)
def test_a_selection_that_nodes_can_match_is_not_a_warning(spec: Any) -> None:
    assert waiting_warnings(spec) == []


@pytest.mark.parametrize(
    ("fields", "waits"),
    [
        ({}, False),
        ({"minDomains": 1}, False),
        ({"minDomains": 2}, True),
        ({"minDomains": []}, True),
        ({"nodeAffinityPolicy": "Ignore"}, True),
    ],
)
@pytest.mark.parametrize("workers", [4, 8])
def test_a_spread_constraint_that_pinned_workers_cannot_meet_leaves_a_job_unplaced(
    fields: dict[str, Any], workers: int, *, waits: bool
) -> None:
    """tests/plane/placement/test_replicas.py places the jobs without further fields by a real scheduler."""
    spec = {
        "topologySpreadConstraints": [
            spread_constraint(labelSelector={"matchLabels": {JOB_NAME: "train"}}, **fields)
        ]
    }
    result = outcome(load_installed(), mpijob(workers, worker_spec=spec))
    assert (result.unplaced != ()) is waits


def test_all_workers_of_a_larger_job_cannot_be_on_one_ultraserver() -> None:
    on_one_unit = pod_term("podAffinity", {"labelSelector": OWN_WORKERS})
    assert len(waiting_warnings(on_one_unit, 8)) == 1


@pytest.mark.parametrize(
    ("spec", "workers", "warns"),
    [
        ({"nodeSelector": {UNIT: "a"}}, 8, True),
        (node_affinity(label_in(UNIT, "a")), 8, True),
        (node_affinity(label_in(UNIT, "a", "b")), 8, False),
        (node_affinity(label_in(UNIT, "a", "b")), 12, True),
        ({"nodeSelector": {UNIT: "a"}, **node_affinity(label_in(UNIT, "a", "b"))}, 8, True),
    ],
)
def test_a_selection_of_too_few_units_for_the_job_is_a_warning(
    spec: Any, workers: int, *, warns: bool
) -> None:
    """Protects users whose job selects fewer UltraServers than it needs, and so waits forever."""
    contradiction = engine_messages.few_values_left(workers // 4, UNIT)
    warnings = waiting_warnings(spec, workers)
    assert len(warnings) == warns
    assert all(contradiction in text for text in warnings)


def test_the_workers_of_a_job_may_match_different_terms() -> None:
    terms = [{"matchExpressions": [label_in(UNIT, name)]} for name in "ab"]
    assert waiting_warnings({"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": terms}}}}, 8) == []


def test_the_reason_names_both_labels_if_a_job_selects_two_instance_types() -> None:
    types = {TYPE: "trn2u.48xlarge", "beta.kubernetes.io/instance-type": "ml.trn2u.48xlarge"}
    reason = outcome(TABLE, mpijob(4, worker_spec={"nodeSelector": types})).reason
    pairs = (f'{label} "{value}"' for label, value in types.items())
    assert reason == engine_messages.two_types(" and ".join(pairs))


def test_one_worker_can_select_a_node_name_and_several_workers_cannot() -> None:
    """Protects users of jobs on single nodes, which have no topology key, from a job that waits forever."""
    assert waiting_warnings({"nodeSelector": {HOST: "node-1"}}, 1) == []
    (warning,) = waiting_warnings({"nodeSelector": {HOST: "node-1"}}, 3)
    assert engine_messages.few_values_left(3, HOST) in warning


@pytest.mark.parametrize(("label", "codes"), [("example.com/rack", []), ("x/y", ["nodes-of-this-cluster"])])
def test_another_label_of_a_unit_is_no_label_of_the_cluster(label: str, codes: list[str]) -> None:
    units = f"units: [{{label: {UNIT}, otherLabels: [example.com/rack]}}]"
    table = load_text(EXTENDS + f"families: [{{name: trn2u, {units}}}]\n", "t.yaml")
    result = outcome(table, mpijob(4, worker_spec={"nodeSelector": {label: "a"}}))
    assert [warning.code for warning in result.warnings] == codes
