"""Tests of the modes of rules, and of messages, placeholders and conflicts in rules."""

import pytest

from testbed.mpijob import LAUNCHER, WORKER, mpijob
from tests.rules.tables import extend_table, mutate, outcome
from webhook.engine import messages as engine_messages
from webhook.engine.outcome import RuleState
from webhook.objects.tree import get
from webhook.rules.load import load_default

LABEL = "node.kubernetes.io/instance-type"


@pytest.mark.parametrize("mode", ["shadow", "off"])
def test_unless_ignores_a_rule_that_is_off_or_in_shadow(mode: str) -> None:
    first = f"{{name: first, reason: r, match: {{role: worker}}, warn: w, mode: {mode}}}"
    second = "{name: second, reason: r, match: {role: worker}, warn: w, unless: first}"
    result = outcome(extend_table(f"rules: [{first}, {second}]"), mpijob())
    assert "second" in result.fired()
    assert "first" not in result.fired()


def test_a_table_can_make_a_packaged_rule_override_a_value_of_the_job() -> None:
    job = mpijob(
        worker_spec={"affinity": {"nodeAffinity": None}, "nodeSelector": {LABEL: "ml.trn2u.48xlarge"}}
    )
    assert get(mutate(load_default(), job), (*WORKER, "spec", "nodeSelector")) == {LABEL: "ml.trn2u.48xlarge"}
    overriding = extend_table(
        "rules: [{name: ultraserver-nodes, onConflict: override, "
        f"add: {{spec: {{nodeSelector: {{{LABEL}: trn2u.48xlarge}}}}}}}}]"
    )
    assert get(mutate(overriding, job), (*WORKER, "spec", "nodeSelector")) == {LABEL: "trn2u.48xlarge"}


def test_placeholders_in_warn_and_deny_have_the_values_of_the_job() -> None:
    table = extend_table("""
rules:
  - {name: w, reason: r, match: {role: worker}, warn: "$(job.namespace) $(job.workers) x $(worker.container)"}
  - {name: d, reason: r, match: {role: worker, shape: {nodeConfig: 1}}, deny: "$(shape.name) is not wanted"}
""")
    assert outcome(table, mpijob(4)).warnings == ("default 4 x mpitest",)
    assert outcome(table, mpijob(1)).denials == ("single-node is not wanted",)


def test_two_dollar_signs_escape_a_placeholder() -> None:
    table = extend_table("""
rules:
  - {name: w, reason: r, match: {role: worker}, warn: "$$(job.name) is not filled in, $(job.workers) is"}
""")
    assert outcome(table, mpijob(4)).warnings == ("$(job.name) is not filled in, 4 is",)


def test_a_rule_whose_placeholder_has_no_value_is_skipped_with_a_reason() -> None:
    job = mpijob()
    job["spec"]["mpiReplicaSpecs"]["Launcher"]["template"]["spec"]["containers"] = []
    result = outcome(load_default(), job)
    (row,) = [row for row in result.rules if row.name == "wait-for-all-workers"]
    assert (row.state, row.why) == (RuleState.SKIPPED, engine_messages.no_value("launcher.image"))


DEFAULT = load_default()
FIRED = outcome(DEFAULT, mpijob(4)).fired()


@pytest.mark.parametrize("name", FIRED)
def test_switching_a_rule_off_skips_the_rules_that_need_it_and_no_other_rules(name: str) -> None:
    result = outcome(extend_table(f"rules: [{{name: {name}, mode: off}}]"), mpijob(4))
    stopped = {name, *(rule.name for rule in DEFAULT.rules if rule.needs == (name,))}
    assert set(result.fired()) == set(FIRED) - stopped
    assert [rule.why for rule in result.rules if rule.name == name] == [engine_messages.SWITCHED_OFF]


def test_the_wait_container_comes_before_the_init_container() -> None:
    containers = get(mutate(DEFAULT, mpijob()), (*LAUNCHER, "spec", "initContainers"))
    assert [item["name"] for item in containers] == ["wait-hostfilename", "ultraserver-init-container"]


def test_init_containers_get_the_security_context_and_resources_of_the_launchers_container() -> None:
    own = {"securityContext": {"runAsUser": 7}, "resources": {"requests": {"cpu": "1"}}}
    job = mpijob()
    get(job, (*LAUNCHER, "spec"))["containers"][0] |= own
    for item in get(mutate(DEFAULT, job), (*LAUNCHER, "spec", "initContainers")):
        assert {key: item[key] for key in own} == own


@pytest.mark.parametrize("spelling", ["off", '"off"', "false", "Off"])
def test_off_switches_a_rule_off_in_every_spelling_of_yaml(spelling: str) -> None:
    table = extend_table(f"rules: [{{name: nodes-with-server-id, mode: {spelling}}}]")
    assert "nodes-with-server-id" not in outcome(table, mpijob(4)).fired()


def test_a_job_with_a_generated_name_is_placed_by_the_job_label() -> None:
    for workers, rows in (
        (4, ["apart-across-namespaces", "together-required"]),
        (16, ["apart-across-namespaces", "together-preferred"]),
    ):
        result = outcome(DEFAULT, mpijob(workers, generate_name="gen-"))
        assert set(rows) <= set(result.fired())
        assert "training.kubeflow.org/job-name" not in str(result.after)
        label = get(result.after, (*WORKER, "metadata", "labels", "ultraserver-webhook.io/job"))
        assert label.startswith(("default.gen-_", "default.gen_"))
