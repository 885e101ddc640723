"""The Pods that are derived from a job: each has the number that its place reads, and no two the same."""

from typing import Any

import pytest

from contract import place
from testbed.mpijob import mpijob
from tests.helpers import requested
from tests.plane.kinds.jobs import job, jobset, leaderworkerset, mpijob_v1, pytorchjob
from tests.rules.tables import extended
from webhook.engine import evaluate
from webhook.engine.pods import pods_of
from webhook.engine.reading import read_job
from webhook.objects.tree import Json, get, put
from webhook.rows.table import Table
from webhook.rules.load import load_default

BY_NAME = """workloads:
  - name: server
    kinds: [apps/v1/StatefulSet]
    groups:
      - role: worker
        template: /spec/template
        replicas: /spec/replicas
        takesNodes: true
        number: {podName: true, plus: {env: PAIR, times: 2}}
"""
SERVER = {
    "apiVersion": "apps/v1",
    "kind": "StatefulSet",
    "metadata": {"name": "server"},
    "spec": {"replicas": 3, "template": job(1)["spec"]["template"]},
}


def two_replicated_jobs() -> Json:
    """Returns two Jobs of three Pods, and one of two."""
    first, second = (jobset(*size)["spec"]["replicatedJobs"][0] for size in ((2, 3), (1, 2)))
    return put(jobset(1, 1), ("spec", "replicatedJobs"), [first, {**second, "name": "more"}])


def launcher_with_ranks(workers: int) -> Json:
    with_it = mpijob(workers)
    with_it["spec"]["runLauncherAsWorker"] = True
    return with_it


def made(obj: Json, table: Table) -> list[tuple[str, Json]]:
    result = read_job(table, requested(obj))
    assert result
    stored = evaluate(table, requested(obj)).after
    return [(group, pod) for group, _, _, pod in pods_of(result, stored)]


NUMBERED: dict[str, tuple[Json, list[str]]] = {
    "MPIJob": (mpijob(8), ["launcher", *["worker"] * 8]),
    "whose launcher runs ranks": (launcher_with_ranks(7), ["launcher", *["worker"] * 7]),
    "MPIJob v1": (mpijob_v1(2), ["launcher", *["worker"] * 2]),
    "Indexed Job": (job(4, completionMode="Indexed"), ["worker"] * 4),
    "JobSet": (two_replicated_jobs(), [*["worker/workers"] * 6, *["worker/more"] * 2]),
    "LeaderWorkerSet": (leaderworkerset(2, 8), ["leader", *["worker"] * 7]),
    "PyTorchJob": (pytorchjob(3), ["master", *["worker"] * 3]),
    "by name": (SERVER, ["worker"] * 3),
}


@pytest.mark.parametrize("what", NUMBERED)
def test_each_pod_that_takes_a_node_has_a_number_of_its_own(what: str) -> None:
    """Admission reads from the derived Pods every number from 0, once; the others have no place."""
    obj, groups = NUMBERED[what]
    pods = made(obj, extended(BY_NAME))
    assert [group for group, _ in pods] == groups
    places = [(place.read(pod["metadata"]), pod) for _, pod in pods]
    numbers = [result.number(pod) for result, pod in places if result]
    assert numbers == list(range(len(numbers)))
    assert len(numbers) == len([group for group in groups if group != "launcher" or "ranks" in what])


def test_of_several_sources_the_one_with_the_largest_factor_has_the_most_of_a_number() -> None:
    """As a controller counts, with any order in the row."""
    entries = [pod for _, pod in made(SERVER, extended(BY_NAME))]
    variables = [pod["spec"]["containers"][0]["env"] for pod in entries]
    pairs = [env[-1]["value"] for env in variables if env[-1]["name"] == "PAIR"]
    assert [pod["metadata"]["name"] for pod in entries] == ["server-0", "server-1", "server-0"]
    assert pairs == ["0", "0", "1"]


def test_a_pod_is_the_stored_template_with_labels_that_the_row_names() -> None:
    """Nothing else: no name and no owner, which are the operator's."""
    obj = mpijob(2)
    obj["spec"]["mpiReplicaSpecs"]["Worker"]["template"]["metadata"] = {"labels": {"team": "a"}, "name": "x"}
    stored: Any = evaluate(load_default(), requested(obj)).after
    template = get(stored, ("spec", "mpiReplicaSpecs", "Worker", "template"))
    mpi = "training.kubeflow.org/"
    labels = {f"{mpi}job-name": "train", f"{mpi}job-role": "worker", f"{mpi}replica-index": "1"}
    assert made(obj, load_default())[-1][1] == {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "namespace": "default",
            "labels": {**template["metadata"]["labels"], **labels},
            "annotations": template["metadata"]["annotations"],
        },
        "spec": template["spec"],
    }
