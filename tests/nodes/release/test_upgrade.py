"""From the release before to this one and back, by their files alone, while jobs keep coming."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from contract.keys import OPENED
from testbed.mpijob import mpijob
from testbed.nodes import story
from testbed.nodes.plane import RealPlane
from testbed.plane.kubectl import Kubectl, Object
from testbed.plane.load import jobs_keep_coming, places
from testbed.waiting import until
from tests.nodes.person import APPLY, CHECK, UPGRADE, Person
from tests.nodes.replicas import CONFIG, restarts, wait_for_table


def lasting(name: str, *, suspend: bool = False) -> Object:
    """A job of two workers that goes on until it is deleted, or waits to be told to begin."""
    job = mpijob(2, name=name)
    job["spec"]["runPolicy"] = {"suspend": suspend}
    launcher = job["spec"]["mpiReplicaSpecs"]["Launcher"]["template"]["spec"]
    launcher["containers"][0]["command"] = ["sleep", "3600"]
    return job


def specs(inside: Kubectl) -> dict[str, Object]:
    """What is stored of each job, by name."""
    return {job["metadata"]["name"]: job["spec"] for job in inside.get_json("mpijobs")["items"]}


@pytest.fixture
def people(bare: RealPlane, release_before: Path, release_folder: Path) -> tuple[Person, Person]:
    """A person with the release before and one with this one, whose images they have imported."""
    found = Person(bare, release_before), Person(bare, release_folder)
    for person in found:
        person.types(CHECK)
        person.imports()
    return found


@pytest.mark.limit(200, "four rollouts, in each of which two Pods wait ten seconds before they end")
def test_an_upgrade_from_the_release_before_and_the_way_back_lose_no_admission(
    bare: RealPlane, people: tuple[Person, Person]
) -> None:
    old, new = people
    assert old.version != new.version
    assert "@sha256:" in new.serves
    old.types(APPLY)
    inside = bare.kubectl.in_namespace("default")
    until(lambda: places(bare.kubeconfig, "default"), "a job that the release before places")
    inside.create(lasting("suspended", suspend=True))
    inside.create(lasting("running"))
    before = restarts(story.placed(inside, "running", 2))
    stored = specs(inside)

    with jobs_keep_coming(bare.kubeconfig, "default", a_second=4) as load:
        load.more(20)
        for person, heading, whose in (
            (new, UPGRADE, new),
            (old, APPLY, old),
            (new, UPGRADE, new),
        ):
            person.types(heading)
            assert story.serving(bare.kubectl) == {whose.serves}
            load.more(20)
    sys.stderr.write(f"upgrade, back, upgrade: {load}\n")
    assert load.lost == []

    assert specs(inside) == stored
    assert restarts(story.placed(inside, "running", 2)) == before
    inside.run("delete", "mpijob", "running")
    inside.run(
        "patch", "mpijob", "suspended", "--type=merge", "-p", '{"spec": {"runPolicy": {"suspend": false}}}'
    )
    story.placed(inside, "suspended", 2)
    # The release before had no whole-job admission, so neither waited for it; a new one does.
    assert not any(OPENED in pod["metadata"]["annotations"] for pod in inside.get_json("pods")["items"])
    inside.run("delete", "mpijob", "suspended")
    own = bare.kubectl.in_namespace(story.NAMESPACE)
    wait_for_table(own, own.get_json(*CONFIG)["data"])
    inside.create(lasting("new"))
    assert all(OPENED in pod["metadata"]["annotations"] for pod in story.placed(inside, "new", 2))
