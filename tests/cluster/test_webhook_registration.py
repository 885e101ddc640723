"""The webhook as it is registered: who asks it, where, and what one plain job becomes through it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import yaml

from tests.cluster import nodes
from tests.cluster.__main__ import JOB

if TYPE_CHECKING:
    from tests.cluster.kubectl import Kubectl
    from tests.cluster.webhook import RunningWebhook


def worker_template(job: dict[str, Any]) -> dict[str, Any]:
    template: dict[str, Any] = job["spec"]["mpiReplicaSpecs"]["Worker"]["template"]
    return template


def test_a_plain_job_is_placed_on_one_ultraserver(
    registered_webhook: RunningWebhook, control_plane_nodes: dict[str, dict[str, str]], namespace: Kubectl
) -> None:
    assert registered_webhook.url
    stored = namespace.apply(JOB)
    assert worker_template(stored)["spec"]["nodeSelector"] == {nodes.INSTANCE_TYPE: nodes.TRN2U}
    pods = namespace.wait_for(
        lambda found: (
            [pod["spec"].get("nodeName") for pod in found["items"]].count(None) == 0
            and len(found["items"]) == 4
        ),
        *("pods", "-l", "training.kubeflow.org/job-role=worker"),
    )["items"]
    servers = {control_plane_nodes[pod["spec"]["nodeName"]][nodes.SERVER_ID_4] for pod in pods}
    assert len(servers) == 1


def test_a_job_in_an_opted_out_namespace_stays_as_it_was_written(
    registered_webhook: RunningWebhook, plain_namespace: Kubectl
) -> None:
    assert registered_webhook.url
    stored = plain_namespace.apply(JOB)
    assert worker_template(stored) == worker_template(yaml.safe_load(JOB))
