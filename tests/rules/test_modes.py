"""What a row does with its result: enforce, shadow, off; keep, override, deny."""

from typing import Any

import pytest

from tests.helpers import WORKER, mpijob
from tests.rules.tables import after, extended, outcome
from webhook.engine.outcome import State, Verdict
from webhook.engine.tree import get
from webhook.rules.load import load_default

LABEL = "node.kubernetes.io/instance-type"
SCHEDULER = """
rules:
  - name: scheduler
    reason: The Neuron scheduler.
    match: {{role: worker}}
    add: {{spec: {{schedulerName: my-scheduler, nodeSelector: {{zone: a}}}}}}
    {more}
"""


def _state(found: Any, name: str) -> tuple[State, str]:
    (row,) = [row for row in found.rules if row.name == name]
    return row.state, row.why


def test_a_rule_enforces_unless_it_says_otherwise() -> None:
    found = outcome(extended(SCHEDULER.format(more="")), mpijob())
    assert get(found.after, (*WORKER, "spec", "schedulerName")) == "my-scheduler"
    assert _state(found, "scheduler") == (State.FIRED, "The Neuron scheduler.")


def test_a_rule_in_shadow_reports_what_it_would_do_and_changes_nothing() -> None:
    table = extended(SCHEDULER.format(more="mode: shadow"))
    found = outcome(table, mpijob())
    assert get(found.after, (*WORKER, "spec", "schedulerName")) is None
    assert _state(found, "scheduler") == (
        State.SHADOWED,
        "would add to /spec/schedulerName, add to /spec/nodeSelector/zone",
    )
    assert "scheduler" not in found.fired()


def test_a_rule_in_shadow_neither_warns_nor_denies_but_says_that_it_would() -> None:
    table = extended(SCHEDULER.format(more="mode: shadow\n    warn: careful\n    deny: never"))
    found = outcome(table, mpijob())
    assert found.verdict is Verdict.ALLOWED
    assert _state(found, "scheduler")[1].endswith("say 'careful', say 'never'")


def test_a_rule_in_shadow_reports_the_conflict_that_it_would_meet() -> None:
    table = extended(SCHEDULER.format(more="mode: shadow\n    onConflict: deny"))
    found = outcome(table, mpijob(worker_spec={"schedulerName": "theirs"}))
    assert found.denials == ()
    assert (
        "meet a conflict at /spec/mpiReplicaSpecs/Worker/template/spec/schedulerName"
        in (_state(found, "scheduler")[1])
    )


def test_a_rule_that_is_off_is_skipped_with_that_reason() -> None:
    found = outcome(extended(SCHEDULER.format(more="mode: off\n    deny: never")), mpijob())
    assert found.denials == ()
    assert _state(found, "scheduler") == (State.SKIPPED, "switched off in the table")


@pytest.mark.parametrize("mode", ["shadow", "off"])
def test_a_rule_that_does_not_enforce_replaces_nothing(mode: str) -> None:
    found = outcome(extended(f"rules: [{{name: wait-for-all-workers, mode: {mode}}}]"), mpijob())
    assert "wait-hostfilename" in found.fired()
    assert "wait-for-all-workers" not in found.fired()


@pytest.mark.parametrize("on_conflict", ["", "onConflict: keep"])
def test_the_users_choice_is_kept_with_a_warning_by_default(on_conflict: str) -> None:
    job = mpijob(worker_spec={"schedulerName": "theirs"})
    found = outcome(extended(SCHEDULER.format(more=on_conflict)), job)
    assert get(found.after, (*WORKER, "spec", "schedulerName")) == "theirs"
    assert get(found.after, (*WORKER, "spec", "nodeSelector", "zone")) == "a"
    (warning,) = found.warnings
    assert warning.startswith("kept yours: /spec/mpiReplicaSpecs/Worker/template/spec/schedulerName")
    assert "theirs" in warning
    assert "my-scheduler" in warning


def test_override_replaces_the_users_choice_with_a_warning() -> None:
    job = mpijob(worker_spec={"schedulerName": "theirs"})
    found = outcome(extended(SCHEDULER.format(more="onConflict: override")), job)
    assert get(found.after, (*WORKER, "spec", "schedulerName")) == "my-scheduler"
    (warning,) = found.warnings
    assert warning.startswith("replaced yours: ")


def test_deny_refuses_naming_the_field_both_values_and_the_rule() -> None:
    job = mpijob(worker_spec={"schedulerName": "theirs"})
    found = outcome(extended(SCHEDULER.format(more="onConflict: deny")), job)
    (denial,) = found.denials
    for part in (
        "/spec/mpiReplicaSpecs/Worker/template/spec/schedulerName",
        "theirs",
        "my-scheduler",
        "scheduler",
    ):
        assert part in denial
    assert found.operations == ()


def test_what_the_user_chose_alike_is_no_conflict() -> None:
    for more in ("onConflict: deny", "onConflict: keep"):
        job = mpijob(worker_spec={"schedulerName": "my-scheduler"})
        found = outcome(extended(SCHEDULER.format(more=more)), job)
        assert found.verdict is Verdict.ALLOWED


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


def test_a_rule_whose_placeholder_the_job_has_nothing_for_is_skipped_and_says_so() -> None:
    job = mpijob()
    job["spec"]["mpiReplicaSpecs"]["Launcher"]["template"]["spec"]["containers"] = []
    found = outcome(load_default(), job)
    assert _state(found, "wait-for-all-workers") == (
        State.SKIPPED,
        "the job has nothing for $(launcher.image)",
    )
