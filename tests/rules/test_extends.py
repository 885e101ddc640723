"""Tests of tables that extend the packaged table, and of a table that does not."""

from typing import Any

import pytest

from testbed.mpijob import LAUNCHER, WORKER, mpijob
from tests.helpers import load_text, request_for
from tests.rules.tables import AWS_DOCUMENT, EXTENDS, SOURCE, STANDALONE, extend_table, mutate, outcome
from webhook.engine import admit
from webhook.engine import messages as engine_messages
from webhook.objects.tree import get
from webhook.rules.load import load_default

SELECTOR = (*WORKER, "spec", "nodeSelector")


def _spec(obj: Any) -> Any:
    return get(obj, (*WORKER, "spec"))


def test_an_empty_extension_is_the_packaged_table() -> None:
    assert extend_table("").rules == load_default().rules
    assert extend_table("").shapes == load_default().shapes


def test_a_changed_value_leaves_the_other_values_unchanged() -> None:
    table = extend_table("values: {sharedMemory: 2Gi}")
    wait, _ = get(mutate(table, mpijob()), (*LAUNCHER, "spec", "initContainers"))
    assert {"name": "ULTRASERVER_WAIT_SECONDS", "value": "1800"} in wait["env"]
    assert table.workloads[2].fields["sharedMemory"].default == "2Gi"


def test_a_value_can_have_placeholders_of_the_job() -> None:
    text = AWS_DOCUMENT.replace("init:1", "registry.example/$(job.namespace)/$(job.name):$(shape.nodeConfig)")
    rules = "rules: [{name: ultraserver-init, match: {role: launcher}}]\n"
    table = load_text(text + rules, SOURCE)
    _, init = get(mutate(table, mpijob(2), namespace="ml"), (*LAUNCHER, "spec", "initContainers"))
    assert init["image"] == "registry.example/ml/train:2"


def test_a_row_changes_only_its_keys_of_a_packaged_row_and_keeps_the_order() -> None:
    table = extend_table("""
families: [{name: trn2u, shapes: [{name: four-node, together: preferred}]}]
rules: [{name: ultraserver-nodes, reason: Because we say so.}]
""")
    default = load_default()
    assert [row.name for row in table.shapes] == [row.name for row in default.shapes]
    assert [row.name for row in table.rules] == [row.name for row in default.rules]
    (row,), (packaged,) = (
        [rule for rule in rules if rule.name == "ultraserver-nodes"] for rules in (table.rules, default.rules)
    )
    assert row.add == packaged.add
    assert row.reason == "Because we say so."
    assert "together-preferred" in outcome(table, mpijob(4)).fired()
    assert "together-required" not in outcome(table, mpijob(4)).fired()


def test_new_shapes_are_tried_before_the_packaged_ones_in_the_order_of_their_file() -> None:
    table = extend_table("""
families:
  - name: trn2u
    shapes:
      - {name: eight, workers: 8, nodeConfig: 1}
      - {name: quad-pairs, workers: multiple of 8, nodeConfig: 2, together: preferred, apart: required}
""")
    shapes = {workers: outcome(table, mpijob(workers)).facts["shape"] for workers in (8, 12, 16)}
    assert shapes == {8: "eight", 12: "multi-node", 16: "quad-pairs"}
    assert outcome(table, mpijob(16)).facts["nodeConfig"] == "2"


def test_a_shape_may_deny_with_a_reason() -> None:
    deny = "'$(job.workers) workers: use 2 or a multiple of 4'"
    table = extend_table(f"families: [{{name: trn2u, shapes: [{{name: unpaired, deny: {deny}}}]}}]")
    result = outcome(table, mpijob(3))
    assert result.denials == ("3 workers: use 2 or a multiple of 4",)
    assert result.operations == ()
    assert outcome(table, mpijob(4)).denials == ()


def test_a_new_rule_is_applied_after_the_packaged_ones() -> None:
    table = extend_table("""
rules:
  - name: taint
    reason: The nodes are tainted.
    match: {role: worker, shape: {nodeConfig: [2, 4]}}
    add:
      spec:
        tolerations: [{key: team, operator: Equal, value: $(job.namespace)}]
""")
    tolerations = [{"key": "team", "operator": "Equal", "value": "ml"}]
    assert table.rules[-1].name == "taint"
    assert _spec(mutate(table, mpijob(4), namespace="ml"))["tolerations"] == tolerations
    assert "tolerations" not in _spec(mutate(table, mpijob(1)))


