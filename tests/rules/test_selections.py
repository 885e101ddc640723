"""Selections that no node can meet, and instance types next to labels that only the cluster knows."""

from typing import Any

import pytest

from testbed.mpijob import WORKER, mpijob
from tests.rules.tables import outcome
from webhook.objects.tree import get, put
from webhook.rules.load import load_default, load_installed

TABLE = load_default()
TYPE = "node.kubernetes.io/instance-type"
UNIT = "neuron.amazonaws.com/ultraserver-server-id-4"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def required(*expressions: Any, fields: Any = ()) -> Any:
    term = {"matchExpressions": list(expressions)} | ({"matchFields": list(fields)} if fields else {})
    return {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [term]}}}}


def chosen(key: str, *values: str) -> Any:
    return {"key": key, "operator": "In", "values": list(values)}


HOST = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"
GROUP = "sagemaker.amazonaws.com/instance-group-name"
KNOWN_HERE = [
    ({"nodeSelector": {"eks.amazonaws.com/nodegroup": "a"}}, "eks.amazonaws.com/nodegroup"),
    ({"nodeSelector": {"karpenter.sh/nodepool": "a"}}, "karpenter.sh/nodepool"),
    ({"nodeSelector": {GROUP: "a"}}, GROUP),
    (required(chosen("team", "a")), "team"),
    (required(fields=[chosen("metadata.name", "node-1")]), "metadata.name"),
]  # fmt: skip


@pytest.mark.parametrize(("spec", "label"), KNOWN_HERE, ids=[label for _, label in KNOWN_HERE])
def test_an_instance_type_with_a_label_of_the_cluster_is_a_warning(spec: Any, label: str) -> None:
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
        required(chosen("team", "a"), chosen(TYPE, "p5.48xlarge", "ml.trn2u.48xlarge")),
    ],
)
def test_a_type_of_the_authors_own_is_taken_and_is_no_warning(spec: Any) -> None:
    result = outcome(TABLE, mpijob(4, worker_spec=spec))
    assert result.warnings == ()
    assert get(result.after, (*WORKER, "spec", "nodeSelector", TYPE)) == "ml.trn2u.48xlarge"


def anti(kind: str, term: Any) -> Any:
    return {"affinity": {kind: {REQUIRED: [{"topologyKey": UNIT, **term}]}}}


def spread(**more: Any) -> Any:
    return {
        "maxSkew": 1,
        "topologyKey": UNIT,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": OWN,
        **more,
    }


JOB_NAME = "training.kubeflow.org/job-name"
OWN = {"matchLabels": {JOB_NAME: "train", "app": "train"}}
NAMED = [{"key": "jobset.sigs.k8s.io/jobset-name", "operator": "In", "values": ["train"]}]
OTHER = {"matchLabels": {JOB_NAME: "other"}}
ABSENT = {"key": UNIT, "operator": "DoesNotExist"}
IMPOSSIBLE = {
    "zones of selector and affinity": {"nodeSelector": {ZONE: "a"}, **required(chosen(ZONE, "b"))},
    "zones of one term": required(chosen(ZONE, "a"), chosen(ZONE, "b")),
    "a zone that is barred": required(chosen(ZONE, "a"), {"key": ZONE, "operator": "NotIn", "values": ["a"]}),
    "nodes outside of UltraServers": required(ABSENT),
    "an UltraServer that works not": {"nodeSelector": {UNIT: "0000000000000000"}},
    "only such": required(chosen(UNIT, "0000000000000000")),
    "processors of another sort": {"nodeSelector": {"kubernetes.io/arch": "arm64"}},
    "processors of another sort by affinity": required(chosen("kubernetes.io/arch", "arm64", "s390x")),
    "no processors of the sort": required(
        {"key": "kubernetes.io/arch", "operator": "NotIn", "values": ["amd64"]}
    ),
    "another system": {"nodeSelector": {"kubernetes.io/os": "windows"}},
    "one node by its name": {"nodeSelector": {HOST: "node-1"}},
    "fewer nodes than workers": required(chosen(HOST, "a", "b", "c")),
    "its own workers on one node": anti("podAffinity", {"labelSelector": OWN, "topologyKey": HOST}),
    "its own workers in zones apart": anti("podAntiAffinity", {"labelSelector": OWN, "topologyKey": ZONE}),
    "its own workers apart": anti("podAntiAffinity", {"labelSelector": OWN}),
    "its own by an operator's label": anti("podAntiAffinity", {"labelSelector": {"matchExpressions": NAMED}}),
    "all pods apart": anti("podAntiAffinity", {"labelSelector": {}}),
    "another job's workers": anti("podAffinity", {"labelSelector": OTHER}),
    "spread": {"topologySpreadConstraints": [spread()]},
    "spread and other nodes": {"topologySpreadConstraints": [spread(nodeAffinityPolicy="Ignore")]},
}
POSSIBLE = {
    "a zone": {"nodeSelector": {ZONE: "a"}, **required(chosen(ZONE, "a", "b"))},
    "an UltraServer": {"nodeSelector": {UNIT: "0123456789abcdef"}},
    "its processors": {"nodeSelector": {"kubernetes.io/arch": "amd64"}},
    "one of two terms": {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [
        {"matchExpressions": [ABSENT]}, {"matchExpressions": [chosen(ZONE, "a")]}]}}}},
    "AWS's own term": anti("podAntiAffinity", {"labelSelector": {
        "matchExpressions": [{"key": JOB_NAME, "operator": "NotIn", "values": ["train"]}],
        "matchLabels": {"training.kubeflow.org/job-role": "worker"}}}),
    "other pods apart": anti("podAntiAffinity", {"labelSelector": {"matchLabels": {"app": "other"}}}),
    "no selector": anti("podAntiAffinity", {}),
    "together": anti("podAffinity", {"labelSelector": OWN}),
    "with pods of a cache": anti("podAffinity", {"labelSelector": {"matchLabels": {"app": "cache"}}}),
    "processors of both sorts": required(chosen("kubernetes.io/arch", "arm64", "amd64")),
    "its system": {"nodeSelector": {"kubernetes.io/os": "linux", "beta.kubernetes.io/arch": "amd64"}},
    "nodes by their names": required(chosen(HOST, "a", "b", "c", "d", "e")),
    "on the node of a cache": anti(
        "podAffinity", {"labelSelector": {"matchLabels": {"app": "cache"}}, "topologyKey": HOST}),
    "in its zone": anti("podAffinity", {"labelSelector": OWN, "topologyKey": ZONE}),
    "others in other zones": anti("podAntiAffinity", {"labelSelector": OTHER, "topologyKey": ZONE}),
    "spread over zones": {"topologySpreadConstraints": [spread(topologyKey=ZONE)]},
    "apart by host": anti("podAntiAffinity", {"labelSelector": OWN, "topologyKey": "kubernetes.io/hostname"}),
    "spread where it can": {"topologySpreadConstraints": [spread(whenUnsatisfiable="ScheduleAnyway")]},
    "spread over the nodes of other jobs": {"topologySpreadConstraints": [spread(labelSelector=OTHER)]},
    "spread by fours": {"topologySpreadConstraints": [spread(maxSkew=4)]},
}  # fmt: skip


