"""Tests that a waiting job preempts a job of lower priority, which then waits again."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from contract.keys import ON_NODE_FAILURE, SERVER_4
from kube.api import Object
from placement.observe.model import COMPONENT
from testbed.experiment.judge import Key
from testbed.experiment.stage import TEAMS, Stage
from testbed.mpijob import mpijob
from testbed.plane import placement
from testbed.plane.jobs import ROLE
from testbed.waiting import until

OWN, BATCH, OTHER = TEAMS
ROWS = f"""
guarantees:
  - {{namespaces: {OWN}, unit: {SERVER_4}, count: 0, preempts: lower}}
"""
EAGER_PROGRAM = """
from datetime import timedelta
from placement.decide import decide, preempt
decide.MIN_AGE = preempt.MIN_AGE = timedelta(seconds=1)
from placement.__main__ import main
main()
"""
"""The placement program, in which a job that has waited for a second may preempt other jobs."""


@pytest.fixture
def program(stage: Stage) -> Iterator[None]:
    """A program whose table permits preemption to one team, and a PriorityClass with a high value."""
    assert stage.rules
    table = stage.rules.read_text(encoding="utf-8")
    stage.plane.kubectl.run("create", "priorityclass", "urgent", "--value=1000")
    try:
        stage.rules.write_text(table + ROWS, encoding="utf-8")
        options = {"rules": stage.rules, "interval_seconds": 1}
        placement.start(stage.plane, "placement-soon", code=EAGER_PROGRAM, **options)
        yield
    finally:
        stage.rules.write_text(table, encoding="utf-8")
        stage.plane.kubectl.run("delete", "priorityclass", "urgent")


def create_running_job(stage: Stage, name: str, namespace: str, choice: str) -> Key:
    """Creates a job of two UltraServers whose workers are marked as Running, and returns its key."""
    key, _ = stage.create(mpijob(8, name=name, annotations={ON_NODE_FAILURE: choice}), namespace)
    stage.wait(lambda jobs: jobs[key].whole)
    for pod in workers(stage, key):
        path = f"/api/v1/namespaces/{namespace}/pods/{pod['metadata']['name']}/status"
        stage.api.patch(path, [{"op": "add", "path": "/status/phase", "value": "Running"}])
    return key


def workers(stage: Stage, key: Key) -> list[Object]:
    return [pod for pod in stage.pods(key) if pod["metadata"]["labels"].get(ROLE) == "worker"]


def uids(stage: Stage, key: Key) -> set[str]:
    return {pod["metadata"]["uid"] for pod in workers(stage, key)}


def event_texts(stage: Stage, key: Key, reason: str) -> set[str]:
    """Returns the texts of the program's Events of a reason."""
    events = stage.plane.kubectl.in_namespace(key[0]).get_json("events")["items"]
    return {
        event["message"]
        for event in events
        if event["reason"] == reason and event["reportingComponent"] == COMPONENT
    }


@pytest.mark.limit(120, "places four jobs one after the other, and waits for an operator")
@pytest.mark.usefixtures("program")
def test_a_job_preempts_the_youngest_job_of_lower_priority_that_may_restart(stage: Stage) -> None:
    old = create_running_job(stage, "old", BATCH, "restart")
    second = int(time.time())
    until(
        lambda: int(time.time()) > second,
        "the next second, because the times of admissions are whole seconds",
    )
    young = create_running_job(stage, "young", BATCH, "restart")
    waits = create_running_job(stage, "waits", OTHER, "wait")
    before = {key: uids(stage, key) for key in (old, young, waits)}
    urgent = {"priorityClassName": "urgent"}
    own, _ = stage.create(mpijob(8, name="own", worker_spec=urgent), OWN)
    plain, _ = stage.create(mpijob(4, name="plain"), OWN)
    until(lambda: event_texts(stage, young, "Preempted"), "an Event of the preempted job")
    jobs = stage.wait(lambda jobs: jobs[own].whole)
    assert not jobs[plain].nodes, "its priority is not higher"
    assert uids(stage, old) == before[old]
    assert uids(stage, waits) == before[waits]
    assert event_texts(stage, young, "Preempted") == {
        f"waits again, with all workers: preempted by {OWN}/own, which has a higher priority"
    }
    assert event_texts(stage, own, "Preempts") == {f"preempts {BATCH}/young, which has a lower priority"}
    until(
        lambda: len(uids(stage, young) - before[young]) == 8, "new Pods for all workers of the preempted job"
    )
    job = stage.plane.kubectl.in_namespace(BATCH).get_json("mpijob", "young")
    assert "completionTime" not in job["status"]
    for key in (plain, own):
        stage.finish(key)
    stage.wait(lambda jobs: jobs[young].whole)
