"""The handlers other than /mutate's: jobs that came through unmutated, and ConfigMaps with broken tables."""

from dataclasses import replace
from typing import Any

import pytest

from testbed.mpijob import mpijob
from tests.helpers import load_text, requested
from tests.rules.tables import EXTENDS
from webhook.admission import handlers
from webhook.admission.handlers import Handler
from webhook.admission.review import Review
from webhook.engine import Outcome
from webhook.rules.load import load_default

TABLE = load_default()


def review(obj: Any, operation: str = "CREATE") -> Review:
    return Review("uid", requested(obj), operation, str(obj.get("kind")), "name")


def answer(handler: Handler, obj: Any, operation: str = "CREATE") -> Outcome:
    outcome = handler(TABLE, review(obj, operation))
    assert outcome is not None
    return outcome


def mutated(job: Any) -> Any:
    return answer(handlers.mutate, job).after


def test_a_job_that_was_not_mutated_gets_a_warning_with_the_remedy() -> None:
    outcome = answer(handlers.verify, mpijob(4))
    assert len(outcome.warnings) == 1
    assert "changes of ultraserver-webhook: delete it and apply it again when" in outcome.warnings[0]
    assert len(outcome.warnings[0]) <= 256
    assert (outcome.denials, outcome.operations) == ((), ())


def test_where_it_is_required_such_a_job_is_refused() -> None:
    outcome = answer(handlers.require, mpijob(4))
    assert len(outcome.denials) == 1
    assert outcome.operations == ()
    # It was never stored, so there is nothing to delete.
    assert "changes of ultraserver-webhook: apply it again when" in outcome.denials[0]


@pytest.mark.parametrize("handler", [handlers.verify, handlers.require])
def test_a_generated_name_which_mutation_did_not_see_is_no_reason_to_complain(handler: Handler) -> None:
    job = mpijob(4, generate_name="gen-")
    job["metadata"]["managedFields"] = [{"manager": "kubectl", "time": "2026-01-01T00:00:00Z"}]
    stored = mutated(job)
    stored = {**stored, "metadata": {**stored["metadata"], "name": "gen-x7k2p"}}
    outcome = answer(handler, stored)
    assert (outcome.warnings, outcome.denials) == ((), ())


@pytest.mark.parametrize("handler", [handlers.verify, handlers.require])
def test_a_generated_name_that_keeps_only_the_beginning_of_a_long_generate_name(handler: Handler) -> None:
    job = mpijob(4, generate_name="g" * 60 + "-")
    stored = mutated(job)
    stored = {**stored, "metadata": {**stored["metadata"], "name": "g" * 58 + "x7k2p"}}
    outcome = answer(handler, stored)
    assert (outcome.warnings, outcome.denials) == ((), ())


@pytest.mark.parametrize("handler", [handlers.verify, handlers.require])
def test_a_copy_of_an_exported_job_with_a_generated_name_is_no_reason_to_complain(handler: Handler) -> None:
    # Validation has another uid than mutation, and managedFields say that a client sent the record.
    sent = {"f:metadata": {"f:annotations": {"f:ultraserver-webhook.io/added": {}}}}
    copy = mutated(mpijob(4, generate_name="gen-"))
    copy["metadata"]["managedFields"] = [{"time": "2026-01-01T00:00:00Z", "fieldsV1": sent}]
    stored = handlers.mutate(TABLE, Review("first", requested(copy, uid="first"), "CREATE", "MPIJob", ""))
    assert stored is not None
    metadata = {**stored.after["metadata"], "name": "gen-x7k2p"}
    outcome = answer(handler, {**stored.after, "metadata": metadata})
    assert (outcome.warnings, outcome.denials) == ((), ())
    # That is so only where the label follows from the uid.
    other = copy | {"metadata": metadata}
    assert answer(handlers.require, other).denials


@pytest.mark.parametrize("handler", [handlers.verify, handlers.require])
def test_defaults_of_the_api_server_in_what_was_added_are_no_reason_to_complain(handler: Handler) -> None:
    add = "{spec: {volumes: [{name: ca, configMap: {name: ca}}]}}"
    rule = f"rules: [{{name: ca, reason: r, match: {{role: worker}}, add: {add}}}]"
    table = load_text(EXTENDS + rule, "t")
    limits = {"limits": {"aws.amazon.com/neuron": 16}}
    pod = {"containers": [{"name": "main", "image": "i", "resources": limits}]}
    spec = {"parallelism": 4, "completions": 4, "completionMode": "Indexed", "template": {"spec": pod}}
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "train"}, "spec": spec}
    stored = handlers.mutate(table, review(job))
    assert stored is not None
    stored.after["spec"]["template"]["spec"]["volumes"][0]["configMap"]["defaultMode"] = 420
    outcome = handler(table, review(stored.after))
    assert outcome is not None
    assert (outcome.warnings, outcome.denials) == ((), ())


