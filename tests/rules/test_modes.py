"""Modes of rules: a line of YAML switches each off."""

import pytest

from testbed.mpijob import LAUNCHER, WORKER, mpijob
from tests.rules.tables import after, extended, outcome
from webhook.engine.outcome import RuleState
from webhook.objects.tree import get
from webhook.rules.load import load_default

LABEL = "node.kubernetes.io/instance-type"


@pytest.mark.parametrize("mode", ["shadow", "off"])
def test_a_rule_that_does_not_enforce_keeps_no_other_from_firing(mode: str) -> None:
    first = f"{{name: first, reason: r, match: {{role: worker}}, warn: w, mode: {mode}}}"
    second = "{name: second, reason: r, match: {role: worker}, warn: w, unless: first}"
    result = outcome(extended(f"rules: [{first}, {second}]"), mpijob())
    assert "second" in result.fired()
    assert "first" not in result.fired()


def test_the_packaged_selector_can_be_made_to_override_another_selection() -> None:
    job = mpijob(
        worker_spec={"affinity": {"nodeAffinity": None}, "nodeSelector": {LABEL: "ml.trn2u.48xlarge"}}
    )
    assert get(after(load_default(), job), (*WORKER, "spec", "nodeSelector")) == {LABEL: "ml.trn2u.48xlarge"}
    strict = extended(
        "rules: [{name: ultraserver-nodes, onConflict: override, "
        f"add: {{spec: {{nodeSelector: {{{LABEL}: trn2u.48xlarge}}}}}}}}]"
    )
    assert get(after(strict, job), (*WORKER, "spec", "nodeSelector")) == {LABEL: "trn2u.48xlarge"}


def test_warn_and_deny_quote_the_job() -> None:
    table = extended("""
rules:
  - {name: w, reason: r, match: {role: worker}, warn: "$(job.namespace) $(job.workers) x $(worker.container)"}
  - {name: d, reason: r, match: {role: worker, shape: {nodeConfig: 1}}, deny: "$(shape.name) is not wanted"}
""")
    assert outcome(table, mpijob(4)).warnings == ("default 4 x mpitest",)
    assert outcome(table, mpijob(1)).denials == ("single-node is not wanted",)


def test_a_second_dollar_makes_a_placeholder_text() -> None:
    table = extended("""
rules:
  - {name: w, reason: r, match: {role: worker}, warn: "$$(job.name) is not filled in, $(job.workers) is"}
""")
    assert outcome(table, mpijob(4)).warnings == ("$(job.name) is not filled in, 4 is",)


def test_a_rule_whose_placeholder_has_no_value_is_skipped_with_a_reason() -> None:
    job = mpijob()
    job["spec"]["mpiReplicaSpecs"]["Launcher"]["template"]["spec"]["containers"] = []
    result = outcome(load_default(), job)
    (row,) = [row for row in result.rules if row.name == "wait-for-all-workers"]
    assert (row.state, row.why) == (RuleState.SKIPPED, "the job has no value for $(launcher.image)")


DEFAULT = load_default()
FIRED = outcome(DEFAULT, mpijob(4)).fired()


@pytest.mark.parametrize("name", FIRED)
def test_a_rule_is_switched_off_by_its_name_and_nothing_else_goes_but_what_needs_it(name: str) -> None:
    off = outcome(extended(f"rules: [{{name: {name}, mode: off}}]"), mpijob(4))
    gone = {name, *(rule.name for rule in DEFAULT.rules if rule.needs == (name,))}
    assert set(off.fired()) == set(FIRED) - gone
    assert [rule.why for rule in off.rules if rule.name == name] == ["switched off"]


def test_the_launcher_waits_before_it_checks() -> None:
    containers = get(after(DEFAULT, mpijob()), (*LAUNCHER, "spec", "initContainers"))
    assert [item["name"] for item in containers] == ["wait-hostfilename", "ultraserver-init-container"]


def test_init_containers_may_do_and_ask_for_what_the_launchers_own_container_does() -> None:
    own = {"securityContext": {"runAsUser": 7}, "resources": {"requests": {"cpu": "1"}}}
    job = mpijob()
    get(job, (*LAUNCHER, "spec"))["containers"][0] |= own
    for item in get(after(DEFAULT, job), (*LAUNCHER, "spec", "initContainers")):
        assert {key: item[key] for key in own} == own


@pytest.mark.parametrize("spelling", ["off", '"off"', "false", "Off"])
def test_off_means_off_in_every_reading_of_yaml(spelling: str) -> None:
    table = extended(f"rules: [{{name: nodes-with-server-id, mode: {spelling}}}]")
    assert "nodes-with-server-id" not in outcome(table, mpijob(4)).fired()


def test_a_job_with_a_generated_name_is_placed_by_a_label_of_the_webhook() -> None:
    for workers, rows in (
        (4, ["apart-across-namespaces", "together-required"]),
        (16, ["apart-across-namespaces", "together-preferred"]),
    ):
        result = outcome(DEFAULT, mpijob(workers, generate_name="gen-"))
        assert set(rows) <= set(result.fired())
        assert "training.kubeflow.org/job-name" not in str(result.after)
        label = get(result.after, (*WORKER, "metadata", "labels", "ultraserver-webhook.io/job"))
        assert label.startswith(("default.gen-_", "default.gen_"))
