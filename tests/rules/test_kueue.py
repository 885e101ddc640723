"""Rows for MPIJobs that name a Kueue queue: what Kueue is asked for, and what does not stand in its way."""

import copy
from typing import Any

import pytest

from testbed.mpijob import LAUNCHER, WORKER, mpijob
from tests.rules.tables import after, extended, outcome
from webhook.objects.tree import Json, get
from webhook.rules.load import load_default

DEFAULT = load_default()
PREFIX = "kueue.x-k8s.io/podset-"
SERVER_4 = "neuron.amazonaws.com/ultraserver-server-id-4"
SERVER_2 = "neuron.amazonaws.com/ultraserver-server-id-2"


def queued(workers: int, queue: str = "training", **asked: str) -> dict[str, Any]:
    """A job that names a queue, whose workers ask Kueue for something themselves."""
    job = mpijob(workers)
    job["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": queue}
    if asked:
        own = {PREFIX + name.replace("_", "-"): value for name, value in asked.items()}
        job["spec"]["mpiReplicaSpecs"]["Worker"]["template"]["metadata"] = {"annotations": own}
    return job


def asks(job: Json, template: tuple[str, ...] = WORKER) -> dict[str, str]:
    """What a pod template asks Kueue for."""
    found = get(job, (*template, "metadata", "annotations")) or {}
    assert isinstance(found, dict)
    return {key.removeprefix(PREFIX): value for key, value in found.items() if key.startswith(PREFIX)}


def pod_affinity(job: Json) -> set[str]:
    affinity = get(job, (*WORKER, "spec", "affinity")) or {}
    assert isinstance(affinity, dict)
    return set(affinity) - {"nodeAffinity"}


@pytest.mark.parametrize(
    ("workers", "asked"),
    [
        (1, {"unconstrained-topology": "true"}),
        (2, {"required-topology": SERVER_2}),
        (3, {"unconstrained-topology": "true"}),
        (4, {"required-topology": SERVER_4}),
        (6, {"slice-required-topology": SERVER_2, "slice-size": "2"}),
        (16, {"slice-required-topology": SERVER_4, "slice-size": "4"}),
    ],
)
def test_kueue_is_asked_for_whole_units_in_place_of_pod_affinity(workers: int, asked: dict[str, str]) -> None:
    job = after(DEFAULT, queued(workers))
    assert asks(job) == asked
    assert asks(job, LAUNCHER) == {}
    assert not pod_affinity(job)
    # Jobs without a queue keep off by it.
    assert get(job, (*WORKER, "metadata", "labels")) == {"ultraserver-webhook.io/job": "default.train"}


@pytest.mark.parametrize("job", [mpijob(4), queued(4, queue="")])
def test_a_job_without_a_queue_is_placed_by_pod_affinity(job: dict[str, Any]) -> None:
    assert not asks(after(DEFAULT, job))
    assert pod_affinity(after(DEFAULT, job)) == {"podAffinity", "podAntiAffinity"}


@pytest.mark.parametrize("workers", [1, 2, 4, 8])
def test_a_queue_that_comes_after_the_webhook_leads_to_the_same_rules(workers: int) -> None:
    job = copy.deepcopy(after(DEFAULT, mpijob(workers)))
    job["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": "training"}
    for template in (LAUNCHER, WORKER):
        spec = get(job, (*template, "spec"))
        # As programs in Go write containers, Kueue's webhook among them.
        for container in spec.get("initContainers", []) + spec["containers"]:
            container.setdefault("resources", {})
    found = outcome(DEFAULT, job)
    assert found.fired() == outcome(DEFAULT, queued(workers)).fired()
    assert not found.warnings
    assert asks(found.after) == asks(after(DEFAULT, queued(workers)))
    assert not pod_affinity(found.after)


@pytest.mark.parametrize("name", ["train", None])
def test_where_kueue_counts_quotas_only_one_row_is_switched_off(name: str | None) -> None:
    table = extended("rules: [{name: kueue-chooses-nodes, mode: off}]")
    job = queued(8)
    if name is None:
        job["metadata"] = {**job["metadata"], "generateName": "train-"}
        del job["metadata"]["name"]
    del job["metadata"]["labels"]
    without = outcome(table, job).fired()
    job["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": "training"}
    assert outcome(table, job).fired() == without
    assert not asks(after(table, job))
    assert pod_affinity(after(DEFAULT, job)) == set()


@pytest.mark.parametrize(
    ("workers", "own"),
    [
        (4, {"preferred_topology": SERVER_4}),
        (4, {"unconstrained_topology": "true"}),
        (4, {"required_topology": SERVER_2}),
        (8, {"preferred_topology": SERVER_4}),
        (8, {"required_topology": "topology.kubernetes.io/zone"}),
        (8, {"required_topology": "topology.kubernetes.io/zone", "group_name": "own"}),
        (1, {"required_topology": SERVER_4}),
    ],
)
def test_what_the_workers_ask_of_kueue_themselves_stays_alone(workers: int, own: dict[str, str]) -> None:
    job = after(DEFAULT, queued(workers, **own))
    assert asks(job) == {name.replace("_", "-"): value for name, value in own.items()}
    assert not pod_affinity(job)


def test_a_launcher_that_runs_ranks_is_one_group_with_its_workers() -> None:
    job = queued(3)
    job["spec"]["runLauncherAsWorker"] = True
    done = after(DEFAULT, job)
    assert asks(done, LAUNCHER) == asks(done) == {"required-topology": SERVER_4, "group-name": "ultraserver"}


def test_a_launcher_that_runs_ranks_in_blocks_is_refused_with_a_way_out() -> None:
    job = queued(7)
    job["spec"]["runLauncherAsWorker"] = True
    (denial,) = outcome(DEFAULT, job).denials
    assert "spec.runLauncherAsWorker" in denial
    assert "blocks of 4 workers" in denial
    job["metadata"]["labels"] = {}
    assert not outcome(DEFAULT, job).denials
