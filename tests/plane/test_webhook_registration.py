"""The webhook as it is registered: who asks it, where, and what one plain job becomes through it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import yaml

from contract import keys
from testbed.mpijob import mpijob
from testbed.plane.__main__ import JOB

if TYPE_CHECKING:
    from testbed.plane.kubectl import Kubectl
    from testbed.plane.webhook import RunningWebhook


def worker_template(job: dict[str, Any]) -> dict[str, Any]:
    template: dict[str, Any] = job["spec"]["mpiReplicaSpecs"]["Worker"]["template"]
    return template


def test_a_job_in_an_opted_out_namespace_stays_as_it_was_written(
    registered_webhook: RunningWebhook, plain_namespace: Kubectl
) -> None:
    assert registered_webhook.url
    stored = plain_namespace.apply(JOB)
    assert worker_template(stored) == worker_template(yaml.safe_load(JOB))


@pytest.mark.usefixtures("registered_webhook")
@pytest.mark.parametrize("place", ["annotations", "labels"])
# The API server itself looks for "false" and does not ask; the other word is the webhook's to see.
@pytest.mark.parametrize("word", ["false", "disabled"])
def test_a_job_that_is_opted_out_stays_as_it_was_written(
    word: str, place: str, namespace: Kubectl, plain_namespace: Kubectl
) -> None:
    job = mpijob(4)
    without_webhook = plain_namespace.create(job, "--dry-run=server")
    job["metadata"][place] = {keys.INJECT: word}
    assert namespace.create(job, "--dry-run=server")["spec"] == without_webhook["spec"]
