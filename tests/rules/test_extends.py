"""Another table, by YAML alone: laid over the packaged one, or a whole one of its own."""

from typing import Any

import pytest

from testbed.mpijob import LAUNCHER, WORKER, mpijob
from tests.helpers import load_text, requested
from tests.rules.tables import DOCUMENT, EXTENDS, SOURCE, WHOLE, after, extended, outcome
from webhook.engine import admit
from webhook.objects.tree import get
from webhook.rules.load import load_default

SELECTOR = (*WORKER, "spec", "nodeSelector")


def _spec(obj: Any) -> Any:
    return get(obj, (*WORKER, "spec"))


def test_extending_by_nothing_is_the_packaged_table() -> None:
    assert extended("").rules == load_default().rules
    assert extended("").shapes == load_default().shapes


def test_a_value_is_changed_and_the_others_stay() -> None:
    table = extended("values: {sharedMemory: 2Gi}")
    wait, _ = get(after(table, mpijob()), (*LAUNCHER, "spec", "initContainers"))
    assert {"name": "ULTRASERVER_WAIT_SECONDS", "value": "1800"} in wait["env"]
    assert table.workloads[2].fields["sharedMemory"].default == "2Gi"


def test_a_value_may_quote_what_the_job_gives() -> None:
    text = DOCUMENT.replace("init:1", "registry.example/$(job.namespace)/$(job.name):$(shape.nodeConfig)")
    named = "rules: [{name: ultraserver-init, match: {role: launcher}}]\n"
    table = load_text(text + named, SOURCE)
    _, init = get(after(table, mpijob(2), namespace="ml"), (*LAUNCHER, "spec", "initContainers"))
    assert init["image"] == "registry.example/ml/train:2"


