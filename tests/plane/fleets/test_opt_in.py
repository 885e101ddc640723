"""The value ``optIn``: namespaces that ask, and elsewhere jobs that ask."""

import json
from collections.abc import Callable
from typing import Any

from contract import keys
from testbed.mpijob import mpijob
from testbed.plane import webhook
from testbed.plane.controlplane import ControlPlane
from testbed.plane.jobs import template, text
from testbed.plane.kubectl import Kubectl
from testbed.plane.webhook import RunningWebhook
from testbed.waiting import until
from tests.plane.fleets.installed import installed, nothing_mutated

OPT_IN = {"optIn": True}
CLOSED = {"optIn": True, "failurePolicy": "Fail"}


def tried(inside: Kubectl, job: dict[str, Any] | None = None, **annotations: str) -> tuple[Any, str]:
    """Returns the worker template of a dry run, None if the job is refused; and the messages."""
    job = job or mpijob(annotations={keys.PREFIX + key: value for key, value in annotations.items()})
    done = inside.run("create", "--dry-run=server", "-o", "json", "-f", "-", stdin=text(job), check=False)
    return (template(json.loads(done.stdout), "Worker") if done.returncode == 0 else None), done.stderr


def is_placed(inside: Kubectl, **annotations: str) -> bool:
    output, printed = tried(inside, **annotations)
    assert printed == ""
    return "nodeSelector" in output["spec"]


def test_only_namespaces_that_ask_and_jobs_that_ask_are_sent(
    plane: ControlPlane, running: RunningWebhook, namespace: Callable[..., Kubectl]
) -> None:
    enabled, true, plain, off = (
        namespace(inject="enabled"),
        namespace(inject="true"),
        namespace(),
        namespace(inject="disabled"),
    )
    with installed(plane, running, OPT_IN) as hooks:
        assert is_placed(enabled)
        assert is_placed(true)
        before = webhook.call_count(plane.kubectl, *hooks)
        assert not any(is_placed(enabled, inject=word) for word in keys.OPT_OUT_VALUES)
        assert not is_placed(plain)
        assert not is_placed(off, inject="true")
        assert webhook.call_count(plane.kubectl, *hooks) == before, "no webhook was called"
        assert is_placed(plain, inject="true")
        assert webhook.call_count(plane.kubectl, *hooks) == before + 2, "to mutate, and to verify"
        labelled = mpijob()
        labelled["metadata"]["labels"] = {keys.INJECT: "enabled"}
        assert "nodeSelector" in tried(plain, labelled)[0]["spec"]
        # A copy of a job that was placed is one that asked.
        copy, _ = tried(enabled)
        job = mpijob(name="copy")
        job["spec"]["mpiReplicaSpecs"]["Worker"]["template"] = copy
        again, output = tried(plain, job)
        assert again["metadata"]["labels"][keys.JOB] == f"{plain.namespace}.copy"
        assert output == ""


def test_failing_closed_is_for_those_that_ask_only(
    plane: ControlPlane, running: RunningWebhook, namespace: Callable[..., Kubectl]
) -> None:
    enabled, plain = namespace(inject="enabled"), namespace()
    with installed(plane, running, CLOSED, away=True):
        assert not is_placed(plain)
        for inside, asks in ((enabled, {}), (plain, {"inject": "true"})):
            refused, output = tried(inside, **asks)
            assert refused is None
            assert "failed calling webhook" in output
    with installed(plane, running, CLOSED):
        nothing_mutated(plane)
        for inside, asks in ((enabled, {}), (plain, {"inject": "true"})):
            until(lambda inside=inside, asks=asks: tried(inside, **asks)[0] is None, "a refusal")
            assert "without the changes of ultraserver-webhook" in tried(inside, **asks)[1]
        assert not is_placed(plain)