def test_a_rule_can_add_a_container_before_a_packaged_container() -> None:
    table = extend_table("""
rules:
  - name: my-wait
    reason: We wait otherwise.
    match: {role: launcher}
    before: ultraserver-init-container
    add: {spec: {initContainers: [{name: my-wait, image: wait}]}}
  - {name: wait-for-all-workers, mode: off}
""")
    containers = get(mutate(table, mpijob()), (*LAUNCHER, "spec", "initContainers"))
    assert [item["name"] for item in containers] == ["my-wait", "ultraserver-init-container"]


@pytest.mark.parametrize(("workers", "fires"), [(4, ["first"]), (2, ["second"])])
def test_a_rule_fires_unless_an_earlier_rule_fires(workers: int, fires: list[str]) -> None:
    table = extend_table("""
rules:
  - {name: first, reason: r, match: {role: worker, shape: {nodeConfig: 4}}, warn: w}
  - {name: second, reason: r, match: {role: worker}, unless: [first], warn: w}
""")
    assert [name for name in outcome(table, mpijob(workers)).fired() if name in {"first", "second"}] == fires


def test_a_rule_can_match_a_resource_a_workload_and_a_field() -> None:
    table = extend_table("""
rules:
  - name: cores
    reason: Cores only.
    match: {role: worker, requests: aws.amazon.com/neuroncore}
    warn: cores
  - name: ssh
    reason: SSH elsewhere.
    match: {role: launcher, workload: [mpijob], fields: {sshDirectory: /home/mpi/*}}
    warn: ssh
""")
    job = mpijob(4, resource="aws.amazon.com/neuroncore")
    assert outcome(table, job).warnings == ("cores",)
    job = mpijob(4)
    job["spec"]["sshAuthMountPath"] = "/home/mpi/.ssh"
    assert outcome(table, job).warnings == ("ssh",)


def test_jobs_of_a_new_instance_type_are_candidates_and_the_first_type_is_the_default() -> None:
    table = extend_table("families: [{name: trn2u, instanceTypes: [trn3u.48xlarge, trn2u.48xlarge]}]")
    label = "node.kubernetes.io/instance-type"
    assert get(mutate(table, mpijob()), SELECTOR) == {label: "trn3u.48xlarge"}
    job = mpijob(resource=None, worker_spec={"nodeSelector": {label: "trn3u.48xlarge"}})
    assert "ultraserver-nodes" in outcome(table, job).fired()
    assert outcome(load_default(), job).fired() == ()


GANG_WORKLOAD = """
workloads:
  - name: gang
    kinds: [example.com/v1/Gang]
    groups: [{role: worker, template: /spec/pods, replicas: /spec/size, takesNodes: true}]
    fields: {queue: {path: /spec/queue, default: batch}}
rules:
  - name: gang-queue
    reason: The scheduler of the queue.
    match: {role: worker, workload: gang}
    add: {spec: {schedulerName: $(field.queue)}}
"""


def test_a_table_can_add_a_workload() -> None:
    pods = _spec(mpijob())
    gang = {"apiVersion": "example.com/v1", "kind": "Gang", "spec": {"size": 4, "pods": {"spec": pods}}}
    result = outcome(extend_table(GANG_WORKLOAD), gang)
    spec = result.after["spec"]["pods"]["spec"]
    assert spec["nodeSelector"] == {"node.kubernetes.io/instance-type": "trn2u.48xlarge"}
    assert spec["schedulerName"] == "batch"
    assert "nodes-with-server-id" in result.fired()
    assert outcome(load_default(), gang).operations == ()


def test_a_table_without_extends_has_no_row_of_the_packaged_table() -> None:
    table = load_text(STANDALONE, SOURCE)
    chip = {"containers": [{"name": "x", "resources": {"limits": {"example.com/chip": 1}}}]}
    gang = {"apiVersion": "example.com/v1", "kind": "Gang", "spec": {"size": 5, "pods": {"spec": chip}}}
    result = outcome(table, gang)
    assert result.fired() == ("label",)
    assert result.after["spec"]["pods"]["metadata"]["labels"] == {"size": "5"}
    assert outcome(table, mpijob()).reason == engine_messages.no_workload("kubeflow.org/v2beta1/MPIJob")


def test_the_revision_changes_with_the_content_and_not_with_comments(monkeypatch: pytest.MonkeyPatch) -> None:
    assert extend_table("# a comment\n").revision == extend_table("").revision
    assert extend_table("values: {waitSeconds: '60'}").revision != extend_table("").revision
    before = load_text(STANDALONE, "a").revision
    assert before == load_text(STANDALONE + "# more\n", "b").revision
    monkeypatch.setattr("webhook.initscript.text", lambda: "another script")
    assert before != load_text(STANDALONE, "a").revision


