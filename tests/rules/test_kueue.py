"""Rows for MPIJobs that name a Kueue queue: what they request from Kueue, and what they leave out for it."""

import copy
from pathlib import Path
from typing import Any

import pytest

from testbed.mpijob import LAUNCHER, WORKER, mpijob
from tests.rules.packaged import RULES, laid_over
from tests.rules.packaged import queued as queued_table
from tests.rules.tables import after, outcome
from webhook.objects.tree import Json, get
from webhook.rules.load import load_installed

DEFAULT = queued_table()
PREFIX = "kueue.x-k8s.io/podset-"


def queued(workers: int, queue: str = "training", **asked: str) -> dict[str, Any]:
    """Returns a job that names a queue, whose workers ask Kueue for something themselves."""
    job = mpijob(workers)
    job["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": queue}
    if asked:
        own = {PREFIX + name.replace("_", "-"): value for name, value in asked.items()}
        job["spec"]["mpiReplicaSpecs"]["Worker"]["template"]["metadata"] = {"annotations": own}
    return job


def asks(job: Json, template: tuple[str, ...] = WORKER) -> dict[str, str]:
    """Returns what a pod template asks Kueue for."""
    result = get(job, (*template, "metadata", "annotations")) or {}
    assert isinstance(result, dict)
    return {key.removeprefix(PREFIX): value for key, value in result.items() if key.startswith(PREFIX)}


def pod_affinity(job: Json) -> set[str]:
    affinity = get(job, (*WORKER, "spec", "affinity")) or {}
    assert isinstance(affinity, dict)
    return set(affinity) - {"nodeAffinity"}


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
    result = outcome(DEFAULT, job)
    assert result.fired() == outcome(DEFAULT, queued(workers)).fired()
    assert not result.warnings
    assert asks(result.after) == asks(after(DEFAULT, queued(workers)))
    assert not pod_affinity(result.after)


@pytest.mark.parametrize("name", ["train", None])
def test_where_kueue_counts_quotas_only_one_row_is_switched_off(name: str | None) -> None:
    table = laid_over("15-kueue.yaml", "rules: [{name: kueue-chooses-nodes, mode: off}]")
    job = queued(8)
    if name is None:
        job["metadata"] = {**job["metadata"], "generateName": "train-"}
        del job["metadata"]["name"]
    del job["metadata"]["labels"]
    without = outcome(table, job).fired()
    job["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": "training"}
    assert set(outcome(table, job).fired()) == {*without, "kueue-starts-job"}
    assert not asks(after(table, job))
    assert pod_affinity(after(DEFAULT, job)) == set()


def test_a_file_of_the_chart_alone_and_the_installation_place_a_job_alike(tmp_path: Path) -> None:
    """Protects previews: a file is laid over whole-job admission; the chart has that behind it."""
    job = queued(4)
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
