"""Tests of the fields that the packaged rows add to T9k's MPIJobs, in both forms of their spec."""

import copy
from typing import Any

import pytest

from tests.docs.blocks import REPOSITORY
from tests.rules.tables import EXTENDS, extend_table, mutate, outcome, problems, table_with_component
from tests.t9k import SHAPES, t9k_mpijob, worker_of
from webhook.rules import messages
from webhook.rules.load import load_default, load_installed

pytestmark = pytest.mark.parametrize("shape", SHAPES)
OPTIONAL_FIELDS = {
    "scheduler": {"t9kScheduler": {"queue": "default", "priority": 50}},
    "runMode": {
        "debug": {"enabled": True, "replicaSpecs": [{"type": "worker", "skipInitContainer": True}]},
        "pause": {"enabled": True, "resumeSpecs": [{"type": "worker", "command": ["/usr/bin/sshd"]}]},
    },
}
PLACEMENT = REPOSITORY / "manifests" / "chart" / "rules" / "30-placement.yaml"


def worker_pod_spec(job: dict[str, Any]) -> dict[str, Any]:
    """Returns the workers' pod spec of the mutated job."""
    spec: dict[str, Any] = worker_of(mutate(load_default(), job))["template"]["spec"]
    return spec


def test_only_the_workers_template_is_changed(shape: str) -> None:
    job = t9k_mpijob(shape, **OPTIONAL_FIELDS)
    changed = mutate(load_default(), copy.deepcopy(job))
    assert "initContainers" not in worker_of(changed)["template"]["spec"]
    worker_of(changed)["template"] = worker_of(job)["template"]
    assert changed == job


def test_the_empty_launcher_template_gets_no_pull_secret(shape: str) -> None:
    job = t9k_mpijob(shape)
    changed = mutate(
        table_with_component("hyperpod", "values: {imagePullSecret: mine}\n"), copy.deepcopy(job)
    )
    assert worker_of(changed)["template"]["spec"]["imagePullSecrets"] == [{"name": "mine"}]
    # The kind's schema refuses a pod spec without containers, which the launcher would get.
    worker_of(changed)["template"] = worker_of(job)["template"]
    assert changed == job


@pytest.mark.parametrize(
    "spec", [{}, {"scheduler": OPTIONAL_FIELDS["scheduler"]}], ids=["kube-scheduler", "t9k-scheduler"]
)
def test_the_rows_of_whole_job_admission_add_no_gate(shape: str, spec: dict[str, Any]) -> None:
    changed = mutate(load_installed(PLACEMENT, placement=False), t9k_mpijob(shape, **spec))
    assert "schedulingGates" not in worker_of(changed)["template"]["spec"]


@pytest.mark.parametrize(
    ("limits", "size"),
    [
        ({}, "1Gi"),
        ({"memory": "4Gi"}, "1Gi"),
        ({"memory": "512Mi"}, "512Mi"),
        ({"memory": 1000}, "1000"),
        ({"memory": "0"}, "1Gi"),
        ({"memory": "much"}, "1Gi"),
        ({"memory": ["512Mi"]}, "1Gi"),
        ({"memory": "1" * 5000}, "1Gi"),
    ],
)
def test_shared_memory_has_the_size_of_the_table_or_a_smaller_memory_limit(
    shape: str, limits: dict[str, Any], size: str
) -> None:
    spec = worker_pod_spec(t9k_mpijob(shape, limits=limits))
    assert spec["volumes"] == [{"name": "dshm", "emptyDir": {"medium": "Memory", "sizeLimit": size}}]
    assert spec["containers"][0]["volumeMounts"] == [{"mountPath": "/dev/shm", "name": "dshm"}]  # noqa: S108 - a path in the container


def test_the_size_of_shared_memory_is_a_value_of_the_table(shape: str) -> None:
    table = extend_table("values: {sharedMemory: 64Gi}\n")
    for memory, size in ((None, "64Gi"), ("32Gi", "32Gi")):
        job = mutate(table, t9k_mpijob(shape, limits={"memory": memory} if memory else None))
        (volume,) = worker_of(job)["template"]["spec"]["volumes"]
        assert volume["emptyDir"]["sizeLimit"] == size


def test_a_shared_memory_volume_of_the_job_keeps_its_size(shape: str) -> None:
    job = t9k_mpijob(shape)
    volume = {"name": "dshm", "emptyDir": {"medium": "Memory", "sizeLimit": "8Gi"}}
    worker_of(job)["template"]["spec"]["volumes"] = [volume]
    result = outcome(load_default(), job)
    assert worker_of(result.after)["template"]["spec"]["volumes"] == [volume]
    assert result.warnings == ()


def test_a_mutated_job_with_a_lower_memory_limit_gets_a_smaller_size(shape: str) -> None:
    mutated = mutate(load_default(), t9k_mpijob(shape))
    worker_of(mutated)["template"]["spec"]["containers"][0]["resources"]["limits"]["memory"] = "256Mi"
    (volume,) = worker_pod_spec(mutated)["volumes"]
    assert volume["emptyDir"]["sizeLimit"] == "256Mi"


@pytest.mark.parametrize(("size", "text"), [('""', ""), ("plenty", "plenty")])
def test_a_size_that_is_not_a_quantity_is_refused(shape: str, size: str, text: str) -> None:
    rows = problems(EXTENDS + f"values: {{sharedMemory: {size}}}\n")
    assert shape
    assert {row[3] for row in rows} == {messages.not_a_quantity(text)}
