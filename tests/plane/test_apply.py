"""Applying a job again, in every way that kubectl has: the webhook's terms are no one's and stay."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from testbed.mpijob import mpijob
from testbed.plane.jobs import exported, template
from testbed.plane.kubectl import Kubectl
from tests.plane.examples import assert_changed
from tests.plane.ways import templates, way, with_own_lists

pytestmark = pytest.mark.usefixtures("registered_webhook")


@way
def test_kubectl_diff_finds_no_difference_after_apply(way: tuple[str, ...], namespace: Kubectl) -> None:
    namespace.apply(mpijob(4), *way)
    # kubectl reads the job twice; a status that the operator writes in between is a difference.
    namespace.wait_for(lambda job: "conditions" in job.get("status", {}), "mpijob", "train")
    done = namespace.run("diff", *way, "-f", "-", stdin=json.dumps(mpijob(4)), check=False)
    assert (done.returncode, done.stdout) == (0, "")


@way
def test_a_changed_file_changes_its_own_fields_and_leaves_the_webhooks_terms(
    way: tuple[str, ...], namespace: Kubectl
) -> None:
    first = namespace.apply(mpijob(4), *way)
    namespace.apply(mpijob(4, worker_spec={"tolerations": [{"operator": "Exists"}]}), *way)
    second = namespace.get_json("mpijob", "train")
    assert template(second, "Worker")["spec"].pop("tolerations") == [{"operator": "Exists"}]
    assert templates(second) == templates(first)


@way
def test_what_the_webhook_added_belongs_to_no_field_manager(way: tuple[str, ...], namespace: Kubectl) -> None:
    namespace.apply(mpijob(4), *way)
    stored = namespace.get_json("mpijob", "train", "--show-managed-fields")
    managed = [entry for entry in stored["metadata"]["managedFields"] if entry.get("subresource") != "status"]
    assert [entry["manager"] for entry in managed] == ["kubectl" if way else "kubectl-client-side-apply"]
    assert set(leaves(managed[0]["fieldsV1"]["f:spec"]["f:mpiReplicaSpecs"])) == {
        *("Launcher.replicas", "Launcher.template.spec.containers"),
        *("Worker.replicas", "Worker.template.spec.containers"),
    }


def leaves(fields: dict[str, Any], path: str = "") -> Iterator[str]:
    """Yields the dotted paths of a FieldsV1, as far as the maps go."""
    for key, build_base in fields.items():
        if key == ".":
            continue
        here = f"{path}.{key.removeprefix('f:')}".lstrip(".")
        deeper = [name for name in build_base if name.startswith("f:")]
        if deeper:
            yield from leaves(build_base, here)
        else:
            yield here


def test_an_export_that_is_applied_where_it_came_from_changes_nothing(namespace: Kubectl) -> None:
    first = namespace.apply(with_own_lists())
    again = namespace.apply(exported(namespace, "train"))
    assert again["spec"] == first["spec"]
    assert again["metadata"]["generation"] == first["metadata"]["generation"] == 1


def test_the_examples_of_shapes_and_claims_are_changed(namespace: Kubectl) -> None:
    assert_changed(namespace, "shapes", "claims")
