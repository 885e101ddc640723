"""Tenants who may create Pods, or change their own, beside whole-job admission; without the guard."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from placement.model import GATE, INDEX, JOB, NODE_CONFIG, TOPOLOGY_KEY, WORKERS
from testbed.experiment.judge import all_whole
from testbed.plane import nodes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from testbed.experiment.stage import Stage
    from testbed.plane.kubectl import Kubectl

ACCOUNT = "system:serviceaccount:ultraserver-webhook:ultraserver-placement"
EVERYTHING = 24
"""Workers that take every UltraServer of the stage."""


@pytest.fixture
def weak(stage: Stage) -> Iterator[Kubectl]:
    """Somebody who may create Pods in a namespace, and nothing else."""
    evil = stage.plane.kubectl.in_namespace("evil")
    evil.create_namespace("evil")
    evil.run("create", "role", "creator", "--verb=create", "--resource=pods")
    evil.run("create", "rolebinding", "creator", "--role=creator", "--user=mallory")
    yield evil.acting_as("mallory")
    stage.api.delete("/api/v1/namespaces/evil")
    for pod in evil.get_json("pods")["items"]:
        stage.end("evil", pod["metadata"]["name"])


def claiming(name: str, node: str = "", **said: str) -> dict[str, Any]:
    """A Pod that says about its place what its author likes, on a node or behind the gate."""
    where: dict[str, Any] = {"nodeName": node} if node else {"schedulingGates": [{"name": GATE}]}
    keys = {"workers": WORKERS, "node_config": NODE_CONFIG, "topology_key": TOPOLOGY_KEY, "job": JOB}
    annotations = {keys[key]: value for key, value in said.items()} | {INDEX: "name"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "annotations": annotations},
        "spec": {"containers": [{"name": "c", "image": "example.invalid/c"}], **where},
    }


def test_pods_that_claim_units_hold_none_begin_none_and_end_no_pass(stage: Stage, weak: Kubectl) -> None:
    plain = next(name for name, found in stage.labels.items() if nodes.SERVER_ID_4 not in found)
    taken = next(name for name, found in stage.labels.items() if nodes.SERVER_ID_4 in found)
    sleep = {"workers": "4", "node_config": "2", "topology_key": nodes.INSTANCE_TYPE}
    odd = {"workers": "2", "topology_key": nodes.SERVER_ID_4, "job": "evil.odd"}
    queue = {"workers": "24", "node_config": "4", "topology_key": nodes.SERVER_ID_4, "job": "evil.queue"}
    forged = [
        claiming("sleep-0", plain, **sleep),
        claiming("sleep-1", taken, **sleep),
        claiming("odd-0", taken, node_config="4", **odd),
        claiming("odd-1", taken, node_config="1", **odd),
        *(claiming(f"queue-{number}", **queue) for number in range(EVERYTHING - 1)),
        claiming(f"queue-{EVERYTHING - 1}", plain, **queue),
    ]
    done = weak.run(
        "create", "-f", "-", stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": forged})
    )
    assert len(done.stdout.splitlines()) == len(forged)
    key = stage.apply("victim", EVERYTHING)
    stage.start_program()
    stage.wait(lambda found: all_whole(found) and found[key].workers == EVERYTHING)
    inside = stage.plane.kubectl.in_namespace("evil")
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
