"""Jobs with claims stand whole, by real scheduler and controllers, and so do those next to them."""

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
from tests.plane.claims.conftest import OF_AWS, Fleet
from tests.plane.claims.pods import GROUP, claiming, pod_with_claim, units, vllm
from tests.plane.kinds.jobs import jobset

SICK = 0.25
JOB = "batch.kubernetes.io/job-name"


def nemo() -> Object:
    """Returns the MPIJob of AWS's document on the driver, with workers that also mount shared memory."""
    container, pod = claiming(OF_AWS)
    mount = {"name": "dshm", "mountPath": "/dev/shm"}  # noqa: S108 - as the document has it
    image = "123456789012.dkr.ecr.us-west-2.amazonaws.com/neuronx_nemo:latest"
    more = {"image": image, "imagePullPolicy": "Always", "volumeMounts": [mount]}
    containers = [{"name": "mpitest", **more, **container}]
    volumes = [{"name": "dshm", "emptyDir": {"medium": "Memory"}}]
    spec = {"containers": containers, "volumes": volumes, **pod}
    return mpijob(4, name="nemo", worker_spec=spec, resource=None)


def test_awss_mpijob_with_claims_runs_next_to_one_of_the_plugin(fleet: Fleet) -> None:
    """By the packaged table, which has the template's name of the document."""
    fleet.plugin.apply("plain", 4)
    key, _ = fleet.driver.create(nemo())
    for stage in (fleet.plugin, fleet.driver):
        stage.wait(all_whole)
    assert all("ultraserver-webhook.io/opened" in str(pod) for pod in workers_of(fleet.driver.pods(key)))


@pytest.mark.parametrize("size", [4, 2])
def test_awss_leaderworkersets_are_placed_whole(size: int, fleet: Fleet) -> None:
    inside = fleet.driver.plane.kubectl.in_namespace(TEAMS[0])
    inside.create(vllm(size))
    by_unit = units(fleet.driver, wait_count(inside, 2 * size), GROUP, f"{nodes.LABEL}server-id-{size}")
    assert [len(each) for each in by_unit] == [1, 1]
    assert by_unit[0] != by_unit[1]


def test_a_jobset_is_placed_whole(fleet: Fleet) -> None:
    made = jobset(2, 4)
    pod = made["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]
    container, claims = claiming(nodes.template_name(4))
    pod["containers"] = [pod["containers"][0] | container]
    inside = fleet.driver.plane.kubectl.in_namespace(TEAMS[0])
    pod |= claims
    inside.create(made)
    by_unit = units(fleet.driver, wait_count(inside, 8), JOB)
    assert [len(each) for each in by_unit] == [1, 1]


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


@pytest.mark.limit(60, "jobs for one and a half times the nodes, until all have ended")
def test_bursts_on_both_halves_end_whole(fleet: Fleet, seed: int) -> None:
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


def on(server: str) -> dict[str, Any]:
    """Returns what sends a worker to one UltraServer."""
    return {"nodeSelector": {nodes.SERVER_ID_4: server}}


@pytest.mark.skipif(build.OLDER, reason="extendedResourceName is on by default from Kubernetes 1.36")
def test_a_job_is_placed_where_a_device_class_serves_its_request(fleet: Fleet) -> None:
    key, _ = fleet.plugin.create(mpijob(4, worker_spec=on(fleet.served)))
    fleet.plugin.wait(all_whole)
    workers = workers_of(fleet.plugin.pods(key))
    assert all("extendedResourceClaimStatus" in pod["status"] for pod in workers)


def test_a_strangers_claim_keeps_jobs_off_its_ultraserver_and_is_named(fleet: Fleet) -> None:
    stage = fleet.driver
    other, (name, labels) = stage.plane.kubectl.in_namespace(TEAMS[1]), next(iter(stage.labels.items()))
    other.create(pod_with_claim("other", name))
    wait_bound(other, ["other"])
    where = on(labels[nodes.SERVER_ID_4])
    key, _ = stage.create(mpijob(4, name="waits", claim=nodes.template_name(4), worker_spec=where))
    inside, text = other.in_namespace(key[0]), f"held by {TEAMS[1]}/other"
    eventually(inside, ["why", key[1]], lambda obj: text in str(obj["findings"]))
    assert not stage.standings()[key].nodes
    other.delete("pod", "other", at_once=True)
    stage.wait(all_whole)


def test_of_nodes_with_plugin_and_driver_claimed_ones_are_kept_from_requests(fleet: Fleet) -> None:
    """Their slices stand next to what the plugin's kubelets count: each is held by whichever takes it."""
    inside = fleet.plugin.plane.kubectl.in_namespace(TEAMS[1])
    (server,) = {
        node["metadata"]["labels"][nodes.SERVER_ID_4]
        for node in inside.get_json("nodes")["items"]
        if node["metadata"]["name"] in fleet.both
    }
    inside.run("uncordon", *fleet.both)
    try:
        inside.create(pod_with_claim("other", fleet.both[0]))
        wait_bound(inside, ["other"])
        inside.create(mpijob(4, name="waits", worker_spec=on(server)))
        text = f"held by {TEAMS[1]}/other"
        eventually(inside, ["why", "waits"], lambda obj: text in str(obj["findings"]))
        assert not [pod for pod in workers_of(inside.get_json("pods")["items"]) if "nodeName" in pod["spec"]]
        inside.delete("pod", "other", at_once=True)
        wait_count(inside, 4, "-l", f"{ROLE}=worker")
    finally:
        clear(inside)
        inside.run("cordon", *fleet.both)
