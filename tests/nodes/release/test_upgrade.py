"""From the release before to this one and back, by their files alone, while jobs keep coming."""

import sys
from pathlib import Path

import pytest

from contract.keys import GATE, OPENED
from testbed.mpijob import mpijob
from testbed.nodes import story
from testbed.nodes.plane import RealPlane
from testbed.plane.kubectl import Kubectl, Object
from testbed.plane.load import jobs_keep_coming, places
from testbed.waiting import until
from tests.nodes.person import APPLY, CHECK, Person
from tests.nodes.replicas import CONFIG, restarts, wait_for_table


def lasting(name: str, *, suspend: bool = False) -> Object:
    """Returns a job of two workers that runs until it is deleted, or waits for a file to begin."""
    job = mpijob(2, name=name)
    job["spec"]["runPolicy"] = {"suspend": suspend}
    launcher = job["spec"]["mpiReplicaSpecs"]["Launcher"]["template"]["spec"]
    launcher["containers"][0]["command"] = ["sleep", "3600"]
    return job


def waits(inside: Kubectl, name: str) -> list[str]:
    """Returns the uids of a job's workers, all of which wait behind the gate."""
    pods = inside.get_json("pods", "-l", story.of_job(name, "worker"))["items"]
    assert all({"name": GATE} in pod["spec"].get("schedulingGates", ()) for pod in pods)
    return [pod["metadata"]["uid"] for pod in pods]


def specs(inside: Kubectl) -> dict[str, Object]:
    """Returns what is stored of each job, by name."""
    return {job["metadata"]["name"]: job["spec"] for job in inside.get_json("mpijobs")["items"]}


@pytest.fixture
def people(bare: RealPlane, release_before: Path, release_folder: Path) -> tuple[Person, Person]:
    """A person with the release before and one with this one, whose images they have imported."""
    result = Person(bare, release_before), Person(bare, release_folder)
    for person in result:
        person.types(CHECK)
        person.imports()
    return result


@pytest.mark.limit(200, "four rollouts, in each of which two Pods wait ten seconds before they end")
def test_an_upgrade_from_the_release_before_and_the_way_back_lose_no_admission(
    bare: RealPlane, people: tuple[Person, Person]
) -> None:
    """Nor a job of the release before: one runs, one waits for its nodes, and one is suspended."""
    old, new = people
    assert old.version != new.version
    assert "@sha256:" in new.serves
    old.types(APPLY)
    inside = bare.kubectl.in_namespace("default")
    until(lambda: places(bare.kubeconfig, "default"), "a job that the release before places")
    inside.create(lasting("suspended", suspend=True))
    inside.create(lasting("running"))
    before = restarts(story.wait_for_workers(inside, "running", 2))
    inside.create(lasting("waiting"))
    inside.wait_for(lambda pods: len(pods["items"]) == 2, "pods", "-l", story.of_job("waiting", "worker"))
    uids = waits(inside, "waiting")
    stored = specs(inside)

    with jobs_keep_coming(bare.kubeconfig, "default", a_second=4) as load:
        load.more(20)
        for person in (new, old, new):
            person.types(APPLY)
            assert story.serving_images(bare.kubectl) == {person.serves}
            load.more(20)
    sys.stderr.write(f"upgrade, back, upgrade: {load}\n")
    assert load.lost == []

    assert specs(inside) == stored
    assert restarts(story.wait_for_workers(inside, "running", 2)) == before
    assert waits(inside, "waiting") == uids
    inside.run("delete", "mpijob", "running")
    assert {pod["metadata"]["uid"] for pod in story.wait_for_workers(inside, "waiting", 2)} == {*uids}
    inside.run("delete", "mpijob", "waiting")
    inside.run(
        "patch", "mpijob", "suspended", "--type=merge", "-p", '{"spec": {"runPolicy": {"suspend": false}}}'
    )
    assert all(
        OPENED in pod["metadata"]["annotations"] for pod in story.wait_for_workers(inside, "suspended", 2)
    )
    inside.run("delete", "mpijob", "suspended")
    own = bare.kubectl.in_namespace(story.NAMESPACE)
    wait_for_table(own, own.get_json(*CONFIG)["data"])
    inside.create(lasting("new"))
    assert all(OPENED in pod["metadata"]["annotations"] for pod in story.wait_for_workers(inside, "new", 2))
