"""What a row does with its result; test_messages.py has the messages for shadow, off and conflicts."""

import pytest

from testbed.mpijob import WORKER, mpijob
from tests.rules.tables import after, extended, outcome
from webhook.engine.outcome import State
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
    assert (row.state, row.why) == (State.SKIPPED, "the job has nothing for $(launcher.image)")
