"""Without a program: no job of several UltraServers straddles, as its Pods get terms by block at creation."""

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
from testbed.plane.jobs import borrowed_namespace
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
    control_plane_nodes: dict[str, dict[str, str]],
) -> Iterator[Stage]:
    """The session's plane, with all UltraServers cordoned but a few."""
    assert registered_webhook.url
    kept = {node["metadata"]["name"] for node in nodes.ultraserver_nodes(ULTRASERVERS)}
    fleet = {name: labels for name, labels in control_plane_nodes.items() if nodes.SERVER_ID_4 in labels}
    made = Stage(control_plane, connect(control_plane.kubeconfig), {}, policy="webhook")
    for name in fleet.keys() - kept:
        made.cordon(name)
    made.sick.clear()
    made.labels = {name: fleet[name] for name in kept}
    with contextlib.ExitStack() as spaces:
        for team in TEAMS:
            spaces.enter_context(borrowed_namespace(control_plane, team))
        yield made
    for name in fleet.keys() - kept:
        made.cordon(name, cordoned=False)


@pytest.fixture
def stage(module_stage: Stage) -> Iterator[Stage]:
    yield module_stage
    module_stage.clear()


def numbered(pods: list[Object]) -> list[Object]:
    """Returns the pods that take nodes: workers, and a launcher that runs ranks."""
    return [pod for pod in pods if INDEX in pod["metadata"]["labels"]]


def servers(stage: Stage, key: Key, size: int = 4) -> dict[int, set[str]]:
    """Returns the UltraServers of each block of a job, by the pods' numbers and not by our label."""
    by_block: defaultdict[int, set[str]] = defaultdict(set)
    for pod in numbered(stage.pods(key)):
        if "nodeName" in pod["spec"]:
            block = int(pod["metadata"]["labels"][INDEX]) // size
            by_block[block].add(stage.labels[pod["spec"]["nodeName"]][nodes.SERVER_ID_4])
    return dict(by_block)


def bound(stage: Stage, key: Key, count: int) -> list[Object]:
    """Returns the pods of a job that take nodes, once this many have one."""
    pods = stage.follow(key, lambda obj: sum("nodeName" in pod["spec"] for pod in numbered(obj)) == count)
    return numbered(pods)


def judged(pods: list[Object]) -> bool:
    """Returns whether the scheduler has a node for each of eight pods, or has reported that there is none."""
    result = numbered(pods)
    return len(result) == 8 and all("nodeName" in pod["spec"] or has_none(pod) for pod in result)


def has_none(pod: Object) -> bool:
    return any(each.get("reason") == "Unschedulable" for each in pod["status"].get("conditions", ()))


def assert_whole(stage: Stage, key: Key, blocks: int) -> None:
    on = servers(stage, key)
    assert len(on) == blocks
    assert all(len(each) == 1 for each in on.values()), on
    assert len(set.union(*on.values())) == blocks, on


@pytest.mark.limit(60, "jobs for one and a half times the nodes, until all have ended")
@modes
def test_with_sick_nodes_about_no_job_straddles(mode: str, stage: Stage, seed: int) -> None:
    result, before = short_run(stage, mode, seed)
    # Who comes first is chance: jobs that each have a part of their blocks keep each other from the rest.
    assert result.whole or result.held, "no job has any node"
    assert result.straddle == 0, before
    # Nor does a block of a job that waits: when a node comes back the job goes on where it is.
    for key in stage.jobs:
        assert all(len(server) == 1 for server in servers(stage, key).values()), (key, before)


def test_a_block_waits_for_its_missing_node_and_continues_when_the_node_returns(
    stage: Stage,
) -> None:
    by_server: defaultdict[str, list[str]] = defaultdict(list)
    for name, labels in stage.labels.items():
        if nodes.SERVER_ID_4 in labels:
            by_server[labels[nodes.SERVER_ID_4]].append(name)
    others = sorted(by_server)[1:]
    for server in others:
        stage.cordon(min(by_server[server]))
    key = stage.apply("waits", 8)
    stage.follow(key, judged)
    assert not stage.standings()[key].placed, "one UltraServer is whole, and the job needs two"
    on = servers(stage, key)
    assert all(len(on_servers) == 1 for on_servers in on.values()), on
    for server in others:
        stage.cordon(min(by_server[server]), cordoned=False)
    bound(stage, key, 8)
    assert_whole(stage, key, 2)
    assert {block: value for block, value in servers(stage, key).items() if block in on} == on


def test_a_job_without_a_name_of_its_own_is_in_blocks_by_the_name_that_it_got(stage: Stage) -> None:
    key, _ = stage.create(mpijob(8, generate_name="run-"))
    bound(stage, key, 8)
    assert_whole(stage, key, 2)


@pytest.fixture
def sends_missed_jobs(stage: Stage, helm: None) -> Iterator[None]:
    """A webhook with the rows of missedJobs, asked about the Pods that its condition selects only."""
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
def test_a_job_that_the_webhook_did_not_see_has_blocks_when_its_pods_come_later(stage: Stage) -> None:
    team = TEAMS[1]
    opted_out = f"/metadata/labels/{webhook.INJECT.replace('/', '~1')}"
    stage.api.patch(f"/api/v1/namespaces/{team}", [{"op": "add", "path": opted_out, "value": "disabled"}])
    try:
        key = created_unseen(stage, team)
    finally:
        stage.api.patch(f"/api/v1/namespaces/{team}", [{"op": "remove", "path": opted_out}])
    wait_until_asked(stage, team)
    path = f"{MPIJOBS.format(team)}/{key[1]}"
    stage.api.patch(path, [{"op": "replace", "path": "/spec/runPolicy/suspend", "value": False}])
    for pod in bound(stage, key, 8):
        assert "ultraserver-webhook.io/added" not in pod["metadata"].get("annotations", {})
        assert pod["spec"]["nodeSelector"] == {nodes.INSTANCE_TYPE: nodes.TRN2U}
    assert_whole(stage, key, 2)


def created_unseen(stage: Stage, team: str) -> Key:
    """Returns a suspended job that was stored without the webhook, once the label has taken effect."""

    def created() -> Key | None:
        for key in list(stage.jobs):
            stage.finish(key)
        document = mpijob(8, generate_name="unseen-")
        document["spec"]["runPolicy"] = {"suspend": True}
        key, stored = stage.create(document, team)
        return key if "affinity" not in str(stored) else None

    return until(created, "a job that was stored without the webhook")


def wait_until_asked(stage: Stage, team: str) -> None:
    """Until the webhook is asked about such Pods of the namespace again: a dry run gets the label."""
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