def test_a_row_is_changed_key_by_key_and_keeps_its_place() -> None:
    table = extended("""
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
    table = extended("""
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
    table = extended(f"families: [{{name: trn2u, shapes: [{{name: unpaired, deny: {deny}}}]}}]")
    result = outcome(table, mpijob(3))
    assert result.denials == ("3 workers: use 2 or a multiple of 4",)
    assert result.operations == ()
    assert outcome(table, mpijob(4)).denials == ()


def test_a_new_rule_is_applied_after_the_packaged_ones() -> None:
    table = extended("""
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
    assert _spec(after(table, mpijob(4), namespace="ml"))["tolerations"] == tolerations
    assert "tolerations" not in _spec(after(table, mpijob(1)))


def test_a_container_of_ones_own_goes_before_a_packaged_one() -> None:
    table = extended("""
rules:
  - name: my-wait
    reason: We wait otherwise.
    match: {role: launcher}
    before: ultraserver-init-container
    add: {spec: {initContainers: [{name: my-wait, image: wait}]}}
  - {name: wait-for-all-workers, mode: off}
""")
    containers = get(after(table, mpijob()), (*LAUNCHER, "spec", "initContainers"))
    assert [item["name"] for item in containers] == ["my-wait", "ultraserver-init-container"]


@pytest.mark.parametrize(("workers", "fires"), [(4, ["first"]), (2, ["second"])])
def test_a_rule_fires_unless_an_earlier_one_does(workers: int, fires: list[str]) -> None:
    table = extended("""
rules:
  - {name: first, reason: r, match: {role: worker, shape: {nodeConfig: 4}}, warn: w}
  - {name: second, reason: r, match: {role: worker}, unless: [first], warn: w}
""")
    assert [name for name in outcome(table, mpijob(workers)).fired() if name in {"first", "second"}] == fires


def test_a_rule_may_ask_for_a_resource_a_workload_and_a_field() -> None:
    table = extended("""
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


def test_a_new_instance_type_makes_candidates_and_is_chosen_where_it_is_first() -> None:
    table = extended("families: [{name: trn2u, instanceTypes: [trn3u.48xlarge, trn2u.48xlarge]}]")
    label = "node.kubernetes.io/instance-type"
    assert get(after(table, mpijob()), SELECTOR) == {label: "trn3u.48xlarge"}
    theirs = mpijob(resource=None, worker_spec={"nodeSelector": {label: "trn3u.48xlarge"}})
    assert "ultraserver-nodes" in outcome(table, theirs).fired()
    assert outcome(load_default(), theirs).fired() == ()


KIND = """
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


def test_a_new_workload_kind_needs_no_python() -> None:
    pods = _spec(mpijob())
    gang = {"apiVersion": "example.com/v1", "kind": "Gang", "spec": {"size": 4, "pods": {"spec": pods}}}
    result = outcome(extended(KIND), gang)
    spec = result.after["spec"]["pods"]["spec"]
    assert spec["nodeSelector"] == {"node.kubernetes.io/instance-type": "trn2u.48xlarge"}
    assert spec["schedulerName"] == "batch"
    assert "nodes-with-server-id" in result.fired()
    assert outcome(load_default(), gang).operations == ()


def test_a_whole_other_table_has_nothing_of_the_packaged_one() -> None:
    table = load_text(WHOLE, SOURCE)
    chip = {"containers": [{"name": "x", "resources": {"limits": {"example.com/chip": 1}}}]}
    gang = {"apiVersion": "example.com/v1", "kind": "Gang", "spec": {"size": 5, "pods": {"spec": chip}}}
    result = outcome(table, gang)
    assert result.fired() == ("label",)
    assert result.after["spec"]["pods"]["metadata"]["labels"] == {"size": "5"}
    reason = "no workload of the rule table matches kind kubeflow.org/v2beta1/MPIJob"
    assert outcome(table, mpijob()).reason == reason


def test_the_revision_changes_with_the_content_and_not_with_comments(monkeypatch: pytest.MonkeyPatch) -> None:
    assert extended("# a comment\n").revision == extended("").revision
    assert extended("values: {waitSeconds: '60'}").revision != extended("").revision
    before = load_text(WHOLE, "a").revision
    assert before == load_text(WHOLE + "# more\n", "b").revision
    monkeypatch.setattr("webhook.initscript.text", lambda: "another script")
    assert before != load_text(WHOLE, "a").revision


@pytest.mark.parametrize(
    ("condition", "team", "fires"),
    [
        ("labels: {team: '!Exists'}", "vision", False),
        ("labels: {team: '!DoesNotExist'}", "vision", True),
        # Like a glob, and unlike a label selector, it takes an empty value for a missing one.
        ("labels: {team: Exists}", "", False),
        ("labels: {team: DoesNotExist}", "", True),
        ("labelSelector: {matchExpressions: [{key: team, operator: Exists}]}", "", True),
    ],
)
def test_an_operator_may_be_negated_and_sees_no_empty_value(
    condition: str, team: str, *, fires: bool
) -> None:
    match = f"{{workload: mpijob, role: worker, {condition}}}"
    table = load_text(f"{EXTENDS}rules: [{{name: mine, reason: r, match: {match}, warn: w}}]\n", SOURCE)
    job = mpijob(4)
    job["metadata"]["labels"] = {"team": team}
    assert ("mine" in admit(table, requested(job)).fired()) == fires


OTHER = {"x.io/a": "ok", "x.io/b": "secret"}


@pytest.mark.parametrize(
    ("pattern", "values", "fires"),
    [
        ("secret", OTHER, True),
        ("ok", OTHER, True),
        ("else", OTHER, False),
        ("'!secret'", OTHER, False),
        ("'!else'", OTHER, True),
        ("[ok, '!secret']", OTHER, False),
        ("[ok, '!else']", OTHER, True),
        ("Exists", {"x.io/a": "", "x.io/b": "1"}, True),
        ("DoesNotExist", {"x.io/a": "", "x.io/b": "1"}, False),
        ("'!Exists'", {"x.io/a": "", "x.io/b": "1"}, False),
        ("DoesNotExist", {"x.io/a": ""}, True),
        ("DoesNotExist", {}, True),
        ("'!secret'", {}, True),
        ("Exists", {}, False),
    ],
)
@pytest.mark.parametrize("where", ["annotations: {x.io/*", "template: {/metadata/annotations/x.io~1*"])
def test_no_key_hides_another_that_matches_the_same_wildcard(
    where: str, pattern: str, values: dict[str, str], *, fires: bool
) -> None:
    match = f"{{workload: mpijob, role: worker, {where}: {pattern}}}}}"
    table = extended(f"rules: [{{name: mine, reason: r, match: {match}, warn: w}}]\n")
    job = mpijob(4)
    job["metadata"]["annotations"] = {**values}
    job["spec"]["mpiReplicaSpecs"]["Worker"]["template"]["metadata"] = {"annotations": {**values}}
    assert ("mine" in outcome(table, job).fired()) == fires


def test_no_element_of_a_list_hides_another() -> None:
    match = "{workload: mpijob, role: worker, template: {'/spec/initContainers[*]/image': bad}}"
    table = extended(f"rules: [{{name: mine, reason: r, match: {match}, deny: not permitted}}]\n")
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
    table = extended(f"rules: [{{name: mine, reason: r, match: {match}, warn: w}}]\n")
    job = mpijob(1)  # no unit has fewer nodes than a block of one
    job["spec"]["mpiReplicaSpecs"]["Worker"]["template"]["spec"]["schedulerName"] = "mine"
    assert ("mine" in outcome(table, job).fired()) == fires
