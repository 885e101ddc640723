"""Tests that a preview shows the fields that the webhook adds to the Pods of the real operators."""

from collections.abc import Callable, Iterator

import pytest

from testbed.plane.controlplane import ControlPlane
from testbed.plane.kubectl import Kubectl, Object
from tests.plane.kinds.jobs import job, jobset, leaderworkerset, mpijob_v1, pytorchjob, trainjob
from tests.plane.previewed import SIZES, assert_as_previewed, blocks, pods_of
from webhook.preview.hints import SCALARS

JOBS: dict[str, Callable[[int], Object]] = {
    "Job": lambda size: job(size, completionMode="Indexed"),
    "Job without numbers": job,
    "JobSet": lambda size: jobset(max(1, size // 2), min(2, size)),
    "LeaderWorkerSet": lambda size: leaderworkerset(1, size),
    "PyTorchJob": lambda size: pytorchjob(size - (size > 1), masters=int(size > 1)),
    "MPIJob v1": mpijob_v1,
    "TrainJob": trainjob,
}


DEFINITIONS = (
    "jobsets.jobset.x-k8s.io",
    "leaderworkersets.leaderworkerset.x-k8s.io",
    "pytorchjobs.kubeflow.org",
    "mpijobs.kubeflow.org",
)


def fields_of(schema: Object) -> Iterator[tuple[str, str]]:
    """Yields the name and the type of each field outside of pod templates."""
    for name, inner in schema.get("properties", {}).items():
        yield name, inner.get("type", "")
    subschemas = [
        *schema.get("properties", {}).values(),
        schema.get("items"),
        schema.get("additionalProperties"),
    ]
    for inner in subschemas:
        if isinstance(inner, dict) and "containers" not in inner.get("properties", {}):
            yield from fields_of(inner)


@pytest.mark.parametrize("name", DEFINITIONS)
def test_the_known_field_types_are_the_types_of_the_real_definitions(name: str, plane: ControlPlane) -> None:
    """Protects users from a wrong warning that the API server refuses a field."""
    (version,) = plane.kubectl.get_json("crd", name)["spec"]["versions"]
    fields = set(fields_of(version["schema"]["openAPIV3Schema"]["properties"]["spec"]))
    typed_fields = {(field, SCALARS[field]["type"]) for field, _ in fields if field in SCALARS}
    assert typed_fields
    assert typed_fields == {(field, type_name) for field, type_name in fields if field in SCALARS}


@pytest.mark.usefixtures("runtime")
@pytest.mark.parametrize("kind", JOBS)
def test_previewed_pods_get_the_same_changes_as_pods_of_the_operator(kind: str, namespace: Kubectl) -> None:
    jobs = {f"of-{size}": JOBS[kind](size) for size in SIZES}
    for name, document in jobs.items():
        document["metadata"]["name"] = name
        namespace.create(document)
    for (name, document), size in zip(jobs.items(), SIZES, strict=True):
        pods = pods_of(namespace, name, size + (kind == "MPIJob v1"))
        # The pod templates of a TrainJob are in the JobSet that Kubeflow Trainer creates for it.
        previewed_job = namespace.get_json("jobset", name) if kind == "TrainJob" else document
        assert_as_previewed(namespace, previewed_job, pods)
        group = "0-" * (kind == "LeaderWorkerSet")
        has_two_blocks = size == 8 and "without" not in kind
        assert blocks(pods) == ({f"{group}0", f"{group}1"} if has_two_blocks else set())
