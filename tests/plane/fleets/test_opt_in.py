"""Tests of the value ``optIn``: only opted-in namespaces and opted-in jobs are sent to the webhook."""

import json
from collections.abc import Callable
from typing import Any

from contract import keys
from testbed.mpijob import mpijob
from testbed.plane import webhook
from testbed.plane.controlplane import ControlPlane
from testbed.plane.jobs import template, to_json
from testbed.plane.kubectl import Kubectl
from testbed.plane.webhook import RunningWebhook
from testbed.waiting import until
from tests.plane.fleets.installed import installed, remove_mutating_webhooks

OPT_IN = {"optIn": True}
OPT_IN_AND_FAIL = {"optIn": True, "failurePolicy": "Fail"}


def dry_run(inside: Kubectl, job: dict[str, Any] | None = None, **annotations: str) -> tuple[Any, str]:
    """Creates a job in a dry run; returns its worker template, or None if it is refused, and the messages."""
    job = job or mpijob(annotations={keys.PREFIX + key: value for key, value in annotations.items()})
    done = inside.run("create", "--dry-run=server", "-o", "json", "-f", "-", stdin=to_json(job), check=False)
    return (template(json.loads(done.stdout), "Worker") if done.returncode == 0 else None), done.stderr


def is_placed(inside: Kubectl, **annotations: str) -> bool:
    worker, messages = dry_run(inside, **annotations)
    assert messages == ""
    return "nodeSelector" in worker["spec"]


def test_only_opted_in_namespaces_and_opted_in_jobs_are_sent(
    plane: ControlPlane, running: RunningWebhook, namespace: Callable[..., Kubectl]
) -> None:
    enabled, true = namespace(inject="enabled"), namespace(inject="true")
    plain, disabled = namespace(), namespace(inject="disabled")
    with installed(plane, running, OPT_IN) as hooks:
        assert is_placed(enabled)
        assert is_placed(true)
        before = webhook.call_count(plane.kubectl, *hooks)
        assert not any(is_placed(enabled, inject=word) for word in keys.OPT_OUT_VALUES)
        assert not is_placed(plain)
        assert not is_placed(disabled, inject="true")
        assert webhook.call_count(plane.kubectl, *hooks) == before, "no webhook was called"
        assert is_placed(plain, inject="true")
        assert webhook.call_count(plane.kubectl, *hooks) == before + 2, (
            "one call to mutate the job, and one to verify it"
        )
        labelled = mpijob()
        labelled["metadata"]["labels"] = {keys.INJECT: "enabled"}
        assert "nodeSelector" in dry_run(plain, labelled)[0]["spec"]
        # A job with the copied template of a placed job is sent too, because the template has annotations.
        placed_worker, _ = dry_run(enabled)
        job = mpijob(name="copy")
        job["spec"]["mpiReplicaSpecs"]["Worker"]["template"] = placed_worker
        worker, messages = dry_run(plain, job)
        assert worker["metadata"]["labels"][keys.JOB] == f"{plain.namespace}.copy"
        assert messages == ""


def test_failure_policy_fail_applies_to_opted_in_jobs_only(
    plane: ControlPlane, running: RunningWebhook, namespace: Callable[..., Kubectl]
) -> None:
    enabled, plain = namespace(inject="enabled"), namespace()
    with installed(plane, running, OPT_IN_AND_FAIL, unreachable=True):
        assert not is_placed(plain)
        for inside, annotations in ((enabled, {}), (plain, {"inject": "true"})):
            worker, messages = dry_run(inside, **annotations)
            assert worker is None
            assert "failed calling webhook" in messages
    with installed(plane, running, OPT_IN_AND_FAIL):
        remove_mutating_webhooks(plane)
        for inside, annotations in ((enabled, {}), (plain, {"inject": "true"})):
            until(lambda at=inside, marks=annotations: dry_run(at, **marks)[0] is None, "a refusal")
            assert "without the changes of ultraserver-webhook" in dry_run(inside, **annotations)[1]
        assert not is_placed(plain)
