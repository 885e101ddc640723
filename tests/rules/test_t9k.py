"""What the packaged rows add to T9k's MPIJobs, in both shapes."""

import copy
from typing import Any

import pytest

from tests.docs.blocks import REPOSITORY
from tests.rules.tables import EXTENDS, after, extended, outcome, problems, with_component
from tests.t9k import SHAPES, t9k_mpijob, worker_of
from webhook.rules.load import load_default, load_installed

pytestmark = pytest.mark.parametrize("shape", SHAPES)
MODES = {
    "scheduler": {"t9kScheduler": {"queue": "default", "priority": 50}},
    "runMode": {
        "debug": {"enabled": True, "replicaSpecs": [{"type": "worker", "skipInitContainer": True}]},
        "pause": {"enabled": True, "resumeSpecs": [{"type": "worker", "command": ["/usr/bin/sshd"]}]},
    },
}
PLACEMENT = REPOSITORY / "manifests" / "chart" / "rules" / "30-placement.yaml"


def stored(job: dict[str, Any]) -> dict[str, Any]:
    """Returns the workers' pod spec as it would be stored."""
    spec: dict[str, Any] = worker_of(after(load_default(), job))["template"]["spec"]
    return spec


def test_nothing_but_the_workers_template_is_touched(shape: str) -> None:
    job = t9k_mpijob(shape, **MODES)
    changed = after(load_default(), copy.deepcopy(job))
    assert "initContainers" not in worker_of(changed)["template"]["spec"]
    worker_of(changed)["template"] = worker_of(job)["template"]
    assert changed == job


def test_a_pull_secret_is_not_put_into_an_empty_template(shape: str) -> None:
    job = t9k_mpijob(shape)
    changed = after(with_component("hyperpod", "values: {imagePullSecret: mine}\n"), copy.deepcopy(job))
    assert worker_of(changed)["template"]["spec"]["imagePullSecrets"] == [{"name": "mine"}]
    # A pod spec without containers, as the launcher's would be, is refused by the kind's schema.
    worker_of(changed)["template"] = worker_of(job)["template"]
    assert changed == job


@pytest.mark.parametrize(
    "spec", [{}, {"scheduler": MODES["scheduler"]}], ids=["kube-scheduler", "t9k-scheduler"]
)
def test_no_gate_is_added_by_the_component_placement(shape: str, spec: dict[str, Any]) -> None:
    changed = after(load_installed(PLACEMENT, placement=False), t9k_mpijob(shape, **spec))
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
def test_shared_memory_is_the_tables_size_or_the_memory_limit_if_that_is_smaller(
    shape: str, limits: dict[str, Any], size: str
) -> None:
    spec = stored(t9k_mpijob(shape, limits=limits))
    assert spec["volumes"] == [{"name": "dshm", "emptyDir": {"medium": "Memory", "sizeLimit": size}}]
    assert spec["containers"][0]["volumeMounts"] == [{"mountPath": "/dev/shm", "name": "dshm"}]  # noqa: S108 - where the container sees it


def test_the_size_is_a_value_of_the_table(shape: str) -> None:
    table = extended("values: {sharedMemory: 64Gi}\n")
    for memory, size in ((None, "64Gi"), ("32Gi", "32Gi")):
        job = after(table, t9k_mpijob(shape, limits={"memory": memory} if memory else None))
        (volume,) = worker_of(job)["template"]["spec"]["volumes"]
        assert volume["emptyDir"]["sizeLimit"] == size


def test_a_volume_of_that_name_keeps_its_size(shape: str) -> None:
    job = t9k_mpijob(shape)
    volume = {"name": "dshm", "emptyDir": {"medium": "Memory", "sizeLimit": "8Gi"}}
    worker_of(job)["template"]["spec"]["volumes"] = [volume]
    result = outcome(load_default(), job)
    assert worker_of(result.after)["template"]["spec"]["volumes"] == [volume]
    assert result.warnings == ()


def test_a_job_that_was_exported_and_whose_limit_was_lowered_gets_the_smaller_size(shape: str) -> None:
    once = after(load_default(), t9k_mpijob(shape))
    worker_of(once)["template"]["spec"]["containers"][0]["resources"]["limits"]["memory"] = "256Mi"
    (volume,) = stored(once)["volumes"]
    assert volume["emptyDir"]["sizeLimit"] == "256Mi"


@pytest.mark.parametrize(("size", "text"), [('""', "''"), ("plenty", "'plenty'")])
def test_a_size_that_is_no_quantity_is_refused(shape: str, size: str, text: str) -> None:
    matching = [row[3] for row in problems(EXTENDS + f"values: {{sharedMemory: {size}}}\n")]
    assert shape
    assert set(matching) == {f"must be a quantity above 0, such as 1Gi, not {text}"}
