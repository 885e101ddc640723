"""Tenants who may create Pods, or change their own, beside whole-job admission; without the guard."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from testbed.experiment import hostile
from testbed.experiment.hostile import GATED, claiming, place
from testbed.experiment.judge import all_whole
from testbed.plane import nodes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from testbed.experiment.stage import Stage
    from testbed.plane.kubectl import Kubectl

ACCOUNT = "system:serviceaccount:ultraserver-webhook:ultraserver-placement"
pytestmark = pytest.mark.limit(
    45, "24 workers each for two jobs; a write that was refused pauses ten seconds"
)
EVERYTHING = 24
"""Workers that take every UltraServer of the stage."""


@pytest.fixture
def weak(stage: Stage) -> Iterator[Kubectl]:
    """Somebody who may create Pods in a namespace, and nothing else."""
    yield hostile.intruder(stage.plane.kubectl)
    stage.api.delete(f"/api/v1/namespaces/{hostile.NAMESPACE}")
    for pod in stage.plane.kubectl.in_namespace(hostile.NAMESPACE).get_json("pods")["items"]:
        stage.end(hostile.NAMESPACE, pod["metadata"]["name"])


def test_pods_that_claim_units_hold_none_begin_none_and_end_no_pass(stage: Stage, weak: Kubectl) -> None:
    plain = next(name for name, found in stage.labels.items() if nodes.SERVER_ID_4 not in found)
    taken = next(name for name, found in stage.labels.items() if nodes.SERVER_ID_4 in found)
    sleep = place(4, 2, nodes.INSTANCE_TYPE)
    queue = place(EVERYTHING, 4, job="evil.queue")
    forged = [
        claiming("sleep-0", sleep, nodeName=plain),
        claiming("sleep-1", sleep, nodeName=taken),
        claiming("odd-0", place(2, 4, job="evil.odd"), nodeName=taken),
        claiming("odd-1", place(2, 1, job="evil.odd"), nodeName=taken),
        *(claiming(f"queue-{number}", queue, **GATED) for number in range(EVERYTHING - 1)),
        claiming(f"queue-{EVERYTHING - 1}", queue, nodeName=plain),
    ]
    done = weak.run(
        "create", "-f", "-", stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": forged})
    )
    assert len(done.stdout.splitlines()) == len(forged)
    key = stage.apply("victim", EVERYTHING)
    stage.start_program()
    stage.wait(lambda found: all_whole(found) and found[key].workers == EVERYTHING)
    inside = stage.plane.kubectl.in_namespace(hostile.NAMESPACE)
    told = inside.wait_for(
        lambda found: [event["message"] for event in found["items"]],
        *("events", "--field-selector", "involvedObject.name=sleep-0,reason=Waiting"),
    )
    assert nodes.INSTANCE_TYPE in told["items"][0]["message"]
    assert len(inside.get_json("pods")["items"]) == len(forged)


POLICY = """
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {{name: police}}
spec:
  failurePolicy: Fail
  matchConstraints:
    namespaceSelector: {{matchLabels: {{kubernetes.io/metadata.name: team-b}}}}
    resourceRules: [{{apiGroups: [""], apiVersions: [v1], resources: [pods], operations: [UPDATE]}}]
  matchConditions: [{{name: program, expression: "request.userInfo.username == '{account}'"}}]
  validations: [{{expression: "!object.metadata.name.endsWith('-3')", message: no updates in team-b}}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {{name: police}}
spec: {{policyName: police, validationActions: [Deny]}}
"""


def test_a_job_that_a_policy_forbids_to_change_is_told_and_holds_nothing(stage: Stage) -> None:
    kubectl = stage.plane.kubectl
    kubectl.run("apply", "-f", "-", stdin=POLICY.format(account=ACCOUNT))
    try:
        refused = stage.apply("refused", EVERYTHING, "team-b")
        stage.follow(
            refused,
            lambda pods: len([pod for pod in pods if "-worker-" in pod["metadata"]["name"]]) == EVERYTHING,
        )
        stage.start_program()
        kubectl.in_namespace("team-b").wait_for(
            lambda found: [event for event in found["items"] if "no updates in team-b" in event["message"]],
            *("events", "--field-selector", "reason=Waiting"),
        )
        key = stage.apply("victim", EVERYTHING)
        stage.wait(lambda found: found[key].whole)
    finally:
        kubectl.run("delete", "-f", "-", stdin=POLICY.format(account=ACCOUNT))