def test_a_job_that_is_not_ours_passes_where_mutation_is_required() -> None:
    outcome = answer(handlers.require, mpijob(4, resource=None))
    assert (outcome.warnings, outcome.denials) == ((), ())


@pytest.mark.parametrize("handler", [handlers.verify, handlers.require])
def test_only_creation_is_verified(handler: Handler) -> None:
    assert handler(TABLE, review(mpijob(4), "UPDATE")) is None


def test_an_update_gets_back_what_it_takes_out_of_a_job_whose_pods_are_still_to_come() -> None:
    stored = mutated(mpijob(4))
    outcome = handlers.mutate(TABLE, replace(review(mpijob(4), "UPDATE"), stored=stored))
    assert outcome is not None
    assert outcome.after == stored


@pytest.mark.parametrize("operation", ["DELETE", "CONNECT", ""])
def test_nothing_else_is_mutated(operation: str) -> None:
    job = replace(review(mpijob(4), operation), stored=mutated(mpijob(4)))
    assert handlers.mutate(TABLE, job) is None


@pytest.mark.parametrize("operation", ["CREATE", "UPDATE"])
def test_a_config_map_with_a_broken_table_is_refused_with_every_problem(operation: str) -> None:
    broken = EXTENDS + "rules: [{name: x, reasn: y, match: {role: worker}}]\nmode: maybe\n"
    outcome = answer(handlers.rule_table, {"kind": "ConfigMap", "data": {"rules.yaml": broken}}, operation)
    assert any(
        "rules.yaml:4: rules[0].reasn: unknown key 'reasn'; did you mean 'reason'?" in d
        for d in outcome.denials
    )
    assert any("rules.yaml:5: mode" in denial for denial in outcome.denials)


OVER = EXTENDS + "rules: [{name: hostfile, mode: 'off'}]\n"


@pytest.mark.parametrize(
    "data",
    [
        {"rules.yaml": EXTENDS},
        {"rules.yaml": EXTENDS, "notes.txt": "anything: ["},
        {"rules.yml": EXTENDS},
        {"rules.yaml": OVER, "10-some.yaml": EXTENDS},
    ],
)
def test_a_config_map_with_a_good_table_passes(data: Any) -> None:
    assert answer(handlers.rule_table, {"kind": "ConfigMap", "data": data}).denials == ()


@pytest.mark.parametrize("data", [None, {}, {"notes.txt": EXTENDS}, {".rules.yaml": EXTENDS}])
def test_a_config_map_without_a_table_is_refused(data: Any) -> None:
    (denial,) = answer(handlers.rule_table, {"kind": "ConfigMap", "data": data}).denials
    assert denial == "data:1: there is no rule table: no file whose name ends in .yaml or .yml"


def test_the_files_of_a_config_map_are_judged_as_the_one_table_that_they_make() -> None:
    needing = (
        EXTENDS + "rules: [{name: mine, reason: mine, match: {role: worker}, needs: theirs, warn: mine}]\n"
    )
    theirs = EXTENDS + "rules: [{name: theirs, reason: r, match: {role: worker}, warn: w}]\n"
    data = {"10-theirs.yaml": theirs, "rules.yaml": needing}
    assert answer(handlers.rule_table, {"kind": "ConfigMap", "data": data}).denials == ()
    data = {"rules.yaml": needing, "z.yaml": theirs}
    (denial,) = answer(handlers.rule_table, {"kind": "ConfigMap", "data": data}).denials
    assert denial.startswith("rules.yaml:4: rules[0].needs")


def test_while_replicas_differ_a_mutated_job_gets_a_warning_and_is_not_denied() -> None:
    stored = mutated(mpijob(4))
    other = load_text(EXTENDS + "rules: [{name: nodes-with-server-id, mode: off}]\n", "t")
    outcome = handlers.require(other, review(stored))
    assert outcome is not None
    assert outcome.denials == ()
    assert outcome.warnings == (
        f"the object was mutated by rule table {TABLE.revision}, but this replica has {other.revision}",
    )
