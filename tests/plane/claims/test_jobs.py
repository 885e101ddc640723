"""Tests that the real scheduler and controllers place jobs with claims whole, and jobs of the plugin too."""

import random
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from testbed.experiment.experiment import Result, burst
from testbed.experiment.judge import all_whole
from testbed.experiment.stage import TEAMS, Stage, make_sick
from testbed.kits import build
from testbed.mpijob import mpijob
from testbed.plane import nodes
from testbed.plane.jobs import ROLE, clear, workers_of
from testbed.plane.kubectl import Object
from testbed.plane.plugin import eventually
from testbed.waiting import PATIENCE
from tests.plane.bound import wait_bound, wait_count
from tests.plane.claims.conftest import AWS_TEMPLATE, Fleet
from tests.plane.claims.pods import GROUP_INDEX, claim_fields, pod_with_claim, units, vllm_set
from tests.plane.kinds.jobs import jobset

SICK = 0.25  # the share of the UltraServers in which a node is cordoned
JOB_NAME = "batch.kubernetes.io/job-name"


def nemo_job() -> Object:
    """Returns the MPIJob of AWS's document about the driver. Its workers also mount shared memory."""
    container_claim, pod_claims = claim_fields(AWS_TEMPLATE)
    mount = {"name": "dshm", "mountPath": "/dev/shm"}  # noqa: S108 - the path in the document
    image = "123456789012.dkr.ecr.us-west-2.amazonaws.com/neuronx_nemo:latest"
    fields = {"image": image, "imagePullPolicy": "Always", "volumeMounts": [mount]}
    containers = [{"name": "mpitest", **fields, **container_claim}]
    volumes = [{"name": "dshm", "emptyDir": {"medium": "Memory"}}]
    spec = {"containers": containers, "volumes": volumes, **pod_claims}
    return mpijob(4, name="nemo", worker_spec=spec, resource=None)


def test_the_mpijob_of_aws_with_claims_is_placed_next_to_a_job_of_the_plugin(fleet: Fleet) -> None:
    """The packaged table has the name of the document's template."""
    fleet.plugin.apply("plain", 4)
    key, _ = fleet.driver.create(nemo_job())
    for stage in (fleet.plugin, fleet.driver):
        stage.wait(all_whole)
    assert all("ultraserver-webhook.io/opened" in str(pod) for pod in workers_of(fleet.driver.pods(key)))


@pytest.mark.parametrize("size", [4, 2])
def test_the_leaderworkersets_of_aws_are_placed_whole(size: int, fleet: Fleet) -> None:
    inside = fleet.driver.plane.kubectl.in_namespace(TEAMS[0])
    inside.create(vllm_set(size))
    unit_label = f"{nodes.LABEL}server-id-{size}"
    units_by_group = units(fleet.driver, wait_count(inside, 2 * size), GROUP_INDEX, unit_label)
    assert [len(group_units) for group_units in units_by_group] == [1, 1]
    assert units_by_group[0] != units_by_group[1]


