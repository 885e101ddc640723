"""Tests of the rules for MPIJobs in a queue of Kueue: they add requests to Kueue instead of pod affinity."""

import copy
from pathlib import Path
from typing import Any

import pytest

from testbed.mpijob import LAUNCHER, WORKER, mpijob
from tests.rules.packaged import RULES, kueue_table, table_with_files
from tests.rules.tables import mutate, outcome
from webhook.objects.tree import Json, get
from webhook.rules.load import load_installed

TABLE = kueue_table()
PREFIX = "kueue.x-k8s.io/podset-"


def queued_job(workers: int, queue: str = "training", **requests: str) -> dict[str, Any]:
    """Returns a job in a queue whose workers have these requests to Kueue, named without the prefix."""
    job = mpijob(workers)
    job["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": queue}
    if requests:
        annotations = {PREFIX + name.replace("_", "-"): value for name, value in requests.items()}
        job["spec"]["mpiReplicaSpecs"]["Worker"]["template"]["metadata"] = {"annotations": annotations}
    return job


def kueue_requests(job: Json, template: tuple[str, ...] = WORKER) -> dict[str, str]:
    """Returns the requests to Kueue of a pod template, named without the prefix."""
    annotations = get(job, (*template, "metadata", "annotations")) or {}
    assert isinstance(annotations, dict)
    return {key.removeprefix(PREFIX): value for key, value in annotations.items() if key.startswith(PREFIX)}


def pod_affinity(job: Json) -> set[str]:
    affinity = get(job, (*WORKER, "spec", "affinity")) or {}
    assert isinstance(affinity, dict)
    return set(affinity) - {"nodeAffinity"}


@pytest.mark.parametrize("job", [mpijob(4), queued_job(4, queue="")])
def test_a_job_without_a_queue_is_placed_by_pod_affinity(job: dict[str, Any]) -> None:
    assert not kueue_requests(mutate(TABLE, job))
    assert pod_affinity(mutate(TABLE, job)) == {"podAffinity", "podAntiAffinity"}


@pytest.mark.parametrize("workers", [1, 2, 4, 8])
def test_a_job_that_gets_a_queue_after_its_mutation_gets_the_rules_of_queued_jobs(workers: int) -> None:
    job = copy.deepcopy(mutate(TABLE, mpijob(workers)))
    job["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": "training"}
    for template in (LAUNCHER, WORKER):
        spec = get(job, (*template, "spec"))
        # Programs in Go, such as Kueue's webhook, write the empty field.
        for container in spec.get("initContainers", []) + spec["containers"]:
            container.setdefault("resources", {})
    result = outcome(TABLE, job)
    assert result.fired() == outcome(TABLE, queued_job(workers)).fired()
    assert not result.warnings
    assert kueue_requests(result.after) == kueue_requests(mutate(TABLE, queued_job(workers)))
    assert not pod_affinity(result.after)


@pytest.mark.parametrize("name", ["train", None])
def test_a_table_with_kueue_chooses_nodes_off_leaves_the_nodes_to_the_webhook(name: str | None) -> None:
    table = table_with_files("15-kueue.yaml", "rules: [{name: kueue-chooses-nodes, mode: off}]")
    job = queued_job(8)
    if name is None:
        job["metadata"] = {**job["metadata"], "generateName": "train-"}
        del job["metadata"]["name"]
    del job["metadata"]["labels"]
    without_queue = outcome(table, job).fired()
    job["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": "training"}
    assert set(outcome(table, job).fired()) == {*without_queue, "kueue-starts-job"}
    assert not kueue_requests(mutate(table, job))
    assert pod_affinity(mutate(TABLE, job)) == set()


def test_a_chart_file_alone_gives_the_same_rules_as_all_files_of_an_installation(tmp_path: Path) -> None:
    """Protects previews with one file: the chart puts the rows of whole-job admission behind this file."""
    job = queued_job(4)
    jobs = [{"name": "w", "template": {"spec": {"parallelism": 4, "template": get(job, WORKER)}}}]
    annotations = {f"{PREFIX}preferred-topology": "rack"}
    jobset = {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {**job["metadata"], "annotations": annotations},
        "spec": {"replicatedJobs": jobs, "startupPolicy": {"startupPolicyOrder": "InOrder"}},
    }
    for path in (RULES / "15-kueue.yaml", RULES / "30-placement.yaml"):
        (tmp_path / path.name).write_bytes(path.read_bytes())
    alone, installed = (load_installed(path) for path in (RULES / "15-kueue.yaml", tmp_path))
    assert "kueue-chooses-topology" in outcome(alone, jobset).fired()
    assert outcome(alone, jobset).fired() == outcome(installed, jobset).fired()