@pytest.mark.parametrize(
    ("condition", "team", "fires"),
    [
        ("labels: {team: '!Exists'}", "vision", False),
        ("labels: {team: '!DoesNotExist'}", "vision", True),
        # Unlike a label selector, the operator treats an empty value as a missing label.
        ("labels: {team: Exists}", "", False),
        ("labels: {team: DoesNotExist}", "", True),
        ("labelSelector: {matchExpressions: [{key: team, operator: Exists}]}", "", True),
    ],
)
def test_an_operator_can_be_negated_and_treats_an_empty_value_as_missing(
    condition: str, team: str, *, fires: bool
) -> None:
    match = f"{{workload: mpijob, role: worker, {condition}}}"
    table = load_text(f"{EXTENDS}rules: [{{name: mine, reason: r, match: {match}, warn: w}}]\n", SOURCE)
    job = mpijob(4)
    job["metadata"]["labels"] = {"team": team}
    assert ("mine" in admit(table, request_for(job)).fired()) == fires


ANNOTATIONS = {"x.io/a": "ok", "x.io/b": "secret"}


@pytest.mark.parametrize(
    ("pattern", "values", "fires"),
    [
        ("secret", ANNOTATIONS, True),
        ("ok", ANNOTATIONS, True),
        ("else", ANNOTATIONS, False),
        ("'!secret'", ANNOTATIONS, False),
        ("'!else'", ANNOTATIONS, True),
        ("[ok, '!secret']", ANNOTATIONS, False),
        ("[ok, '!else']", ANNOTATIONS, True),
        ("Exists", {"x.io/a": "", "x.io/b": "1"}, True),
        ("DoesNotExist", {"x.io/a": "", "x.io/b": "1"}, False),
        ("'!Exists'", {"x.io/a": "", "x.io/b": "1"}, False),
        ("DoesNotExist", {"x.io/a": ""}, True),
        ("DoesNotExist", {}, True),
        ("'!secret'", {}, True),
        ("Exists", {}, False),
    ],
)
@pytest.mark.parametrize("condition", ["annotations: {x.io/*", "template: {/metadata/annotations/x.io~1*"])
def test_a_condition_with_a_wildcard_key_checks_every_key_that_matches(
    condition: str, pattern: str, values: dict[str, str], *, fires: bool
) -> None:
    match = f"{{workload: mpijob, role: worker, {condition}: {pattern}}}}}"
    table = extend_table(f"rules: [{{name: mine, reason: r, match: {match}, warn: w}}]\n")
    job = mpijob(4)
    job["metadata"]["annotations"] = {**values}
    job["spec"]["mpiReplicaSpecs"]["Worker"]["template"]["metadata"] = {"annotations": {**values}}
    assert ("mine" in outcome(table, job).fired()) == fires


def test_a_condition_on_a_list_checks_every_element() -> None:
    match = "{workload: mpijob, role: worker, template: {'/spec/initContainers[*]/image': bad}}"
    table = extend_table(f"rules: [{{name: mine, reason: r, match: {match}, deny: not permitted}}]\n")
    job = mpijob(4)
    images = [{"name": "a", "image": "good"}, {"name": "b", "image": "bad"}]
    job["spec"]["mpiReplicaSpecs"]["Worker"]["template"]["spec"]["initContainers"] = images
    assert [str(message) for message in outcome(table, job).denials] == ["not permitted"]


@pytest.mark.parametrize(
    ("pattern", "fires"),
    [
        ("'!$(units.belowBlock)'", True),
        ("$(units.belowBlock)", False),
        ("[$(units.belowBlock), '!else']", False),
        ("[$(units.belowBlock), mine]", True),
        ("['!mine', '!$(units.belowBlock)']", False),
    ],
)
def test_an_empty_list_excludes_nothing_and_allows_nothing(pattern: str, *, fires: bool) -> None:
    match = f"{{workload: mpijob, role: worker, template: {{/spec/schedulerName: {pattern}}}}}"
    table = extend_table(f"rules: [{{name: mine, reason: r, match: {match}, warn: w}}]\n")
    job = mpijob(1)  # a block of one node has no smaller units
    job["spec"]["mpiReplicaSpecs"]["Worker"]["template"]["spec"]["schedulerName"] = "mine"
    assert ("mine" in outcome(table, job).fired()) == fires
