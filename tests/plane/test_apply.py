"""Tests of applying a job again with kubectl: the webhook's fields stay, and no field manager owns them."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from testbed.mpijob import mpijob
from testbed.plane.jobs import export_job, template
from testbed.plane.kubectl import Kubectl
from tests.plane.examples import assert_changed
from tests.plane.ways import templates, way, with_own_lists

pytestmark = pytest.mark.usefixtures("registered_webhook")


@way
def test_kubectl_diff_finds_no_difference_after_apply(way: tuple[str, ...], namespace: Kubectl) -> None:
    namespace.apply(mpijob(4), *way)
    # kubectl reads the job twice. If the operator writes the status in between, kubectl prints a difference.
    namespace.wait_for(lambda job: "conditions" in job.get("status", {}), "mpijob", "train")
    result = namespace.run("diff", *way, "-f", "-", stdin=json.dumps(mpijob(4)), check=False)
    assert (result.returncode, result.stdout) == (0, "")


@way
def test_applying_a_changed_file_keeps_the_fields_that_the_webhook_added(
    way: tuple[str, ...], namespace: Kubectl
) -> None:
    first = namespace.apply(mpijob(4), *way)
    namespace.apply(mpijob(4, worker_spec={"tolerations": [{"operator": "Exists"}]}), *way)
    second = namespace.get_json("mpijob", "train")
    assert template(second, "Worker")["spec"].pop("tolerations") == [{"operator": "Exists"}]
    assert templates(second) == templates(first)


@way
def test_no_field_manager_owns_the_fields_that_the_webhook_added(
    way: tuple[str, ...], namespace: Kubectl
) -> None:
    namespace.apply(mpijob(4), *way)
    stored = namespace.get_json("mpijob", "train", "--show-managed-fields")
    managed = [entry for entry in stored["metadata"]["managedFields"] if entry.get("subresource") != "status"]
    assert [entry["manager"] for entry in managed] == ["kubectl" if way else "kubectl-client-side-apply"]
    assert set(leaves(managed[0]["fieldsV1"]["f:spec"]["f:mpiReplicaSpecs"])) == {
        *("Launcher.replicas", "Launcher.template.spec.containers"),
        *("Worker.replicas", "Worker.template.spec.containers"),
    }


def leaves(fields: dict[str, Any], path: str = "") -> Iterator[str]:
    """Yields the dotted path of each field in a FieldsV1, without the items of lists."""
    for key, inner in fields.items():
        if key == ".":
            continue
        field_path = f"{path}.{key.removeprefix('f:')}".lstrip(".")
        inner_fields = [name for name in inner if name.startswith("f:")]
        if inner_fields:
            yield from leaves(inner, field_path)
        else:
            yield field_path


def test_applying_an_exported_job_in_its_namespace_changes_nothing(namespace: Kubectl) -> None:
    first = namespace.apply(with_own_lists())
    again = namespace.apply(export_job(namespace, "train"))
    assert again["spec"] == first["spec"]
    assert again["metadata"]["generation"] == first["metadata"]["generation"] == 1


def test_the_webhook_changes_the_examples_of_shapes_and_claims(namespace: Kubectl) -> None:
    assert_changed(namespace, "shapes", "claims")
