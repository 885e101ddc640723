"""Tests that no job straddles without the placement program: each Pod gets the terms of its block."""

import contextlib
from collections import defaultdict
from collections.abc import Iterator

import pytest

from kube.api import Object
from kube.client import connect
from testbed import chart
from testbed.experiment.judge import Key
from testbed.experiment.stage import MPIJOBS, TEAMS, Stage
from testbed.mpijob import mpijob
from testbed.plane import nodes, webhook
from testbed.plane.controlplane import ControlPlane
from testbed.plane.jobs import temporary_namespace
from testbed.plane.webhook import RunningWebhook
from testbed.waiting import until
from tests.plane.short import modes, short_run

ULTRASERVERS = 6
BLOCK = "ultraserver-webhook.io/block"
INDEX = "training.kubeflow.org/replica-index"


@pytest.fixture(scope="module")
def module_stage(
    control_plane: ControlPlane,
    registered_webhook: RunningWebhook,
    labels_by_node: dict[str, dict[str, str]],
) -> Iterator[Stage]:
    """The session's control plane, on which all UltraServers except six are cordoned."""
    assert registered_webhook.url
    kept = {node["metadata"]["name"] for node in nodes.ultraserver_nodes(ULTRASERVERS)}
    fleet = {name: labels for name, labels in labels_by_node.items() if nodes.SERVER_ID_4 in labels}
    session_stage = Stage(control_plane, connect(control_plane.kubeconfig), {}, policy="webhook")
    for name in fleet.keys() - kept:
        session_stage.cordon(name)
    session_stage.sick.clear()
    session_stage.labels = {name: fleet[name] for name in kept}
    with contextlib.ExitStack() as stack:
        for team in TEAMS:
            stack.enter_context(temporary_namespace(control_plane, team))
        yield session_stage
    for name in fleet.keys() - kept:
        session_stage.cordon(name, cordoned=False)


@pytest.fixture
def stage(module_stage: Stage) -> Iterator[Stage]:
    yield module_stage
    module_stage.clear()


def workers_of(pods: list[Object]) -> list[Object]:
    """Returns the workers among the pods, including a launcher that runs ranks."""
    return [pod for pod in pods if INDEX in pod["metadata"]["labels"]]


def servers_by_block(stage: Stage, key: Key, size: int = 4) -> dict[int, set[str]]:
    """Returns the UltraServers of each block of a job, by the workers' replica index, not the block label."""
    by_block: defaultdict[int, set[str]] = defaultdict(set)
    for pod in workers_of(stage.pods(key)):
        if "nodeName" in pod["spec"]:
            block = int(pod["metadata"]["labels"][INDEX]) // size
            by_block[block].add(stage.labels[pod["spec"]["nodeName"]][nodes.SERVER_ID_4])
    return dict(by_block)


def bound(stage: Stage, key: Key, count: int) -> list[Object]:
    """Waits until ``count`` workers of a job have a node, and returns all its workers."""
    pods = stage.follow(key, lambda obj: sum("nodeName" in pod["spec"] for pod in workers_of(obj)) == count)
    return workers_of(pods)


def is_decided(pods: list[Object]) -> bool:
    """Returns whether each of eight workers has a node, or is marked as unschedulable."""
    result = workers_of(pods)
    return len(result) == 8 and all("nodeName" in pod["spec"] or is_unschedulable(pod) for pod in result)


def is_unschedulable(pod: Object) -> bool:
    return any(
        condition.get("reason") == "Unschedulable" for condition in pod["status"].get("conditions", ())
    )


def assert_whole(stage: Stage, key: Key, blocks: int) -> None:
    by_block = servers_by_block(stage, key)
    assert len(by_block) == blocks
    assert all(len(servers) == 1 for servers in by_block.values()), by_block
    assert len(set.union(*by_block.values())) == blocks, by_block


@pytest.mark.limit(60, "runs jobs for one and a half times the nodes, until all have ended")
@modes
def test_no_job_straddles_next_to_sick_nodes(mode: str, stage: Stage, seed: int) -> None:
    result, messages = short_run(stage, mode, seed)
    # Two jobs can each hold a part of their blocks, and then block each other.
    assert result.whole or result.held, "no job has any node"
    assert result.straddle == 0, messages
    # No block of a waiting job is on two UltraServers. So the job can continue when a node returns.
    for key in stage.jobs:
        assert all(len(server) == 1 for server in servers_by_block(stage, key).values()), (key, messages)


