"""Tests of the Pods that the engine predicts for a job: each Pod that takes a node has its own number."""

from typing import Any

import pytest

from contract import placement
from testbed.mpijob import mpijob
from tests.helpers import request_for
from tests.plane.kinds.jobs import job, jobset, leaderworkerset, mpijob_v1, pytorchjob
from tests.rules.tables import extend_table
from webhook.engine import evaluate
from webhook.engine.pods import pods_of
from webhook.engine.reading import read_job
from webhook.objects.tree import Json, get, put
from webhook.rows.table import Table
from webhook.rules.load import load_default

STATEFULSET_ROW = """workloads:
  - name: server
    kinds: [apps/v1/StatefulSet]
    groups:
      - role: worker
        template: /spec/template
        replicas: /spec/replicas
        takesNodes: true
        number: {podName: true, plus: {env: PAIR, times: 2}}
"""
STATEFULSET = {
    "apiVersion": "apps/v1",
    "kind": "StatefulSet",
    "metadata": {"name": "server"},
    "spec": {"replicas": 3, "template": job(1)["spec"]["template"]},
}


def two_replicated_jobs() -> Json:
    """Returns a JobSet with two Jobs of three Pods, and one Job of two Pods."""
    first, second = (jobset(*size)["spec"]["replicatedJobs"][0] for size in ((2, 3), (1, 2)))
    return put(jobset(1, 1), ("spec", "replicatedJobs"), [first, {**second, "name": "more"}])


def launcher_with_ranks(workers: int) -> Json:
    obj = mpijob(workers)
    obj["spec"]["runLauncherAsWorker"] = True
    return obj


def predict_pods(obj: Json, table: Table) -> list[tuple[str, Json]]:
    result = read_job(table, request_for(obj))
    assert result
    stored = evaluate(table, request_for(obj)).after
    return [(group, pod) for group, _, _, pod in pods_of(result, stored)]


JOBS: dict[str, tuple[Json, list[str]]] = {
    "MPIJob": (mpijob(8), ["launcher", *["worker"] * 8]),
    "MPIJob whose launcher runs ranks": (launcher_with_ranks(7), ["launcher", *["worker"] * 7]),
    "MPIJob v1": (mpijob_v1(2), ["launcher", *["worker"] * 2]),
    "Indexed Job": (job(4, completionMode="Indexed"), ["worker"] * 4),
    "JobSet": (two_replicated_jobs(), [*["worker/workers"] * 6, *["worker/more"] * 2]),
    "LeaderWorkerSet": (leaderworkerset(2, 8), ["leader", *["worker"] * 7]),
    "PyTorchJob": (pytorchjob(3), ["master", *["worker"] * 3]),
    "StatefulSet": (STATEFULSET, ["worker"] * 3),
}


@pytest.mark.parametrize("case", JOBS)
def test_each_pod_that_takes_a_node_has_its_own_number(case: str) -> None:
    """The placement annotations of the Pods yield each number from 0 once. Other Pods have no annotation."""
    obj, groups = JOBS[case]
    pods = predict_pods(obj, extend_table(STATEFULSET_ROW))
    assert [group for group, _ in pods] == groups
    places = [(placement.read(pod["metadata"]), pod) for _, pod in pods]
    numbers = [result.number(pod) for result, pod in places if result]
    assert numbers == list(range(len(numbers)))
    assert len(numbers) == len([group for group in groups if group != "launcher" or "ranks" in case])


def test_a_number_is_divided_by_the_largest_factor_first() -> None:
    """The order of the sources in the row does not matter."""
    pods = [pod for _, pod in predict_pods(STATEFULSET, extend_table(STATEFULSET_ROW))]
    variables = [pod["spec"]["containers"][0]["env"] for pod in pods]
    pairs = [env[-1]["value"] for env in variables if env[-1]["name"] == "PAIR"]
    assert [pod["metadata"]["name"] for pod in pods] == ["server-0", "server-1", "server-0"]
    assert pairs == ["0", "0", "1"]


def test_a_pod_is_the_stored_template_with_the_labels_of_the_row() -> None:
    """The Pod has no name and no owner, because the operator sets them."""
    obj = mpijob(2)
    obj["spec"]["mpiReplicaSpecs"]["Worker"]["template"]["metadata"] = {"labels": {"team": "a"}, "name": "x"}
    stored: Any = evaluate(load_default(), request_for(obj)).after
    template = get(stored, ("spec", "mpiReplicaSpecs", "Worker", "template"))
    mpi = "training.kubeflow.org/"
    labels = {f"{mpi}job-name": "train", f"{mpi}job-role": "worker", f"{mpi}replica-index": "1"}
    assert predict_pods(obj, load_default())[-1][1] == {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "namespace": "default",
            "labels": {**template["metadata"]["labels"], **labels},
            "annotations": template["metadata"]["annotations"],
        },
        "spec": template["spec"],
    }
