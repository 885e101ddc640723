"""Tests of jobs that name a queue: Kueue admits them onto whole UltraServers."""

from collections.abc import Callable
from typing import Any

import pytest

from testbed.experiment.stage import Stage
from testbed.kits import build
from testbed.mpijob import mpijob
from testbed.plane import kueue as program
from testbed.plane import nodes
from testbed.plane.jobs import template
from tests.plane.kueue.conftest import KUEUE_FIRST, WEBHOOK_FIRST
from tests.plane.kueue.jobs import cordon_all_except, healthy_servers, wait_for_message, wait_until_whole
from tests.plane.short import assert_all_whole, modes

NOWHERE = "0000000000000000"
"""The server id of a node that belongs to no working UltraServer."""

pytestmark = pytest.mark.limit(90, "Kueue tries again to admit a job only after its own backoff")


@pytest.mark.parametrize("namespace", [KUEUE_FIRST, WEBHOOK_FIRST])
@pytest.mark.parametrize("queue", [program.LOCAL_QUEUE, ""])
@pytest.mark.parametrize("workers", [4, 8])
def test_a_job_is_suspended_and_then_placed_whole_in_either_order_of_the_webhooks(
    stage: Stage, namespace: str, queue: str, workers: int
) -> None:
    stage.queue = queue
    key, stored = stage.create(mpijob(workers), namespace)
    assert stored["spec"]["runPolicy"]["suspend"] is True
    assert stored["metadata"]["labels"][program.QUEUE] == (queue or "default")
    worker = template(stored, "Worker")
    assert set(worker["spec"]["affinity"]) == {"nodeAffinity"}
    assert any(mark.startswith("kueue.x-k8s.io/podset-") for mark in worker["metadata"]["annotations"])
    containers = [container["name"] for container in template(stored, "Launcher")["spec"]["initContainers"]]
    assert containers == ["wait-hostfilename", "ultraserver-init-container"]
    wait_until_whole(stage, key)


@pytest.mark.skipif(
    build.OLDER, reason="mpi-operator 0.7 does not give the launcher the nodes that Kueue chose"
)
def test_a_launcher_that_runs_ranks_is_on_the_ultraserver_of_its_workers(stage: Stage) -> None:
    document = mpijob(3, launcher_spec=template(mpijob(1), "Worker")["spec"])
    document["spec"]["runLauncherAsWorker"] = True
    key, _ = stage.create(document)
    pods = stage.follow(key, lambda pods: len(pods) == 4 and all("nodeName" in pod["spec"] for pod in pods))
    assert len({stage.labels[pod["spec"]["nodeName"]][nodes.SERVER_ID_4] for pod in pods}) == 1


def test_kueue_does_not_use_nodes_that_belong_to_no_working_ultraserver(stage: Stage) -> None:
    cordon_all_except(stage, 2)
    broken = sorted(
        name for name in stage.usable if stage.labels[name][nodes.SERVER_ID_4] in healthy_servers(stage)
    )
    set_server_ids(stage, broken, lambda _: NOWHERE)
    key = stage.apply("train", 4)
    wait_for_message(stage, key, "affinity: 8")
    set_server_ids(stage, broken, lambda name: stage.labels[name][nodes.SERVER_ID_4])
    wait_until_whole(stage, key)


def set_server_ids(stage: Stage, names: list[str], server: Callable[[str], str]) -> None:
    path = f"/metadata/labels/{nodes.SERVER_ID_4.replace('/', '~1')}"
    for name in names:
        stage.api.patch(f"/api/v1/nodes/{name}", [{"op": "add", "path": path, "value": server(name)}])


def job_of_half_nodes(name: str) -> dict[str, Any]:
    """Returns an opted-in job of four workers, each of which requests half of a node's devices."""
    document = mpijob(4, name=name, annotations={"ultraserver-webhook.io/inject": "true"})
    template(document, "Worker")["spec"]["containers"][0]["resources"]["limits"]["aws.amazon.com/neuron"] = 8
    return document


def test_a_job_without_a_queue_does_not_share_the_ultraserver_of_a_job_with_a_queue(stage: Stage) -> None:
    cordon_all_except(stage, 1)
    queued, _ = stage.create(job_of_half_nodes("queued"))
    stage.wait(lambda jobs: jobs[queued].placed)
    stage.queue = ""
    other, _ = stage.create(job_of_half_nodes("other"))
    stage.follow(other, lambda pods: "anti-affinity" in str([pod["status"] for pod in pods]))
    assert not stage.job_placements()[other].nodes
    stage.finish(queued)
    wait_until_whole(stage, other)


def test_kueue_does_not_use_the_nodes_of_jobs_without_a_queue(stage: Stage) -> None:
    cordon_all_except(stage, 2)
    stage.queue = ""
    other = stage.apply("other", 4)
    wait_until_whole(stage, other)
    stage.queue = program.LOCAL_QUEUE
    queued = stage.apply("queued", 8)
    wait_for_message(stage, queued, "1 out of 2 slice(s)")
    stage.finish(other)
    wait_until_whole(stage, queued)


@pytest.mark.soak
@modes
def test_every_job_is_placed_whole_and_no_job_holds_only_a_part_of_its_nodes(
    mode: str, stage: Stage, seed: int
) -> None:
    assert_all_whole(stage, mode, seed)
