"""training-operator's MPIJob, by its real definition; its Pods are made as the operator makes them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.cluster.jobs import template
from tests.cluster.kinds import operators
from tests.helpers import mpijob, requested
from webhook.engine import evaluate
from webhook.rules.load import load_default

if TYPE_CHECKING:
    from tests.cluster.kubectl import Kubectl, Object


def job(workers: int, name: str = "train") -> Object:
    made = mpijob(workers, name=name)
    return {
        **made,
        "apiVersion": "kubeflow.org/v1",
        "spec": {"mpiReplicaSpecs": made["spec"]["mpiReplicaSpecs"]},
    }


def test_the_definition_keeps_everything_that_is_added(namespace: Kubectl) -> None:
    stored = namespace.create(job(4))
    wanted = evaluate(load_default(), requested(job(4), namespace=str(namespace.namespace))).after
    for role in ("Launcher", "Worker"):
        assert template(stored, role) == template(wanted, role)


def test_two_jobs_are_on_an_ultraserver_each(namespace: Kubectl, servers: dict[str, str]) -> None:
    used = []
    for name in ("first", "second"):
        stored = namespace.create(job(4, name))
        found = operators.bound(namespace, operators.of_mpijob_v1(stored))
        used.append({servers[node] for node in found.values()})
    assert [len(each) for each in used] == [1, 1]
    assert used[0] != used[1]


def test_a_job_of_two_ultraservers_is_in_blocks(namespace: Kubectl, servers: dict[str, str]) -> None:
    stored = namespace.create(job(8))
    found = operators.bound(namespace, operators.of_mpijob_v1(stored))
    by_block = [
        {servers[found[f"train-worker-{index}"]] for index in block} for block in (range(4), range(4, 8))
    ]
    assert [len(each) for each in by_block] == [1, 1]
    assert by_block[0] != by_block[1]