def selecting(spec: Any, workers: int = 4) -> list[str]:
    job = put(mpijob(workers, worker_spec=spec), (*WORKER, "metadata", "labels"), {"app": "train"})
    return [text for text in outcome(TABLE, job).warnings if text.startswith("the job waits forever: ")]


@pytest.mark.parametrize("spec", IMPOSSIBLE.values(), ids=IMPOSSIBLE)
def test_what_no_node_can_meet_is_a_warning(spec: Any) -> None:
    assert len(selecting(spec)) == 1


@pytest.mark.parametrize("spec", POSSIBLE.values(), ids=POSSIBLE)
def test_what_nodes_can_meet_is_none(spec: Any) -> None:
    assert selecting(spec) == []


@pytest.mark.parametrize(
    ("more", "waits"),
    [
        ({}, False),
        ({"minDomains": 1}, False),
        ({"minDomains": 2}, True),
        ({"minDomains": []}, True),
        ({"nodeAffinityPolicy": "Ignore"}, True),
    ],
)
@pytest.mark.parametrize("workers", [4, 8])
def test_workers_that_are_pinned_spread_over_their_own_unit(
    more: dict[str, Any], workers: int, *, waits: bool
) -> None:
    """As a real scheduler does: tests/plane/placement/test_replicas.py."""
    spec = {"topologySpreadConstraints": [spread(labelSelector={"matchLabels": {JOB_NAME: "train"}}, **more)]}
    result = outcome(load_installed(), mpijob(workers, worker_spec=spec))
    assert (result.unplaced != ()) is waits


def test_all_workers_of_a_larger_job_cannot_be_on_one_ultraserver() -> None:
    together = anti("podAffinity", {"labelSelector": OWN})
    assert len(selecting(together, 8)) == 1


@pytest.mark.parametrize(
    ("spec", "workers", "warns"),
    [
        ({"nodeSelector": {UNIT: "a"}}, 8, True),
        (required(chosen(UNIT, "a")), 8, True),
        (required(chosen(UNIT, "a", "b")), 8, False),
        (required(chosen(UNIT, "a", "b")), 12, True),
        ({"nodeSelector": {UNIT: "a"}, **required(chosen(UNIT, "a", "b"))}, 8, True),
    ],
)
def test_units_by_name_hold_all_workers(spec: Any, workers: int, *, warns: bool) -> None:
    """Protects from a job that waits for ever without a word: it names fewer UltraServers than it needs."""
    messages = selecting(spec, workers)
    assert len(messages) == warns
    assert all("fewer than" in text and UNIT in text for text in messages)


def test_each_worker_may_meet_another_of_several_terms() -> None:
    terms = [{"matchExpressions": [chosen(UNIT, name)]} for name in "ab"]
    assert selecting({"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": terms}}}}, 8) == []


def test_two_instance_types_at_once_are_named() -> None:
    """Protects from a reason that names only one of the two labels."""
    types = {TYPE: "trn2u.48xlarge", "beta.kubernetes.io/instance-type": "ml.trn2u.48xlarge"}
    reason = outcome(TABLE, mpijob(4, worker_spec={"nodeSelector": types})).reason
    assert "asks for two instance types at once, which no node has" in reason
    assert all(f'{label} "{value}"' in reason for label, value in types.items())


def test_a_single_worker_may_name_its_node_and_several_may_not() -> None:
    """Protects jobs of single nodes, which have no topology key, from waiting for ever without a word."""
    assert selecting({"nodeSelector": {HOST: "node-1"}}, 1) == []
    (message,) = selecting({"nodeSelector": {HOST: "node-1"}}, 3)
    assert f"leave fewer than 3 values of label {HOST}" in message