def test_a_block_waits_for_its_missing_node_and_continues_when_the_node_returns(
    stage: Stage,
) -> None:
    by_server: defaultdict[str, list[str]] = defaultdict(list)
    for name, labels in stage.labels.items():
        if nodes.SERVER_ID_4 in labels:
            by_server[labels[nodes.SERVER_ID_4]].append(name)
    broken = sorted(by_server)[1:]
    for server in broken:
        stage.cordon(min(by_server[server]))
    key = stage.apply("waits", 8)
    stage.follow(key, is_decided)
    assert not stage.job_placements()[key].placed, "one UltraServer is whole, and the job needs two"
    before = servers_by_block(stage, key)
    assert all(len(servers) == 1 for servers in before.values()), before
    for server in broken:
        stage.cordon(min(by_server[server]), cordoned=False)
    bound(stage, key, 8)
    assert_whole(stage, key, 2)
    after = servers_by_block(stage, key)
    assert {block: value for block, value in after.items() if block in before} == before


def test_a_job_with_a_generated_name_is_placed_in_blocks(stage: Stage) -> None:
    key, _ = stage.create(mpijob(8, generate_name="run-"))
    bound(stage, key, 8)
    assert_whole(stage, key, 2)


@pytest.fixture
def sends_missed_jobs(stage: Stage, helm: None) -> Iterator[None]:
    """A webhook with the rows of ``missedJobs``, which receives only the Pods that its condition selects."""
    assert helm is None
    folder, programs = stage.plane.folder / "missed-jobs", stage.plane.programs
    running = webhook.start(programs, folder, chart.RULES / "40-missed-jobs.yaml", "missed-jobs")
    document = webhook.configuration(running, "missed-jobs", values={"missedJobs": True})
    document["webhooks"] = [hook for hook in document["webhooks"] if hook["name"].startswith("pods.")]
    stage.plane.kubectl.create(document)
    yield
    stage.plane.kubectl.delete(document["kind"], document["metadata"]["name"])
    programs.stop(running.program)


@pytest.mark.usefixtures("sends_missed_jobs")
def test_a_job_that_the_webhook_missed_is_placed_in_blocks_when_its_pods_are_created(stage: Stage) -> None:
    team = TEAMS[1]
    opted_out = f"/metadata/labels/{webhook.INJECT.replace('/', '~1')}"
    stage.api.patch(f"/api/v1/namespaces/{team}", [{"op": "add", "path": opted_out, "value": "disabled"}])
    try:
        key = create_missed_job(stage, team)
    finally:
        stage.api.patch(f"/api/v1/namespaces/{team}", [{"op": "remove", "path": opted_out}])
    wait_until_pods_are_sent(stage, team)
    path = f"{MPIJOBS.format(team)}/{key[1]}"
    stage.api.patch(path, [{"op": "replace", "path": "/spec/runPolicy/suspend", "value": False}])
    for pod in bound(stage, key, 8):
        assert "ultraserver-webhook.io/added" not in pod["metadata"].get("annotations", {})
        assert pod["spec"]["nodeSelector"] == {nodes.INSTANCE_TYPE: nodes.TRN2U}
    assert_whole(stage, key, 2)


def create_missed_job(stage: Stage, team: str) -> Key:
    """Creates a suspended job that the webhook does not change, as soon as the opt-out label takes effect."""

    def created() -> Key | None:
        for key in list(stage.jobs):
            stage.finish(key)
        document = mpijob(8, generate_name="unseen-")
        document["spec"]["runPolicy"] = {"suspend": True}
        key, stored = stage.create(document, team)
        return key if "affinity" not in str(stored) else None

    return until(created, "a job that was stored without the webhook")


def wait_until_pods_are_sent(stage: Stage, team: str) -> None:
    """Waits until the webhook receives the namespace's Pods again and adds the block label in a dry run."""
    labels = {
        "training.kubeflow.org/operator-name": "mpi-operator",
        "training.kubeflow.org/job-role": "worker",
        "training.kubeflow.org/job-name": "probe",
        INDEX: "0",
    }
    owner = {
        "apiVersion": "kubeflow.org/v2beta1",
        "kind": "MPIJob",
        "name": "probe",
        "uid": "705ab4f5-6393-11e8-b7cc-42010a800002",
        "controller": True,
    }
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "probe", "labels": labels, "ownerReferences": [owner]},
        "spec": mpijob(1)["spec"]["mpiReplicaSpecs"]["Worker"]["template"]["spec"],
    }
    inside = stage.plane.kubectl.in_namespace(team)
    until(
        lambda: BLOCK in inside.create(pod, "--dry-run=server")["metadata"]["labels"],
        f"a call of the webhook about a Pod in {team}",
    )
