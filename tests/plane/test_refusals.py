"""Tests of the messages about a refused job and about removed values, and of opted-out jobs."""

import json
from typing import Any

import pytest

from contract import keys
from testbed.mpijob import mpijob
from testbed.plane import jobs
from testbed.plane.jobs import template
from testbed.plane.kubectl import Kubectl
from testbed.plane.webhook import NAME, hook_name
from webhook.objects import record
from webhook.objects.tree import put

pytestmark = pytest.mark.usefixtures("registered_webhook")

NODE_CONFIG = f"metadata.annotations[{keys.NODE_CONFIG}]"
FIX = "it takes 4 or a multiple of 4 workers; change the number of workers, or use node config 2 or 1"
MESSAGE = f"6 workers do not fit node config 4 of {NODE_CONFIG}: {FIX}"
VERBS = [("apply",), ("apply", "--server-side"), ("create",), ("create", "--dry-run=server")]


@pytest.mark.parametrize("verb", VERBS, ids=" ".join)
def test_a_job_of_a_wrong_size_is_refused_with_the_field_the_value_and_the_remedy(
    verb: tuple[str, ...], namespace: Kubectl
) -> None:
    job = mpijob(6, annotations={keys.NODE_CONFIG: "4"})
    result = namespace.run(*verb, "-f", "-", stdin=jobs.to_json(job), check=False)
    assert result.returncode == 1
    assert f'admission webhook "{hook_name(NAME)}" denied the request: {MESSAGE}\n' in result.stderr
    assert namespace.get_json("mpijobs")["items"] == []


@pytest.mark.parametrize("place", ["annotations", "labels"])
@pytest.mark.parametrize("word", sorted(keys.OPT_OUT_VALUES))
def test_the_webhook_does_not_change_an_opted_out_job(
    word: str, place: str, namespace: Kubectl, plain_namespace: Kubectl
) -> None:
    job = mpijob(4)
    without_webhook = plain_namespace.create(job, "--dry-run=server")
    job["metadata"][place] = {keys.INJECT: word}
    assert namespace.create(job, "--dry-run=server")["spec"] == without_webhook["spec"]


WEBHOOKS_FIELDS = {
    **{f"annotation {path[-1]}": put({}, path, "1") for path in record.MARKS[1:]},
    f"label {keys.JOB}": put({}, record.JOB_LABEL, "team-b.victim"),
    "gate": {"spec": {"schedulingGates": [{"name": keys.GATE}]}},
}
"""Fields of a pod template that only the webhook may set, as a user may forge them."""


# The API server sends an opted-out job only if its templates have fields that belong to the webhook.
@pytest.mark.parametrize(("role", "word"), [("Launcher", "false"), ("Worker", "disabled")])
@pytest.mark.parametrize("field", WEBHOOKS_FIELDS.values(), ids=WEBHOOKS_FIELDS)
def test_an_opted_out_job_loses_fields_that_only_the_webhook_may_set(
    field: dict[str, Any], role: str, word: str, namespace: Kubectl
) -> None:
    job = mpijob(4, annotations={keys.INJECT: word})
    plain = template(namespace.create(job, "--dry-run=server"), role)
    own = template(job, role)
    own |= field | {"spec": own["spec"] | field.get("spec", {})}
    result = namespace.run("create", "--dry-run=server", "-o", "json", "-f", "-", stdin=jobs.to_json(job))
    assert f"removed your value: spec.mpiReplicaSpecs.{role}.template." in result.stderr
    assert template(json.loads(result.stdout), role) == plain


def test_a_job_label_that_the_user_set_is_replaced_with_a_warning(namespace: Kubectl) -> None:
    job = mpijob(4)
    template(job, "Worker")["metadata"] = {"labels": {keys.JOB: "default.another-users", "team": "research"}}
    result = namespace.run("apply", "-f", "-", stdin=jobs.to_json(job))
    assert (
        f"replaced your value: spec.mpiReplicaSpecs.Worker.template.metadata.labels[{keys.JOB}]"
        in result.stderr
    )
    labels = template(namespace.get_json("mpijob", "train"), "Worker")["metadata"]["labels"]
    assert labels == {keys.JOB: f"{namespace.namespace}.train", "team": "research"}
