"""What a person reads when a job cannot be, or is not what they may think."""

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
def test_a_job_that_cannot_be_is_refused_with_the_field_the_value_and_the_fix(
    verb: tuple[str, ...], namespace: Kubectl
) -> None:
    job = mpijob(6, annotations={keys.NODE_CONFIG: "4"})
    done = namespace.run(*verb, "-f", "-", stdin=jobs.text(job), check=False)
    assert done.returncode == 1
    assert f'admission webhook "{hook_name(NAME)}" denied the request: {MESSAGE}\n' in done.stderr
    assert namespace.get_json("mpijobs")["items"] == []


@pytest.mark.parametrize("place", ["annotations", "labels"])
@pytest.mark.parametrize("word", sorted(keys.OPT_OUT_VALUES))
def test_a_job_that_is_opted_out_stays_as_it_was_written(
    word: str, place: str, namespace: Kubectl, plain_namespace: Kubectl
) -> None:
    job = mpijob(4)
    without_webhook = plain_namespace.create(job, "--dry-run=server")
    job["metadata"][place] = {keys.INJECT: word}
    assert namespace.create(job, "--dry-run=server")["spec"] == without_webhook["spec"]


CLAIMS = {
    **{f"annotation {path[-1]}": put({}, path, "1") for path in record.MARKS[1:]},
    f"label {keys.JOB}": put({}, record.JOB_LABEL, "team-b.victim"),
    "gate": {"spec": {"schedulingGates": [{"name": keys.GATE}]}},
}


# The API server itself reads these words, and asks the webhook about such a job for its claims only.
@pytest.mark.parametrize(("role", "word"), [("Launcher", "false"), ("Worker", "disabled")])
@pytest.mark.parametrize("claim", CLAIMS.values(), ids=CLAIMS)
def test_an_opted_out_job_loses_its_placement_annotation(
    claim: dict[str, Any], role: str, word: str, namespace: Kubectl
) -> None:
    job = mpijob(4, annotations={keys.INJECT: word})
    plain = template(namespace.create(job, "--dry-run=server"), role)
    own = template(job, role)
    own |= claim | {"spec": own["spec"] | claim.get("spec", {})}
    done = namespace.run("create", "--dry-run=server", "-o", "json", "-f", "-", stdin=jobs.text(job))
    assert f"removed your value: spec.mpiReplicaSpecs.{role}.template." in done.stderr
    assert template(json.loads(done.stdout), role) == plain


def test_a_job_label_that_the_user_set_is_replaced_with_a_warning(namespace: Kubectl) -> None:
    job = mpijob(4)
    template(job, "Worker")["metadata"] = {"labels": {keys.JOB: "default.another-users", "team": "research"}}
    done = namespace.run("apply", "-f", "-", stdin=jobs.text(job))
    assert (
        f"replaced your value: spec.mpiReplicaSpecs.Worker.template.metadata.labels[{keys.JOB}]"
        in done.stderr
    )
    labels = template(namespace.get_json("mpijob", "train"), "Worker")["metadata"]["labels"]
    assert labels == {keys.JOB: f"{namespace.namespace}.train", "team": "research"}