def test_a_jobset_is_placed_whole(fleet: Fleet) -> None:
    two_jobs = jobset(2, 4)
    pod = two_jobs["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]
    container_claim, pod_claims = claim_fields(nodes.template_name(4))
    pod["containers"] = [pod["containers"][0] | container_claim]
    inside = fleet.driver.plane.kubectl.in_namespace(TEAMS[0])
    pod |= pod_claims
    inside.create(two_jobs)
    units_by_job = units(fleet.driver, wait_count(inside, 8), JOB_NAME)
    assert [len(job_units) for job_units in units_by_job] == [1, 1]


@pytest.mark.limit(30, "ten jobs, one after the other")
def test_jobs_of_every_size_are_placed_whole_one_by_one(fleet: Fleet, seed: int) -> None:
    chance = random.Random(seed)  # noqa: S311 - no secret
    for stage in fleet[:2]:
        make_sick(stage, SICK, chance)
    for workers in chance.sample((1, 2, 4, 8, 16), 5):
        for stage in fleet[:2]:
            stage.apply(f"of-{workers}", workers)
        for stage in fleet[:2]:
            stage.wait(all_whole)


@pytest.mark.limit(60, "the jobs request 1.5 times the nodes, and the test ends when all jobs have ended")
def test_all_jobs_of_bursts_on_plugin_and_driver_are_placed_whole(fleet: Fleet, seed: int) -> None:
    texts: list[str] = []

    def run(stage: Stage) -> Result:
        chance = random.Random(seed)  # noqa: S311 - no secret
        make_sick(stage, SICK, chance)
        return burst(stage, chance, texts.append, settle=2, patience=PATIENCE)

    with ThreadPoolExecutor(2) as pool:
        results = list(pool.map(run, fleet[:2]))
    for result in results:
        assert not result.overlooked, texts
        assert result.line() == f"whole {result.jobs} straddle 0 stuck 0 held 0 of {result.jobs}", texts


def select_server(server: str) -> dict[str, Any]:
    """Returns the fields of a pod spec that restrict a worker to an UltraServer."""
    return {"nodeSelector": {nodes.SERVER_ID_4: server}}


@pytest.mark.skipif(build.OLDER, reason="extendedResourceName is on by default from Kubernetes 1.36")
def test_a_job_is_placed_where_a_device_class_serves_its_request(fleet: Fleet) -> None:
    key, _ = fleet.plugin.create(mpijob(4, worker_spec=select_server(fleet.class_server)))
    fleet.plugin.wait(all_whole)
    workers = workers_of(fleet.plugin.pods(key))
    assert all("extendedResourceClaimStatus" in pod["status"] for pod in workers)


def test_a_job_waits_for_an_ultraserver_that_a_claim_holds_and_why_names_the_holder(fleet: Fleet) -> None:
    stage = fleet.driver
    other_team = stage.plane.kubectl.in_namespace(TEAMS[1])
    name, labels = next(iter(stage.labels.items()))
    other_team.create(pod_with_claim("other", name))
    wait_bound(other_team, ["other"])
    spec = select_server(labels[nodes.SERVER_ID_4])
    key, _ = stage.create(mpijob(4, name="waits", claim=nodes.template_name(4), worker_spec=spec))
    inside, text = other_team.in_namespace(key[0]), f"held by {TEAMS[1]}/other"
    eventually(inside, ["why", key[1]], lambda obj: text in str(obj["findings"]))
    assert not stage.job_placements()[key].nodes
    other_team.delete("pod", "other", at_once=True)
    stage.wait(all_whole)


def test_on_a_node_with_plugin_and_driver_a_claim_keeps_requests_of_jobs_off(fleet: Fleet) -> None:
    """ResourceSlice and capacity of such a node describe the same devices, so a claim holds both."""
    inside = fleet.plugin.plane.kubectl.in_namespace(TEAMS[1])
    (server,) = {
        node["metadata"]["labels"][nodes.SERVER_ID_4]
        for node in inside.get_json("nodes")["items"]
        if node["metadata"]["name"] in fleet.shared_nodes
    }
    inside.run("uncordon", *fleet.shared_nodes)
    try:
        inside.create(pod_with_claim("other", fleet.shared_nodes[0]))
        wait_bound(inside, ["other"])
        inside.create(mpijob(4, name="waits", worker_spec=select_server(server)))
        text = f"held by {TEAMS[1]}/other"
        eventually(inside, ["why", "waits"], lambda obj: text in str(obj["findings"]))
        assert not [pod for pod in workers_of(inside.get_json("pods")["items"]) if "nodeName" in pod["spec"]]
        inside.delete("pod", "other", at_once=True)
        wait_count(inside, 4, "-l", f"{ROLE}=worker")
    finally:
        clear(inside)
        inside.run("cordon", *fleet.shared_nodes)
