"""Tests of the answers to reviews in the format of AdmissionReview v1."""

import pytest
from werkzeug.test import Client

from testbed.mpijob import LAUNCHER, WORKER, mpijob
from tests.admission.reviews import apply_patch, response, state_of
from tests.helpers import load_text
from webhook.admission.views import admission_blueprint
from webhook.app import create_app
from webhook.objects.tree import get, put
from webhook.rules.load import load_default

EXTENDED = "{apiVersion: ultraserver-webhook.io/v1alpha2, kind: RuleTable, extends: default, "


def test_a_plain_job_is_allowed_with_a_patch_that_places_it(client: Client) -> None:
    admission_response = response(client, mpijob())
    after = apply_patch(mpijob(), admission_response)
    assert admission_response["allowed"] is True
    assert get(after, (*WORKER, "spec", "nodeSelector")) == {
        "node.kubernetes.io/instance-type": "trn2u.48xlarge"
    }
    names = [item["name"] for item in get(after, (*LAUNCHER, "spec", "initContainers"))]
    assert names == ["wait-hostfilename", "ultraserver-init-container"]
    assert "warnings" not in admission_response


def test_the_namespace_of_the_request_is_used_and_not_the_namespace_of_the_object(client: Client) -> None:
    admission_response = response(client, mpijob(), namespace="ml")
    label = (*WORKER, "metadata", "labels", "ultraserver-webhook.io/job")
    assert get(apply_patch(mpijob(), admission_response), label) == "ml.train"


def test_audit_annotations_name_the_rules_that_fired_and_the_revision(client: Client) -> None:
    notes = response(client, mpijob())["auditAnnotations"]
    assert notes["table"] == load_default().revision
    assert notes["rules"].split(",")[:2] == ["ultraserver-nodes", "job-label"]
    assert "wait-hostfilename" not in notes["rules"].split(",")
    assert notes["shape"] == "four-node"
    assert notes["outcome"] == "allowed: its workers ask for aws.amazon.com/neuron"


@pytest.mark.parametrize("operation", ["UPDATE", "DELETE", "CONNECT", ""])
def test_operations_other_than_creation_do_not_change_an_unmutated_job(
    client: Client, operation: str
) -> None:
    for obj in (mpijob(), None):
        admission_response = response(client, obj, operation=operation, oldObject=mpijob())
        assert admission_response["allowed"] is True
        assert "patch" not in admission_response


def test_a_subresource_is_never_mutated(client: Client) -> None:
    admission_response = response(client, mpijob(), subResource="status")
    assert admission_response["allowed"] is True
    assert "patch" not in admission_response


def test_a_dry_run_gets_the_same_answer(client: Client) -> None:
    assert response(client, mpijob(), dryRun=True) == response(client, mpijob())


def test_a_denial_has_the_field_the_value_and_the_allowed_values(client: Client) -> None:
    admission_response = response(
        client, put(mpijob(), ("spec", "mpiReplicaSpecs", "Worker", "replicas"), "four")
    )
    message = (
        "the number of workers must be a whole number, 0 or more: "
        'spec.mpiReplicaSpecs.Worker.replicas is "four"'
    )
    assert admission_response["allowed"] is False
    assert admission_response["status"] == {
        "code": 422,
        "reason": "Invalid",
        "message": message,
        "status": "Failure",
    }


def test_every_reason_of_a_denial_is_in_its_message() -> None:
    rules = "rules: [{name: no-%d, reason: r, match: {role: worker}, deny: no %d}]"
    both = (rules % (1, 1))[:-1] + ", " + (rules % (2, 2))[len("rules: [") :]
    client = Client(create_app(admission_blueprint(state_of(load_text(EXTENDED + both + "}", "t")))))
    assert response(client, mpijob())["status"]["message"] == "no 1; no 2"


def test_many_long_warnings_stay_within_the_limits_of_the_api_server() -> None:
    rows = ", ".join(
        f'{{name: w-{i}, reason: r, match: {{role: worker}}, warn: "{i}\\n{"é" * 300}"}}' for i in range(40)
    )
    client = Client(
        create_app(admission_blueprint(state_of(load_text(f"{EXTENDED} rules: [{rows}]}}", "t"))))
    )
    warnings = response(client, mpijob())["warnings"]
    assert sum(len(text.encode()) for text in warnings) <= 4096
    assert warnings[0].startswith("0 é")
    assert warnings[0].endswith("…")
    assert len(warnings[0]) == 256
    assert warnings[-1] == f"and {40 - len(warnings) + 1} more"
    assert all(text.endswith("…") for text in warnings[:-1])
