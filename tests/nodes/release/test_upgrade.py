"""Tests an upgrade from the previous release and back, only with their files, while jobs are created."""

import sys
from pathlib import Path

import pytest

from contract.keys import GATE, OPENED
from testbed.mpijob import mpijob
from testbed.nodes import story
from testbed.nodes.plane import RealPlane
from testbed.plane.kubectl import Kubectl, Object
from testbed.plane.load import steady_load, webhook_mutates_jobs
from testbed.waiting import until
from tests.nodes.person import APPLY, CHECK, Person
from tests.nodes.replicas import CONFIG, restarts, wait_for_table


def long_job(name: str, *, suspend: bool = False) -> Object:
    """Returns a job of two workers that runs until it is deleted. It can be suspended."""
    job = mpijob(2, name=name)
    job["spec"]["runPolicy"] = {"suspend": suspend}
    launcher = job["spec"]["mpiReplicaSpecs"]["Launcher"]["template"]["spec"]
    launcher["containers"][0]["command"] = ["sleep", "3600"]
    return job


def gated_uids(jobs: Kubectl, name: str) -> list[str]:
    """Returns the uids of a job's workers; asserts that all workers have the gate."""
    pods = jobs.get_json("pods", "-l", story.job_selector(name, "worker"))["items"]
    assert all({"name": GATE} in pod["spec"].get("schedulingGates", ()) for pod in pods)
    return [pod["metadata"]["uid"] for pod in pods]


def specs(jobs: Kubectl) -> dict[str, Object]:
    """Returns the stored spec of each job, by the job's name."""
    return {job["metadata"]["name"]: job["spec"] for job in jobs.get_json("mpijobs")["items"]}


@pytest.fixture
def people(bare: RealPlane, release_before: Path, release_folder: Path) -> tuple[Person, Person]:
    """A user with the previous release and a user with this release, who have imported the images."""
    result = Person(bare, release_before), Person(bare, release_folder)
    for person in result:
        person.run(CHECK)
        person.import_images()
    return result


@pytest.mark.limit(200, "four rollouts, in each of which two Pods wait ten seconds before they end")
def test_an_upgrade_from_the_previous_release_and_back_loses_no_create(
    bare: RealPlane, people: tuple[Person, Person]
) -> None:
    """Protects the jobs of the previous release, too: a running, a waiting and a suspended job."""
    old, new = people
    assert old.version != new.version
    assert "@sha256:" in new.serving_image
    old.run(APPLY)
    jobs = bare.kubectl.in_namespace("default")
    until(lambda: webhook_mutates_jobs(bare.kubeconfig, "default"), "a job that the previous release places")
    jobs.create(long_job("suspended", suspend=True))
    jobs.create(long_job("running"))
    before = restarts(story.wait_for_workers(jobs, "running", 2))
    jobs.create(long_job("waiting"))
    jobs.wait_for(lambda pods: len(pods["items"]) == 2, "pods", "-l", story.job_selector("waiting", "worker"))
    uids = gated_uids(jobs, "waiting")
    stored = specs(jobs)

    with steady_load(bare.kubeconfig, "default", per_second=4) as load:
        load.wait_for_creates(20)
        for person in (new, old, new):
            person.run(APPLY)
            assert story.serving_images(bare.kubectl) == {person.serving_image}
            load.wait_for_creates(20)
    sys.stderr.write(f"upgrade, back, upgrade: {load}\n")
    assert load.lost_creates == []

    assert specs(jobs) == stored
    assert restarts(story.wait_for_workers(jobs, "running", 2)) == before
    assert gated_uids(jobs, "waiting") == uids
    jobs.run("delete", "mpijob", "running")
    assert {pod["metadata"]["uid"] for pod in story.wait_for_workers(jobs, "waiting", 2)} == {*uids}
    jobs.run("delete", "mpijob", "waiting")
    jobs.run(
        "patch", "mpijob", "suspended", "--type=merge", "-p", '{"spec": {"runPolicy": {"suspend": false}}}'
    )
    assert all(
        OPENED in pod["metadata"]["annotations"] for pod in story.wait_for_workers(jobs, "suspended", 2)
    )
    jobs.run("delete", "mpijob", "suspended")
    own = bare.kubectl.in_namespace(story.NAMESPACE)
    wait_for_table(own, own.get_json(*CONFIG)["data"])
    jobs.create(long_job("new"))
    assert all(OPENED in pod["metadata"]["annotations"] for pod in story.wait_for_workers(jobs, "new", 2))
