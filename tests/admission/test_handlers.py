"""Tests of the handlers: jobs without the webhook's changes, updates, and ConfigMaps with rule tables."""

from dataclasses import replace
from typing import Any

import pytest

from testbed.mpijob import mpijob
from tests.helpers import load_text, request_for
from tests.rules.tables import EXTENDS
from webhook.admission import handlers
from webhook.admission.handlers import Handler
from webhook.admission.review import Review
from webhook.engine import Outcome
from webhook.rules.load import load_default

TABLE = load_default()


def review(obj: Any, operation: str = "CREATE") -> Review:
    return Review("uid", request_for(obj), operation, str(obj.get("kind")), "name")


def run_handler(handler: Handler, obj: Any, operation: str = "CREATE") -> Outcome:
    outcome = handler(TABLE, review(obj, operation))
    assert outcome is not None
    return outcome


def mutate_job(job: Any) -> Any:
    return run_handler(handlers.mutate, job).after


def test_verify_warns_of_a_job_that_was_not_mutated_and_names_the_remedy() -> None:
    outcome = run_handler(handlers.verify, mpijob(4))
    assert len(outcome.warnings) == 1
    assert "changes of ultraserver-webhook: delete it and apply it again when" in outcome.warnings[0]
    assert len(outcome.warnings[0]) <= 256
    assert (outcome.denials, outcome.operations) == ((), ())


def test_require_refuses_a_job_that_was_not_mutated() -> None:
    outcome = run_handler(handlers.require, mpijob(4))
    assert len(outcome.denials) == 1
    assert outcome.operations == ()
    # The API server did not store the job, so the user need not delete it.
    assert "changes of ultraserver-webhook: apply it again when" in outcome.denials[0]


@pytest.mark.parametrize("handler", [handlers.verify, handlers.require])
def test_a_generated_name_that_mutation_did_not_see_gives_no_message(handler: Handler) -> None:
    job = mpijob(4, generate_name="gen-")
    job["metadata"]["managedFields"] = [{"manager": "kubectl", "time": "2026-01-01T00:00:00Z"}]
    stored = mutate_job(job)
    stored = {**stored, "metadata": {**stored["metadata"], "name": "gen-x7k2p"}}
    outcome = run_handler(handler, stored)
    assert (outcome.warnings, outcome.denials) == ((), ())


@pytest.mark.parametrize("handler", [handlers.verify, handlers.require])
def test_a_generated_name_that_shortens_a_long_generate_name_gives_no_message(handler: Handler) -> None:
    job = mpijob(4, generate_name="g" * 60 + "-")
    stored = mutate_job(job)
    stored = {**stored, "metadata": {**stored["metadata"], "name": "g" * 58 + "x7k2p"}}
    outcome = run_handler(handler, stored)
    assert (outcome.warnings, outcome.denials) == ((), ())


@pytest.mark.parametrize("handler", [handlers.verify, handlers.require])
def test_a_copy_of_an_exported_job_with_a_generated_name_gives_no_message(handler: Handler) -> None:
    # The job label of a job with generateName depends on the uid of the review that mutates the job, and
    # validation has another uid. managedFields show that a client sent the record.
    managed_fields = {"f:metadata": {"f:annotations": {"f:ultraserver-webhook.io/added": {}}}}
    exported = mutate_job(mpijob(4, generate_name="gen-"))
    exported["metadata"]["managedFields"] = [{"time": "2026-01-01T00:00:00Z", "fieldsV1": managed_fields}]
    stored = handlers.mutate(
        TABLE, Review("first", request_for(exported, uid="first"), "CREATE", "MPIJob", "")
    )
    assert stored is not None
    metadata = {**stored.after["metadata"], "name": "gen-x7k2p"}
    outcome = run_handler(handler, {**stored.after, "metadata": metadata})
    assert (outcome.warnings, outcome.denials) == ((), ())
    # The templates of the exported job have the label of another job, so a job with them is refused.
    other = exported | {"metadata": metadata}
    assert run_handler(handlers.require, other).denials


@pytest.mark.parametrize("handler", [handlers.verify, handlers.require])
def test_defaults_that_the_api_server_sets_in_added_fields_give_no_message(handler: Handler) -> None:
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


