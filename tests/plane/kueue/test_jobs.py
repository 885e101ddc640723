"""What happens to jobs that name a queue: created, admitted, evicted, admitted again."""

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
from tests.plane.kueue.jobs import healthy, leave, wait_said, wait_whole
from tests.plane.short import assert_all_whole, modes

NOWHERE = "0000000000000000"
"""The server id of a node outside a working UltraServer."""

pytestmark = pytest.mark.limit(90, "Kueue comes back to what it could not admit when its own backoff is over")


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
    wait_whole(stage, key)


@pytest.mark.skipif(
    build.OLDER, reason="its mpi-operator 0.7 keeps the launcher's pods as before Kueue chose"
)
def test_a_launcher_that_runs_ranks_is_on_the_ultraserver_of_its_workers(stage: Stage) -> None:
    document = mpijob(3, launcher_spec=template(mpijob(1), "Worker")["spec"])
    document["spec"]["runLauncherAsWorker"] = True
    key, _ = stage.create(document)
    pods = stage.follow(key, lambda pods: len(pods) == 4 and all("nodeName" in pod["spec"] for pod in pods))
    assert len({stage.labels[pod["spec"]["nodeName"]][nodes.SERVER_ID_4] for pod in pods}) == 1


def test_nodes_outside_a_working_ultraserver_are_not_one(stage: Stage) -> None:
    leave(stage, 2)
    broken = sorted(name for name in stage.usable if stage.labels[name][nodes.SERVER_ID_4] in healthy(stage))
    label(stage, broken, lambda _: NOWHERE)
    key = stage.apply("train", 4)
    wait_said(stage, key, "affinity: 8")
    label(stage, broken, lambda name: stage.labels[name][nodes.SERVER_ID_4])
    wait_whole(stage, key)


def label(stage: Stage, names: list[str], server: Callable[[str], str]) -> None:
    path = f"/metadata/labels/{nodes.SERVER_ID_4.replace('/', '~1')}"
    for name in names:
        stage.api.patch(f"/api/v1/nodes/{name}", [{"op": "add", "path": path, "value": server(name)}])


def half(name: str) -> dict[str, Any]:
    """Returns a job of four workers that ask for half a node each, and for UltraServers all the same."""
    document = mpijob(4, name=name, annotations={"ultraserver-webhook.io/inject": "true"})
    template(document, "Worker")["spec"]["containers"][0]["resources"]["limits"]["aws.amazon.com/neuron"] = 8
    return document


def test_a_job_without_a_queue_keeps_off_the_ultraserver_of_one_with_a_queue(stage: Stage) -> None:
    leave(stage, 1)
    queued, _ = stage.create(half("queued"))
    stage.wait(lambda jobs: jobs[queued].placed)
    stage.queue = ""
    other, _ = stage.create(half("other"))
    stage.follow(other, lambda pods: "anti-affinity" in str([pod["status"] for pod in pods]))
    assert not stage.standings()[other].nodes
    stage.finish(queued)
    wait_whole(stage, other)


def test_kueue_sees_the_nodes_that_jobs_without_a_queue_hold(stage: Stage) -> None:
    leave(stage, 2)
    stage.queue = ""
    other = stage.apply("other", 4)
    wait_whole(stage, other)
    stage.queue = program.LOCAL_QUEUE
    queued = stage.apply("queued", 8)
    wait_said(stage, queued, "1 out of 2 slice(s)")
    stage.finish(other)
    wait_whole(stage, queued)


@pytest.mark.soak
@modes
def test_every_job_is_placed_whole_and_nothing_is_held_in_part(mode: str, stage: Stage, seed: int) -> None:
    assert_all_whole(stage, mode, seed)