def test_require_accepts_a_job_that_requests_no_devices() -> None:
    outcome = run_handler(handlers.require, mpijob(4, resource=None))
    assert (outcome.warnings, outcome.denials) == ((), ())


@pytest.mark.parametrize("handler", [handlers.verify, handlers.require])
def test_only_creation_is_verified(handler: Handler) -> None:
    assert handler(TABLE, review(mpijob(4), "UPDATE")) is None


def test_an_update_that_removes_added_fields_of_a_job_without_pods_gets_them_back() -> None:
    stored = mutate_job(mpijob(4))
    outcome = handlers.mutate(TABLE, replace(review(mpijob(4), "UPDATE"), stored=stored))
    assert outcome is not None
    assert outcome.after == stored


@pytest.mark.parametrize("operation", ["DELETE", "CONNECT", ""])
def test_only_creations_and_updates_are_mutated(operation: str) -> None:
    job = replace(review(mpijob(4), operation), stored=mutate_job(mpijob(4)))
    assert handlers.mutate(TABLE, job) is None


@pytest.mark.parametrize("operation", ["CREATE", "UPDATE"])
def test_a_config_map_with_a_broken_table_is_refused_with_every_problem(operation: str) -> None:
    broken = EXTENDS + "rules: [{name: x, reasn: y, match: {role: worker}}]\nmode: maybe\n"
    outcome = run_handler(
        handlers.rule_table, {"kind": "ConfigMap", "data": {"rules.yaml": broken}}, operation
    )
    assert any(
        "rules.yaml:4: rules[0].reasn: unknown key 'reasn'; did you mean 'reason'?" in denial
        for denial in outcome.denials
    )
    assert any("rules.yaml:5: mode" in denial for denial in outcome.denials)


OVERRIDE = EXTENDS + "rules: [{name: hostfile, mode: 'off'}]\n"


@pytest.mark.parametrize(
    "data",
    [
        {"rules.yaml": EXTENDS},
        {"rules.yaml": EXTENDS, "notes.txt": "anything: ["},
        {"rules.yml": EXTENDS},
        {"rules.yaml": OVERRIDE, "10-some.yaml": EXTENDS},
    ],
)
def test_a_config_map_with_a_good_table_passes(data: Any) -> None:
    assert run_handler(handlers.rule_table, {"kind": "ConfigMap", "data": data}).denials == ()


@pytest.mark.parametrize("data", [None, {}, {"notes.txt": EXTENDS}, {".rules.yaml": EXTENDS}])
def test_a_config_map_without_a_table_is_refused(data: Any) -> None:
    (denial,) = run_handler(handlers.rule_table, {"kind": "ConfigMap", "data": data}).denials
    assert denial == "data:1: there is no rule table: no file whose name ends in .yaml or .yml"


def test_the_files_of_a_config_map_are_checked_as_one_table() -> None:
    mine = EXTENDS + "rules: [{name: mine, reason: mine, match: {role: worker}, needs: theirs, warn: mine}]\n"
    theirs = EXTENDS + "rules: [{name: theirs, reason: r, match: {role: worker}, warn: w}]\n"
    data = {"10-theirs.yaml": theirs, "rules.yaml": mine}
    assert run_handler(handlers.rule_table, {"kind": "ConfigMap", "data": data}).denials == ()
    data = {"rules.yaml": mine, "z.yaml": theirs}
    (denial,) = run_handler(handlers.rule_table, {"kind": "ConfigMap", "data": data}).denials
    assert denial.startswith("rules.yaml:4: rules[0].needs")


def test_a_job_that_another_table_mutated_gets_a_warning_and_is_not_denied() -> None:
    stored = mutate_job(mpijob(4))
    other = load_text(EXTENDS + "rules: [{name: nodes-with-server-id, mode: off}]\n", "t")
    outcome = handlers.require(other, review(stored))
    assert outcome is not None
    assert outcome.denials == ()
    assert outcome.warnings == (
        f"the object was mutated by rule table {TABLE.revision}, but this replica has {other.revision}",
    )
